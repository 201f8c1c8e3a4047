"""What is known of each rung that a session may see: what the server claimed, and what is held of it."""

from collections import Counter
from collections.abc import Iterable, Mapping

from precall.scoring.keyword import Statistics


class Rung:
    """One ladder level of the session's lineage.

    A complete rung is counted from the held items themselves: exact at every moment, also between an
    invalidation and the server's next claim. Of an incomplete one the server's counts are used.
    """

    def __init__(self) -> None:
        self.complete = False
        self.held = 0
        self.held_frequencies: Counter[str] = Counter()
        self._claimed = Statistics()

    def add(self, impacts: Mapping[str, float]) -> None:
        self.held += 1
        self.held_frequencies.update(impacts.keys())

    def remove(self, impacts: Mapping[str, float]) -> None:
        self.held -= 1
        for term in impacts:
            self.held_frequencies[term] -= 1
            if not self.held_frequencies[term]:
                del self.held_frequencies[term]

    def claim(self, *, complete: bool, documents: int, frequencies: Mapping[str, int]) -> None:
        """Take over the server's counts. They name some terms only: the others keep what was said of them."""
        self.complete = complete
        self._claimed.documents = documents
        self._claimed.frequencies.update(frequencies)

    def statistics(self, terms: Iterable[str]) -> Statistics:
        """Counts for these terms. What is held is a lower bound of what there is."""
        held = {term: self.held_frequencies.get(term, 0) for term in terms}
        if self.complete:
            return Statistics(self.held, held)
        claimed = self._claimed.frequencies
        return Statistics(
            max(self._claimed.documents, self.held),
            {term: max(count, claimed.get(term, 0)) for term, count in held.items()},
        )
