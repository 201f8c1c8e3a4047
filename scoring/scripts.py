"""The script that a term is written in."""

import unicodedata
from functools import lru_cache


def script_of(term: str) -> str | None:
    """The script of the first letter: "latin", "devanagari", "arabic", "cjk"; None when there is no letter.

    It is called what Unicode's names of its letters begin with, in lower case.
    """
    return next((_script(character) for character in term if character.isalpha()), None)


@lru_cache(maxsize=4_096)
def _script(letter: str) -> str:
    return unicodedata.name(letter, "unknown").partition(" ")[0].lower()
