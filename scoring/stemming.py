"""Porter's stemmer for English words.

Source: M. F. Porter, "An algorithm for suffix stripping", Program 14(3), 1980, steps 1a to 5b.
It stands here, and not in a library, because the client must stem exactly as the server does and
depends on nothing but grpcio, protobuf and numpy.
"""

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Final

_VOWELS: Final = frozenset("aeiou")

_STEP_2: Final = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"),
    ("abli", "able"), ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"),
    ("ization", "ize"), ("ation", "ate"), ("ator", "ate"), ("alism", "al"), ("iveness", "ive"),
    ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"), ("iviti", "ive"), ("biliti", "ble"),
)  # fmt: skip
_STEP_3: Final = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""),
    ("ness", ""),
)  # fmt: skip
_STEP_4: Final = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism",
    "ate", "iti", "ous", "ive", "ize",
)  # fmt: skip


def _is_consonant(word: str, position: int) -> bool:
    letter = word[position]
    if letter in _VOWELS:
        return False
    if letter == "y":
        return position == 0 or not _is_consonant(word, position - 1)
    return True


def _measure(stem: str) -> int:
    """Porter's m: how many vowel-consonant sequences the stem holds."""
    kinds = [_is_consonant(stem, position) for position in range(len(stem))]
    return sum(1 for before, after in pairwise(kinds) if not before and after)


def _has_vowel(stem: str) -> bool:
    return any(not _is_consonant(stem, position) for position in range(len(stem)))


def _ends_double_consonant(word: str) -> bool:
    return len(word) >= 2 and word[-1] == word[-2] and _is_consonant(word, len(word) - 1)


def _ends_consonant_vowel_consonant(word: str) -> bool:
    """Porter's *o: consonant, vowel, consonant, the last not w, x or y."""
    return (
        len(word) >= 3
        and _is_consonant(word, len(word) - 3)
        and not _is_consonant(word, len(word) - 2)
        and _is_consonant(word, len(word) - 1)
        and word[-1] not in "wxy"
    )


def _replace_longest(word: str, rules: tuple[tuple[str, str], ...], condition: Callable[[str], bool]) -> str:
    matching = [rule for rule in rules if word.endswith(rule[0])]
    if not matching:
        return word
    suffix, replacement = max(matching, key=lambda rule: len(rule[0]))
    stem = word[: len(word) - len(suffix)]
    return stem + replacement if condition(stem) else word


def _step_1a(word: str) -> str:
    for suffix, replacement in (("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", "")):
        if word.endswith(suffix):
            return word[: len(word) - len(suffix)] + replacement
    return word


def _step_1b(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        stem = word[: len(word) - len(suffix)]
        if word.endswith(suffix) and _has_vowel(stem):
            if stem.endswith(("at", "bl", "iz")):
                return stem + "e"
            if _ends_double_consonant(stem) and stem[-1] not in "lsz":
                return stem[:-1]
            if _measure(stem) == 1 and _ends_consonant_vowel_consonant(stem):
                return stem + "e"
            return stem
    return word


def _step_4(word: str) -> str:
    matching = [suffix for suffix in _STEP_4 if word.endswith(suffix)]
    if not matching:
        return word
    suffix = max(matching, key=len)
    stem = word[: len(word) - len(suffix)]
    if _measure(stem) <= 1 or (suffix == "ion" and not stem.endswith(("s", "t"))):
        return word
    return stem


def _step_5(word: str) -> str:
    if word.endswith("e"):
        stem = word[:-1]
        measure = _measure(stem)
        if measure > 1 or (measure == 1 and not _ends_consonant_vowel_consonant(stem)):
            word = stem
    if word.endswith("ll") and _measure(word) > 1:
        word = word[:-1]
    return word


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """The stem of one lower-case ASCII word; words of one or two letters are returned as they are."""
    if len(word) <= 2:
        return word
    word = _step_1b(_step_1a(word))
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    word = _replace_longest(word, _STEP_2, lambda stem: _measure(stem) > 0)
    word = _replace_longest(word, _STEP_3, lambda stem: _measure(stem) > 0)
    return _step_5(_step_4(word))
