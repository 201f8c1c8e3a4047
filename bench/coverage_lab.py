"""Sessions in process: what a cache would hold at each read, what tells of it, and whether it was right.

The server's side is its own `HeldSet` and formulas, the client's its own `Rung` and evidence; between them no
message is lost and no time passes. The nearest thing to a read that a server answers is here an array.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.bench.coverage_corpus import Exchange, Utterance, ranked_set
from precall.client.rungs import Rung
from precall.engine.anticipation.conversation import Conversation, Turn, TurnRole
from precall.engine.anticipation.held import HeldSet, Reason
from precall.engine.anticipation.recent_turns import TurnsQuery, queries, together
from precall.engine.anticipation.settings import AnticipationSettings
from precall.engine.memory.memory import IndexedMemory
from precall.scoring import evidence, ranking
from precall.scoring.coverage import Coverage, CoveredRead
from precall.scoring.evidence import SERVED, TOP, Evidence, Nearness
from precall.scoring.fusion import Fusion, keyword_share
from precall.scoring.negation import negates
from precall.scoring.query_terms import QueryTerms
from precall.scoring.ranking import Ranked, RankingWeights

_WEIGHTS: Final = RankingWeights()
_SETTINGS: Final = AnticipationSettings()
_NOW: Final = 1_800_000_000.0
_KEPT_TEXTS: Final = 256
_SEEDS: Final = 8
_REACH: Final = 4


@dataclass(frozen=True, slots=True)
class Budget:
    """Items that a session may hold, and those that answer one query."""

    items: int
    answer: int


@dataclass(frozen=True, slots=True)
class JudgedRead:
    """A read, what told of it, and what it was. ``best``: total of the best held memory.

    ``right``: the server's first three are among the held ten. ``kept``: so is all gold that the server's ten
    have. ``proven``: by the bound, for ten.
    """

    budget: Budget
    exchange: Exchange
    group: str
    evidence: Evidence
    continued: bool
    best: float
    right: bool
    kept: bool
    proven: bool

    @property
    def good(self) -> bool:
        return self.right and self.kept


@dataclass(frozen=True, slots=True)
class _Asked:
    """A text as the server scores it: ``totals`` of every memory, float32, shape ``(memories,)``."""

    terms: tuple[str, ...]
    vector: NDArray[np.float32]
    weights: RankingWeights
    totals: NDArray[np.float32]
    relevance: NDArray[np.float32]


class Lab:
    """The rung, and what texts score on it. ``vectors``: of every text that is asked."""

    def __init__(
        self,
        memories: Sequence[IndexedMemory],
        vectors: Mapping[str, NDArray[np.float32]],
        scripts: Sequence[str],
        dialogues: Sequence[range] = (),
    ) -> None:
        self.memories = memories
        self.dialogues = dialogues
        self.table = ranked_set(memories)
        self.vocabulary = self.table.keywords.vocabulary().data
        self._vectors = vectors
        self._scripts = scripts
        self._asked: dict[tuple[str, ...], _Asked] = {}

    def reads(self, exchange: Exchange, budget: Budget) -> Iterator[JudgedRead]:
        session = _Session(self, exchange, budget)
        for utterance in exchange.utterances:
            for partial in utterance.partials:
                session.observe(partial, partial=True)
            if utterance.group:
                judged = session.read(utterance)
                if judged is not None:
                    yield judged
            session.observe(utterance.text, partial=False)

    def ask(self, *said: str) -> _Asked:
        """One text, or the turns that are asked with together."""
        asked = self._asked.get(said)
        if asked is None:
            query = QueryTerms.of(" ".join(said))
            weights = _WEIGHTS.fused(Fusion.of(query.terms, keyword_share(query, self._scripts)))
            vector = together([self._vectors[text] for text in said])
            term_weights = self.table.statistics(query.terms).weights(query.terms)
            candidates = self.table.candidates(vector, term_weights)
            scores = ranking.score(candidates, candidates.dense, weights, now=_NOW)
            asked = _Asked(query.terms, vector, weights, scores.total, scores.relevance)
            if len(self._asked) >= _KEPT_TEXTS:
                del self._asked[next(iter(self._asked))]
            self._asked[said] = asked
        return asked


class _Session:
    """One session, on both of its sides."""

    def __init__(self, lab: Lab, exchange: Exchange, budget: Budget) -> None:
        self._lab = lab
        self._exchange = exchange
        self._budget = budget
        self._held = HeldSet(
            max_items=budget.items,
            max_bytes=_SETTINGS.max_bytes,
            coverages_kept=_SETTINGS.coverages_kept,
        )
        self._rung = Rung()
        documents = len(lab.memories)
        self._rung.claim(complete=False, documents=documents, frequencies={}, vocabulary=lab.vocabulary)
        self._conversation = Conversation(_SETTINGS.turns_kept)
        self._coverages: dict[int, tuple[TurnsQuery, Coverage]] = {}
        self._last_id = 0
        self._cause = 0
        self._said = np.ones(documents, np.bool_)
        self._said[exchange.unsaid.start : exchange.unsaid.stop] = False

    def observe(self, text: str, *, partial: bool) -> None:
        self._cause += 1
        if self._conversation.observe(Turn(TurnRole.USER, text), partial=partial):
            found = [self._answer(query) for query in queries(self._conversation)]
            if found and not partial:
                self._look_around(found[0][:_SEEDS])

    def _look_around(self, seeds: Sequence[int]) -> None:
        """What stands around the best that a finished turn found, as `Neighbours` proposes it."""
        around = [
            [
                row
                for distance in range(1, _REACH + 1)
                for row in (seed + distance, seed - distance)
                if row in dialogue and self._said[row]
            ]
            for seed in seeds
            for dialogue in self._lab.dialogues
            if seed in dialogue
        ]
        in_turns = (row for rows in zip_longest(*around) for row in rows if row is not None)
        rows = list(dict.fromkeys((*seeds, *in_turns)))[: _SETTINGS.neighbour_items]
        self._hold("neighbours", rows, claims=False)

    def _answer(self, query: TurnsQuery) -> list[int]:
        """Hold the best for what was said; returns their rows."""
        asked = self._lab.ask(*(turn.text for turn in query.turns))
        totals = np.where(self._said, asked.totals, -np.inf)
        rows = _best(totals, min(self._budget.answer, self._budget.items))
        self._hold("recent_turns", rows, claims=True, terms=asked.terms)
        if self._held.covers(self._last_id):
            share, floor = asked.weights.fusion.share, float(totals[rows[-1]])
            coverage = Coverage(asked.vector, frozenset(asked.terms), floor, share, negates(query.text))
            self._coverages[self._last_id] = query, coverage
        return rows

    def _hold(self, predictor: str, rows: Sequence[int], *, claims: bool, terms: Sequence[str] = ()) -> None:
        """Both sides take over what a predictor proposes; ``terms``: of the query that it answers."""
        ids = [str(row) for row in rows]
        self._last_id += 1
        reason = Reason(self._last_id, predictor, ids, 1.0, claims=claims, cause=self._cause)
        new = [self._lab.memories[row] for row, i in zip(rows, ids, strict=True) if i not in self._held]
        difference = self._held.add(reason, new)
        for indexed in difference.added:
            self._rung.add(indexed.impacts.keys())
        for memory_id in difference.evicted_ids:
            self._rung.remove(self._lab.memories[int(memory_id)].impacts.keys())
        for coverage_id in difference.retired_coverage_ids:
            self._coverages.pop(coverage_id, None)
        told = set(terms).union(*(indexed.impacts for indexed in difference.added))
        known = self._lab.table.statistics(told)
        self._rung.claim(complete=False, documents=known.documents, frequencies=known.frequencies)

    def read(self, utterance: Utterance) -> JudgedRead | None:
        """None where nothing can be judged: no coverage, or too little is held."""
        held = np.array(sorted(map(int, self._held.ids)), np.int64)
        coverages = [coverage for _, coverage in self._coverages.values()]
        if not coverages or len(held) < SERVED:
            return None
        asked = self._lab.ask(utterance.text)
        best = _ranked(asked, held)
        read = CoveredRead(
            asked.vector,
            asked.terms,
            frozenset(filter(self._rung.may_lack, asked.terms)),
            self._rung.statistics(asked.terms),
            asked.weights,
            negates(utterance.text),
        )
        nearness = Nearness.of(read.vector, np.stack([coverage.vector for coverage in coverages]))
        bound = evidence.lowest_bound(read, coverages, nearness)
        nearest = coverages[nearness.nearest]
        nearest_query = list(self._coverages.values())[nearness.nearest][0]
        gathered = evidence.gather(
            read,
            best,
            nearest,
            nearness,
            bound=bound,
            query_totals=self._lab.ask(*(turn.text for turn in nearest_query.turns)).totals[held],
        )
        served = {int(held[each.row]) for each in best}
        truth = _best(np.where(self._said, asked.totals, -np.inf), SERVED)
        return JudgedRead(
            self._budget,
            self._exchange,
            utterance.group,
            gathered,
            evidence.continues(read, nearest),
            best[0].total,
            right=served.issuperset(truth[:TOP]),
            kept=served.issuperset(set(truth).intersection(utterance.gold)),
            proven=best[-1].total >= bound,
        )


def _best(totals: NDArray[np.floating], count: int) -> list[int]:
    """Rows of the highest, the highest first, the earlier row first among equals."""
    rows = np.argpartition(-totals, count - 1)[:count]
    return [int(row) for row in rows[np.lexsort((rows, -totals[rows]))]]


def _ranked(asked: _Asked, held: NDArray[np.int64]) -> list[Ranked]:
    """The best held for a read; ``row`` counts among the held."""
    totals = asked.totals[held]
    return [
        Ranked(
            row=row,
            total=float(totals[row]),
            relevance=float(asked.relevance[held[row]]),
            importance=0.5,
            recency=0.0,
            dense=0.0,
            keyword=0.0,
        )
        for row in _best(totals, SERVED)
    ]
