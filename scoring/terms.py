"""From text to keyword terms: the one analysis that documents and queries go through."""

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from precall.scoring import arabic, devanagari, romanised_hindi
from precall.scoring.stemming import stem

ANALYZER_VERSION: Final = 2
"""Raised with each change to what `analyze` makes of any text: terms that another version made are of another
language, and what was stored with them has to be analysed anew.
"""

# English words that carry grammar and not content. Question words are among them: they stand in nearly every
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

_WITH_HINDI: Final = STOP_WORDS | romanised_hindi.STOP_WORDS

# Scripts written without spaces between words: their runs are cut into overlapping pairs of characters.
_UNSPACED: Final = (
    "\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
)
# Vowel signs and other marks inside words, which \w leaves out: Latin, Arabic, and the Indic blocks
# without their full stops (danda).
_MARKS: Final = "\u0300-\u036f\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff"
_WORD: Final = re.compile(rf"[{_UNSPACED}]+|(?:(?![{_UNSPACED}])[\w{_MARKS}])+")
_UNSPACED_RUN: Final = re.compile(rf"[{_UNSPACED}]")
_DEVANAGARI: Final = re.compile("[\u0900-\u097f]")
_ARABIC: Final = re.compile("[\u0600-\u06ff]")
# They shape Indic letters and part no words there, as they do elsewhere.
_INDIC_JOINERS: Final = re.compile("(?<=[\u0900-\u0dff])[\u200c\u200d]+")


def analyze(text: str) -> list[str]:
    """The terms of a text in reading order, repeated as often as they occur.

    Compatibility forms and case are folded (NFKC), digits become ASCII. Stop words of English, Hindi in both
    its scripts and Arabic are dropped; ASCII words, Devanagari and Arabic are stemmed, words of other scripts
    are kept whole, and unspaced scripts become pairs of characters.
    A text of nothing but stop words keeps them, so that "who" can still find "The Who".
    """
    return terms_of(words_of(text))


def words_of(text: str) -> list[str]:
    """The words of a text in their order, folded; a run of an unspaced script is one of them."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return _WORD.findall(folded if folded.isascii() else _INDIC_JOINERS.sub("", folded))


def terms_of(words: Sequence[str]) -> list[str]:
    """The terms of the `words_of` a text."""
    stop_words = _WITH_HINDI if romanised_hindi.is_romanised_hindi(words) else STOP_WORDS
    terms: list[str] = []
    for word in words:
        if word.isascii():
            if word not in stop_words:
                terms.append(stem(word))
        elif _UNSPACED_RUN.match(word):
            terms.extend(a + b for a, b in pairwise(word)) if len(word) > 1 else terms.append(word)
        else:
            terms.extend(_other_term(word))
    return terms or list(words)


def _other_term(word: str) -> Sequence[str]:
    """The term of a word that is not in ASCII and stands between spaces; none for a stop word."""
    if word.isdecimal():
        return ["".join(str(unicodedata.decimal(digit)) for digit in word)]
    for script, language in ((_DEVANAGARI, devanagari), (_ARABIC, arabic)):
        if script.match(word):
            folded = language.fold(word)
            return [language.stem(folded)] if folded and folded not in language.STOP_WORDS else []
    return [word]
