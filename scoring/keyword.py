"""Keyword scores that do not depend on who computes them.

BM25 (Robertson & Zaragoza, "The Probabilistic Relevance Framework", 2009) factored into a weight that
belongs to the document alone and one that belongs to the query:

    score(q, d) = sum over t in q of  idf(t) * impact(t, d)
    impact(t, d) = tf * (k1 + 1) / (tf + k1 * (1 - b + b * |d| / L))
    idf(t) = ln(1 + (N - df + 0.5) / (df + 0.5))

|d| is compared with a fixed length L rather than with the corpus' mean, so an impact does not change with
what else is written: it can be stored, sent to a client, and stay true.

An answer seldom repeats what it answers: "Yes, last Friday!" holds no word of a question about the trip that
was named just before. So a document may take in, at a share, what was said before it:

    tf = count(t, d) + sum over i of  CONTEXT_SHARES[i] * count(t, i-th before d)

and |d| is the same sum over lengths.
"""

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.scoring.vocabulary import Vocabulary

K1: Final = 0.9
B: Final = 0.25
REFERENCE_LENGTH: Final = 16.0
"""Terms in a typical memory: a turn of LoCoMo conversation 26 has 15.8 on average, one of 30 has 13.9.

K1 and B: grid over the same two conversations, together with earlier constants of `precall.scoring.fusion`.
"""

CONTEXT_SHARES: Final = (0.7, 0.5)
"""Of what was said just before, and of what was said before that. On the plateau of a grid over the same two
conversations; two more would make the documents half as long again for .003 of recall (`bench/quality.py`).
"""

_SHORT_POSTING: Final = 200
"""Up to here looking for a slot one by one is quicker than asking numpy."""


def document_impacts(terms: Sequence[str], before: Sequence[Sequence[str]] = ()) -> dict[str, float]:
    """Term -> impact of a document with these terms, rounded to float32 as it is stored and sent.

    ``before``: the terms of what was said before it, the latest first; only as many as there are
    `CONTEXT_SHARES` count.
    """
    frequencies: dict[str, float] = {}
    for term in terms:
        frequencies[term] = frequencies.get(term, 0) + 1
    length: float = len(terms)
    for share, earlier in zip(CONTEXT_SHARES, before, strict=False):
        length += share * len(earlier)
        for term in earlier:
            frequencies[term] = frequencies.get(term, 0.0) + share
    norm = K1 * (1 - B + B * length / REFERENCE_LENGTH)
    impacts = [frequency * (K1 + 1) / (frequency + norm) for frequency in frequencies.values()]
    return dict(zip(frequencies, array("f", impacts), strict=True))


def inverse_document_frequency(documents: int, document_frequency: int) -> float:
    """Always positive, also for a term that every document holds."""
    return math.log(1 + (documents - document_frequency + 0.5) / (document_frequency + 0.5))


class Statistics:
    """Documents, and documents per term, over the rungs that one search sees."""

    def __init__(self, documents: int = 0, frequencies: Mapping[str, int] | None = None) -> None:
        self.documents = documents
        self.frequencies = dict(frequencies or {})

    def weights(self, query_terms: Iterable[str]) -> dict[str, float]:
        """Term -> idf for the query's terms that occur at all; a repeated term counts once."""
        return {
            term: inverse_document_frequency(self.documents, self.frequencies[term])
            for term in dict.fromkeys(query_terms)
            if self.frequencies.get(term)
        }

    @staticmethod
    def sum(parts: Iterable["Statistics"], terms: Iterable[str]) -> "Statistics":
        """Statistics of disjoint corpora taken together, for these terms."""
        parts = list(parts)
        return Statistics(
            sum(part.documents for part in parts),
            {term: sum(part.frequencies.get(term, 0) for part in parts) for term in dict.fromkeys(terms)},
        )


class _Posting:
    """The slots that hold one term, with their impacts, in no order."""

    __slots__ = ("impacts", "slots", "term")

    def __init__(self, term: str) -> None:
        self.term = term
        self.slots = array("I")
        self.impacts = array("f")

    def position(self, slot: int) -> int:
        if len(self.slots) < _SHORT_POSTING:
            return self.slots.index(slot)
        return int((np.frombuffer(self.slots, np.uint32) == slot).argmax())


class _Numbers(dict[str, int]):
    """Term -> number, in the order in which they are first asked for."""

    def __missing__(self, term: str) -> int:
        number = self[term] = len(self)
        return number


