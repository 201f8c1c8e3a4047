"""The words of what is held: keyword scores for a set that changes as often as it is searched."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

_FIRST_CAPACITY: Final = 1_024
_GONE: Final = -1
_LEAST_GONE: Final = 4_096
"""Entries of dropped documents that are put up with, however few are left."""


class HeldTerms:
    """Term weights over dense slots ``0 .. documents-1``; removing moves the last slot into the hole.

    The server's `precall.scoring.keyword.KeywordIndex` finds a term's documents at once, and pays for that
    with several dictionary steps a term whenever a document comes or goes. In a cache dozens come and go with
    every word that is spoken: so terms stand here in one column, document after document, and a search looks
    through it (2,000 documents: 100 us instead of 30; a document comes and goes in 5 us instead of 70).
    Scores are added up in the same order as there, in float32.

    Terms are numbered as they come. An *entry* is a term of a document; those of dropped ones are blanked at
    once, and squeezed out when they are more than those that stand.
    """

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._numbers: dict[str, int] = {}
        self._words: list[str] = []
        self._terms = np.empty(0, np.int32)  # an entry's term by number, or _GONE
        self._weights = np.empty(0, np.float32)
        self._documents = np.empty(0, np.int32)  # an entry's document
        self._used = 0
        self._gone = 0
        self._slots = np.empty(0, np.int32)  # a document's slot
        self._at: list[int] = []  # a slot's document
        self._spans: list[tuple[int, int]] = []  # a document's entries

    @property
    def documents(self) -> int:
        return len(self._at)

    def extend(self, documents: Sequence[Sequence[str]], weights: NDArray[np.float32]) -> None:
        """Append documents. ``documents``: the terms of each, none of them twice. ``weights``: of the first
        one's terms, then of the second one's, and so on; as many as there are terms.
        """
        lengths = list(map(len, documents))
        numbers = self._numbered(list(chain.from_iterable(documents)))
        begin, end = self._used, self._used + len(numbers)
        first, count = len(self._spans), len(documents)
        self._make_room(end, first + count)
        self._terms[begin:end] = numbers
        self._weights[begin:end] = weights
        self._documents[begin:end] = np.repeat(np.arange(first, first + count), lengths)
        self._used = end
        self._slots[first : first + count] = np.arange(self.documents, self.documents + count)
        self._at.extend(range(first, first + count))
        for length in lengths:
            self._spans.append((begin, begin := begin + length))

    def remove(self, slot: int) -> None:
        """Drop a document; the last one takes its slot."""
        begin, end = self._spans[self._at[slot]]
        self._terms[begin:end] = _GONE
        self._weights[begin:end] = 0.0
        self._gone += end - begin
        last = self._at.pop()
        if slot < len(self._at):
            self._at[slot] = last
            self._slots[last] = slot
        if self._gone > max(self._used - self._gone, _LEAST_GONE):
            self._squeeze()

    def terms(self, slot: int) -> list[str]:
        """The terms that a document was added with."""
        begin, end = self._spans[self._at[slot]]
        return [self._words[number] for number in self._terms[begin:end].tolist()]

    def impacts(self, slot: int) -> dict[str, float]:
        """Term -> weight, as the document was added."""
        begin, end = self._spans[self._at[slot]]
        return dict(zip(self.terms(slot), self._weights[begin:end].tolist(), strict=True))

    def scores(self, term_weights: Mapping[str, float]) -> NDArray[np.float32]:
        """BM25 of every slot, float32, shape ``(documents,)``; ``term_weights`` maps term -> idf."""
        totals = np.zeros(self.documents, np.float32)
        weighed = ((self._numbers.get(term, _GONE), weight) for term, weight in term_weights.items())
        known = [(number, weight) for number, weight in weighed if number != _GONE]
        if not known:
            return totals
        wanted = np.zeros(len(self._words) + 1, np.bool_)  # the last place is _GONE's
        wanted[[number for number, _ in known]] = True
        entries = np.flatnonzero(wanted[self._terms[: self._used]])
        terms, slots = self._terms[entries], self._slots[self._documents[entries]]
        weights = self._weights[entries]
        for number, weight in known:
            these = terms == number
            totals[slots[these]] += weights[these] * np.float32(weight)
        return totals

    def _numbered(self, terms: Sequence[str]) -> list[int]:
        numbers, words = self._numbers, self._words
        for term in set(terms).difference(numbers):
            numbers[term] = len(words)
            words.append(term)
        return list(map(numbers.__getitem__, terms))

    def _make_room(self, entries: int, documents: int) -> None:
        if entries > len(self._terms):
            capacity = max(_FIRST_CAPACITY, entries, 2 * len(self._terms))
            self._terms = _grown(self._terms, capacity)
            self._weights = _grown(self._weights, capacity)
            self._documents = _grown(self._documents, capacity)
        if documents > len(self._slots):
            self._slots = _grown(self._slots, max(_FIRST_CAPACITY, documents, 2 * len(self._slots)))

    def _squeeze(self) -> None:
        """Begin anew with what stands, in the order of slots: no word of anything dropped is left."""
        standing = [self.terms(slot) for slot in range(self.documents)]
        spans = [self._spans[document] for document in self._at]
        kept = [self._weights[begin:end] for begin, end in spans]
        weights = np.concatenate(kept) if kept else np.empty(0, np.float32)
        self._clear()
        self.extend(standing, weights)

    def check_integrity(self) -> None:
        """Raise AssertionError when the columns disagree; for tests."""
        assert self._words == list(self._numbers)
        assert list(self._numbers.values()) == list(range(len(self._words)))
        standing = 0
        for slot, document in enumerate(self._at):
            begin, end = self._spans[document]
            assert self._slots[document] == slot and (self._documents[begin:end] == document).all()
            assert (self._terms[begin:end] >= 0).all()
            standing += end - begin
        assert standing == self._used - self._gone == np.count_nonzero(self._terms[: self._used] >= 0)
        assert not self._weights[: self._used][self._terms[: self._used] < 0].any()


def _grown(column: NDArray, capacity: int) -> NDArray:  # type: ignore[type-arg]
    grown = np.zeros(capacity, column.dtype)
    grown[: len(column)] = column
    return grown
