"""What is known of each rung that a session may see: what the server claimed, and what is held of it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from precall.scoring.keyword import Statistics
from precall.scoring.vocabulary import Vocabulary

_LEAST_LEFT: Final = 256
"""Items that may have gone before the counts of their terms are taken off."""


class Rung:
    """One ladder level of the session's lineage.

    A complete rung is counted from the held items themselves: exact at every moment, also between an
    invalidation and the server's next claim. Of an incomplete one the server's counts are used.
    """

    def __init__(self) -> None:
        self.complete = False
        self.held = 0
        self._came: Counter[str] = Counter()  # of what is held, and of some that is not any more
        self._went: Counter[str] = Counter()  # of that
        self._left = 0
        self._claimed = Statistics()
        self._counted: set[str] = set()  # terms whose claimed counts follow every write
        self._vocabulary: Vocabulary | None = None

    def add(self, terms: Iterable[str]) -> None:
        """An item with these terms, none of them twice, is held."""
        self.held += 1
        self._came.update(terms)

    def remove(self, terms: Iterable[str]) -> None:
        """Such an item is held no more."""
        self.held -= 1
        self._left += 1
        self._went.update(terms)  # counting up takes a fifth of counting down, term by term
        if self._left > max(self.held, _LEAST_LEFT):
            went = self._went
            self._came = Counter({t: n - went[t] for t, n in self._came.items() if n > went[t]})
            self._went, self._left = Counter(), 0

    def frequency(self, term: str) -> int:
        """Held items that have the term."""
        return self._came.get(term, 0) - self._went.get(term, 0)

    @property
    def held_frequencies(self) -> Mapping[str, int]:
        """Of every term that a held item has; for tests."""
        return {term: count for term in self._came if (count := self.frequency(term))}

    def claim(
        self, *, complete: bool, documents: int, frequencies: Mapping[str, int], vocabulary: bytes = b""
    ) -> None:
        """Take over the server's counts. They name some terms only: the others keep what was said of them.

        ``vocabulary``: of all its terms, if it comes with this claim. Raises ValueError for what is none.
        """
        if vocabulary:
            self._vocabulary = Vocabulary(vocabulary)
        self.complete = complete
        self._claimed.documents = documents
        self._claimed.frequencies.update(frequencies)
        self._counted.update(frequencies)

    def interrupt(self) -> None:
        """Writes may have been missed: counts weigh terms still, and no longer say what there is."""
        self._counted.clear()
        self._vocabulary = None

    def may_lack(self, term: str) -> bool:
        """Whether a memory that has the term may stand on the rung without being held."""
        if term not in self._counted:
            return self._vocabulary is None or term in self._vocabulary
        return self._claimed.frequencies[term] > self.frequency(term)

    def statistics(self, terms: Iterable[str]) -> Statistics:
        """Counts for these terms. What is held is a lower bound of what there is."""
        held = {term: self.frequency(term) for term in terms}
        if self.complete:
            return Statistics(self.held, held)
        claimed = self._claimed.frequencies
        return Statistics(
            max(self._claimed.documents, self.held),
            {term: max(count, claimed.get(term, 0)) for term, count in held.items()},
        )
