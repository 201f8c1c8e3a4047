"""From text to keyword terms: the one analysis that documents and queries go through."""

import re
import unicodedata
from itertools import pairwise
from typing import Final

from precall.scoring.stemming import stem

# Words that carry grammar and not content. Question words are among them: they stand in nearly every
# query and in few of the statements that answer it.
STOP_WORDS: Final = frozenset(
    """
    a about above after again all also am an and any are as at be because been before being below between
    both but by can could did do does doing down during each few for from further had has have having he
    her here hers him his how i if in into is it its just me more most my no nor not now of off on once
    only or other our out over own same she should so some such than that the their them then there these
    they this those through to too under until up very was we were what when where which while who whom
    why will with would you your s t d ll m re ve
    """.split()  # noqa: SIM905 - a list of 150 quoted words is no easier to read
)

# Scripts written without spaces between words: their runs are cut into overlapping pairs of characters.
_UNSPACED: Final = (
    "\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
)
# Vowel signs and other marks inside words, which \w leaves out: Latin, Arabic, and the Indic blocks
# without their full stops (danda).
_MARKS: Final = "\u0300-\u036f\u0610-\u061a\u064b-\u065f\u0900-\u0963\u0966-\u0dff"
_WORD: Final = re.compile(rf"[{_UNSPACED}]+|(?:(?![{_UNSPACED}])[\w{_MARKS}])+")
_UNSPACED_RUN: Final = re.compile(rf"[{_UNSPACED}]")


def analyze(text: str) -> list[str]:
    """The terms of a text in reading order, repeated as often as they occur.

    Compatibility forms are folded (NFKC), case is folded, English stop words are dropped, ASCII words are
    stemmed; words of other scripts are kept whole, and unspaced scripts become pairs of characters.
    A text of nothing but stop words keeps them, so that "who" can still find "The Who".
    """
    words = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    terms: list[str] = []
    for word in words:
        if _UNSPACED_RUN.match(word):
            terms.extend(a + b for a, b in pairwise(word)) if len(word) > 1 else terms.append(word)
        elif word not in STOP_WORDS:
            terms.append(stem(word) if word.isascii() else word)
    return terms or words
