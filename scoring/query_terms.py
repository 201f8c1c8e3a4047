"""The terms of a query, and what can be told of its language."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from precall.scoring import terms as analysis
from precall.scoring.romanised_hindi import is_romanised_hindi
from precall.scoring.scripts import script_of

_OF_HINDI: Final = "devanagari"
_LATIN: Final = "latin"


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """``terms``: each once, in reading order. ``scripts``: one a term; None for a term without a letter.

    Hindi in Latin letters counts as what it is when it is written properly: its Latin terms are Devanagari's.
    """

    terms: tuple[str, ...]
    scripts: tuple[str | None, ...]

    @classmethod
    def of(cls, text: str) -> "QueryTerms":
        words = analysis.words_of(text)
        terms = tuple(dict.fromkeys(analysis.terms_of(words)))
        scripts = tuple(script_of(term) for term in terms)
        if is_romanised_hindi(words):
            scripts = tuple(_OF_HINDI if script == _LATIN else script for script in scripts)
        return cls(terms, scripts)

    def share_outside(self, scripts: Collection[str]) -> float:
        """Share of the terms whose script is not among these, in [0, 1]. ``scripts`` empty: all there are.

        A number says nothing of its language and is not counted; without any other term the share is 0.
        """
        written = [script for script in self.scripts if script is not None]
        if not scripts or not written:
            return 0.0
        return sum(script not in scripts for script in written) / len(written)