class KeywordIndex:
    """Postings over dense slots ``0 .. documents-1``; removing moves the last slot into the hole.

    Not thread-safe; its owner locks. Invariant: a slot's terms are exactly those it was added with.
    """

    def __init__(self) -> None:
        self._postings: dict[str, _Posting] = {}
        self._terms: list[tuple[str, ...]] = []
        # As the postings have them, once more by document: to find one in the postings takes a search a term.
        # Float32 as bytes, which unlike an array the collector has not to walk over.
        self._impacts: list[bytes] = []
        self._vocabulary: Vocabulary | None = None

    @property
    def documents(self) -> int:
        return len(self._terms)

    def add(self, impacts: Mapping[str, float]) -> int:
        """Append a document; returns its slot."""
        slot = len(self._terms)
        self._impacts.append(array("f", impacts.values()).tobytes())
        words = []
        for term, impact in impacts.items():
            posting = self._postings.get(term) or self._new_posting(term)
            posting.slots.append(slot)
            posting.impacts.append(impact)
            words.append(posting.term)  # and not the caller's: one object a word, not one an occurrence
        self._terms.append(tuple(words))
        return slot

    def extend(self, documents: Sequence[Sequence[str]], impacts: NDArray[np.float32]) -> None:
        """Append many documents, as `add` would one after the other.

        ``documents``: the terms of each, none of them twice. ``impacts``: of the first one's terms, then of
        the second one's, and so on. Raises ValueError when there are more or fewer of them.
        """
        lengths = np.fromiter(map(len, documents), np.int64, len(documents))
        if lengths.sum() != len(impacts):
            raise ValueError(f"{len(impacts)} impacts for {lengths.sum()} terms")
        numbers = _Numbers()
        of_terms = list(map(numbers.__getitem__, chain.from_iterable(documents)))
        numbered = np.array(of_terms, np.int32)
        # The places of the first term come first, each term's in the order of the documents.
        order = np.argsort(numbered, kind="stable")
        first = len(self._terms)
        slots = np.repeat(np.arange(first, first + len(documents), dtype=np.uint32), lengths)
        counts = np.bincount(numbered, minlength=len(numbers))
        words = self._extend_postings(numbers, counts, slots[order], impacts[order])
        ends = np.cumsum(lengths).tolist()
        spans = [slice(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]
        shared = tuple(map(words.__getitem__, of_terms))
        self._terms.extend(map(shared.__getitem__, spans))
        self._impacts.extend([impacts[span].tobytes() for span in spans])

    def _new_posting(self, term: str) -> _Posting:
        posting = self._postings[term] = _Posting(term)
        if self._vocabulary is not None:
            self._vocabulary.update((term,))
        return posting

    def _extend_postings(
        self,
        terms: Iterable[str],
        counts: NDArray[np.int64],
        slots: NDArray[np.uint32],
        impacts: NDArray[np.float32],
    ) -> list[str]:
        """``slots`` and ``impacts``: as many as ``counts`` says of the first term, then of the second, and so
        on. Returns the terms as the postings have them: one object a word.
        """
        slot_bytes, impact_bytes, begin = slots.tobytes(), impacts.tobytes(), 0
        words = []
        for term, count in zip(terms, counts.tolist(), strict=True):
            posting = self._postings.get(term) or self._new_posting(term)
            end = begin + 4 * count
            posting.slots.frombytes(slot_bytes[begin:end])
            posting.impacts.frombytes(impact_bytes[begin:end])
            words.append(posting.term)
            begin = end
        return words

    def remove(self, slot: int) -> None:
        """Drop a document; the last one takes its slot."""
        for term in self._terms[slot]:
            self._drop(term, slot)
        last = len(self._terms) - 1
        if slot != last:
            for term in self._terms[last]:
                posting = self._postings[term]
                posting.slots[posting.position(last)] = slot
            self._terms[slot] = self._terms[last]
            self._impacts[slot] = self._impacts[last]
        self._terms.pop()
        self._impacts.pop()

    def _drop(self, term: str, slot: int) -> None:
        posting = self._postings[term]
        position = posting.position(slot)
        posting.slots[position] = posting.slots[-1]
        posting.impacts[position] = posting.impacts[-1]
        posting.slots.pop()
        posting.impacts.pop()
        if not posting.slots:
            del self._postings[term]
            self._vocabulary = None  # it cannot forget a term

    def terms(self, slot: int) -> tuple[str, ...]:
        """The terms that a document was added with."""
        return self._terms[slot]

    def impacts(self, slot: int) -> dict[str, float]:
        """The impacts that a document was added with."""
        return dict(zip(self._terms[slot], array("f", self._impacts[slot]), strict=True))

    def statistics(self, terms: Iterable[str] | None = None) -> Statistics:
        """Frequencies of the given terms, or of all of them."""
        if terms is None:
            return Statistics(self.documents, {t: len(p.slots) for t, p in self._postings.items()})
        found = {term: self._postings.get(term) for term in dict.fromkeys(terms)}
        return Statistics(self.documents, {t: len(p.slots) for t, p in found.items() if p is not None})

    def vocabulary(self) -> Vocabulary:
        """The terms that there are now, all of them; later ones are added to it. Not for changing."""
        if self._vocabulary is None or not self._vocabulary.has_room(len(self._postings)):
            self._vocabulary = Vocabulary.of(self._postings.keys())
        return self._vocabulary

    def scores(self, term_weights: Mapping[str, float]) -> NDArray[np.float32]:
        """BM25 of every slot, float32, shape ``(documents,)``; ``term_weights`` maps term -> idf."""
        totals = np.zeros(self.documents, np.float32)
        self.add_scores(totals, term_weights)
        return totals

    def add_scores(
        self, totals: NDArray[np.float32], term_weights: Mapping[str, float]
    ) -> NDArray[np.uint32]:
        """Add BM25 of every slot to ``totals``, at least ``documents`` long; no other row is touched.

        Returns the slots that hold a term, one that holds several as often: views end with the next write.
        """
        touched: list[NDArray[np.uint32]] = []
        for term, weight in term_weights.items():
            posting = self._postings.get(term)
            if posting is not None:
                slots = np.frombuffer(posting.slots, np.uint32)
                totals[slots] += np.frombuffer(posting.impacts, np.float32) * np.float32(weight)
                touched.append(slots)
        if len(touched) == 1:
            return touched[0]
        return np.concatenate(touched) if touched else np.empty(0, np.uint32)

    def check_integrity(self) -> None:
        """Raise AssertionError if postings and documents disagree; for tests."""
        held = Counter(
            (term, slot, impact)
            for term, posting in self._postings.items()
            for slot, impact in zip(posting.slots, posting.impacts, strict=True)
        )
        expected = Counter(
            (term, slot, impact)
            for slot in range(self.documents)
            for term, impact in self.impacts(slot).items()
        )
        assert held == expected, "postings and documents disagree"
        assert all(len(p.slots) == len(p.impacts) > 0 for p in self._postings.values())
        assert self._vocabulary is None or all(term in self._vocabulary for term in self._postings)
