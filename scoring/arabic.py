"""Words in Arabic script, freed of what is written or left out at will and of what is attached to them.

A light stemmer in the way of Larkey, Ballesteros & Connell, "Light Stemming for Arabic Information Retrieval"
(2007): letters that writers use for one another become one, then the article with what is joined to it and
the commonest endings go. No roots are looked for.
"""
# ruff: noqa: RUF001 - letters of Arabic are meant

import re
from typing import Final

_UNWRITTEN: Final = re.compile("[\u0610-\u061a\u064b-\u065f\u0670\u0640]")
"""Vowel signs and other marks above and below the letters, and the stroke that only stretches a word."""

_ONE_FOR_ANOTHER: Final = str.maketrans(
    {"أ": "ا", "إ": "ا", "آ": "ا", "ٱ": "ا", "ى": "ي", "ة": "ه", "ؤ": "و", "ئ": "ي"}
)
_PREFIXES: Final = ("وال", "بال", "كال", "فال", "ال", "لل")
_SUFFIXES: Final = ("ها", "ان", "ات", "ون", "ين", "يه", "ه", "ي")
_AND: Final = "و"
_SHORTEST_WITH_AND: Final = 4
_SHORTEST_STEM: Final = 2


def fold(word: str) -> str:
    """The word without its marks, each group of interchangeable letters written as one; may be empty."""
    return _UNWRITTEN.sub("", word).translate(_ONE_FOR_ANOTHER)


def stem(folded: str) -> str:
    """A folded word without a leading "and", its article, and its endings; two letters are always left."""
    word = folded
    if len(word) >= _SHORTEST_WITH_AND and word.startswith(_AND):
        word = word[1:]
    for prefix in _PREFIXES:
        if word.startswith(prefix) and len(word) - len(prefix) >= _SHORTEST_STEM:
            word = word[len(prefix) :]
            break
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _SHORTEST_STEM:
            word = word[: -len(suffix)]
    return word


STOP_WORDS: Final = frozenset(
    fold(word)
    for word in """
    في من على إلى عن مع هذا هذه ذلك تلك التي الذي الذين ما ماذا متى أين كيف كم هل أي أو و ثم أن إن كان كانت
    يكون هو هي هم كما قد لا لم لن بعد قبل عند بين كل بعض غير حتى إذا لكن
    """.split()  # noqa: SIM905 - a list of 46 quoted words is no easier to read
)
"""Folded. Prepositions, pronouns, particles, forms of "to be" and question words."""
