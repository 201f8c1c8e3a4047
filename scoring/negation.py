"""Whether a text denies something: "not", "never", "no longer", and the like in Hindi, Chinese and Arabic.

To a vector "what she eats" and "what she does not eat" are nearly one, and the words that part them carry
grammar, which the keyword terms leave out.
"""

import re
import unicodedata
from typing import Final

_NEGATION: Final = re.compile(
    "|".join(
        (
            r"\b(?:not|never|no|none|nobody|nothing|nowhere|neither|nor|without|cannot|except|unlike|hardly)\b",
            r"n't\b|\b(?:dont|doesnt|didnt|isnt|wasnt|arent|wont|cant|couldnt|wouldnt|hasnt|havent|hadnt)\b",
            r"\b(?:nahi|nahin|nhi|bina)\b",
            "(?<!\\w)(?:नहीं|नही|मत|बिना|बगैर)(?!\\w)",
            "不|没|沒|无法|未曾|未必|并非",
            r"\b(?:لا|ليس|ليست|لم|لن|بدون|ما عدا)\b",
        )
    )
)


def negates(text: str) -> bool:
    """Whether the text holds a word of denial."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'")
    return _NEGATION.search(folded) is not None
