"""What the server claims of a session's memories beside the items: complete rungs, answered queries."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.client import convert
from precall.client.held_items import HeldItems
from precall.client.rungs import Rung
from precall.proto import anticipation_pb2
from precall.scoring import judgement, ranking
from precall.scoring.calibration import Calibration
from precall.scoring.coverage import Coverage, CoveredRead, rarity
from precall.scoring.judgement import Judgement
from precall.scoring.keyword import Statistics
from precall.scoring.ranking import Ranked

MAX_COVERAGES: Final = 64
"""Judging costs time per coverage; forgetting one only makes the cache more modest."""


class Claims:
    """Of one session. ``rungs``: by ladder level, each the session's own.

    Withdrawing is always right: without claims a cache answers nothing.
    """

    def __init__(self, levels: Iterable[str]) -> None:
        self.rungs: Mapping[str, Rung] = {level: Rung() for level in levels}
        self._coverages: dict[int, Coverage] = {}
        self._queries: NDArray[np.float32] | None = None

    @property
    def complete(self) -> bool:
        """Every memory that the session may see is held."""
        return all(rung.complete for rung in self.rungs.values())

    @property
    def complete_rungs(self) -> tuple[str, ...]:
        return tuple(name for name, rung in self.rungs.items() if rung.complete)

    @property
    def coverages(self) -> tuple[Coverage, ...]:
        return tuple(self._coverages.values())

    @property
    def queries(self) -> NDArray[np.float32]:
        """The vectors of the coverages, a row each; there must be one."""
        if self._queries is None:
            self._queries = np.stack([coverage.vector for coverage in self._coverages.values()])
        return self._queries

    def take(
        self,
        push: anticipation_pb2.Push,
        *,
        fingerprint: str,
        fits: Callable[[NDArray[np.float32]], bool],
        covers: bool = True,
    ) -> None:
        """Believe what the last part of a push says; all items of the push are held.

        ``fingerprint``: of the model that the session's vectors are of; a coverage of another is passed over.
        ``fits``: whether a vector is of their dimension. ``covers``: whether all is held that the server
        believes to be, so that a coverage may be believed. Raises ValueError for bytes that cannot be read
        and for numbers that no server sends.
        """
        for claim in push.rungs:
            if claim.rung in self.rungs:
                rung = self.rungs[claim.rung]
                rung.claim(
                    complete=claim.complete and rung.held >= claim.memories,
                    documents=claim.statistics.documents,
                    frequencies=convert.frequencies_from_wire(claim.statistics),
                    vocabulary=claim.vocabulary,
                )
        if (
            covers
            and push.HasField("coverage")
            and push.coverage.query_vector.model_fingerprint == fingerprint
        ):
            self._cover(push.coverage, fits)

    def retire(self, coverage_ids: Iterable[int]) -> None:
        """These coverages no longer hold."""
        for coverage_id in coverage_ids:
            if self._coverages.pop(coverage_id, None) is not None:
                self._queries = None

    def withdraw(self) -> None:
        """Claim nothing; what was counted of the rungs stays."""
        self.retire(list(self._coverages))
        for rung in self.rungs.values():
            rung.complete = False

    def interrupt(self) -> None:
        """Claim nothing, after writes that may have been missed."""
        self.withdraw()
        for rung in self.rungs.values():
            rung.interrupt()

    def statistics(self, terms: Iterable[str]) -> Statistics:
        """Counts over all rungs of the session, for these terms."""
        terms = tuple(dict.fromkeys(terms))
        return Statistics.sum((rung.statistics(terms) for rung in self.rungs.values()), terms)

    def elsewhere(self, terms: Iterable[str]) -> Iterator[str]:
        """Those of the terms that a memory may have which is not held."""
        rungs = [rung for rung in self.rungs.values() if not rung.complete]
        return (term for term in terms if any(rung.may_lack(term) for rung in rungs))

    def judge(
        self,
        read: CoveredRead,
        ranked: Sequence[Ranked],
        items: HeldItems,
        calibration: Calibration | None,
        *,
        now: float,
        limit: int,
    ) -> Judgement:
        """Whether the best of ``items`` may be served, where not every rung is complete.

        ``ranked``: the best for this read, best first, as `judgement.judge` wants them; rows of ``items``.
        """
        coverages = self.coverages
        if not coverages:
            return judgement.MISS

        def query_totals(place: int) -> NDArray[np.float32]:
            asked = coverages[place]
            term_weights = self.statistics(asked.terms).weights(asked.terms)
            candidates = items.candidates(asked.vector, term_weights)
            weights = read.weights.fused(asked.fusion)
            return ranking.score(candidates, candidates.dense, weights, now=now).total

        return judgement.judge(read, ranked, coverages, self.queries, query_totals, calibration, limit=limit)

    def _cover(self, message: anticipation_pb2.Coverage, fits: Callable[[NDArray[np.float32]], bool]) -> None:
        (vector,) = convert.vectors_from_wire(message.query_vector)
        if not fits(vector):
            raise ValueError("the coverage's vector has another dimension than the items")
        if not 0 < message.keyword_share <= 1:  # NaN fails this too
            raise ValueError(f"the coverage's keyword share is {message.keyword_share}")
        self.retire((message.coverage_id,))
        terms = frozenset(message.query_terms)
        self._coverages[message.coverage_id] = Coverage(
            vector,
            terms,
            message.floor,
            message.keyword_share,
            message.negated,
            rarity(self.statistics(terms), terms),
        )
        while len(self._coverages) > MAX_COVERAGES:
            del self._coverages[next(iter(self._coverages))]
        self._queries = None
