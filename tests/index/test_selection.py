"""Whatever is asked, what is chosen from codes ranks as all rows do: to the last bit, and with all ties."""

from dataclasses import dataclass
from functools import cache
from typing import cast

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from precall.engine.index.codes import Codes, Nearest, Question
from precall.engine.index.filter import MemoryFilter
from precall.engine.index.partition import Partition, PartitionSettings
from precall.engine.index.selection import KeywordEvidence, Selection, select
from precall.engine.index.slot_set import SlotSet
from precall.engine.memory.memory import IndexedMemory, MemoryKind
from precall.scoring.fusion import Fusion
from precall.scoring.memory_set import MemorySet
from precall.scoring.ranking import RankingWeights, rank
from tests.fakes.memories import DANA, NOW, WORDS, clustered, indexed, moment, near, sentence

DIMENSION = 32
DAY = 86_400.0
SHARES = st.sampled_from([0.0, 1e-6, 0.1, 0.5, 1.0]) | st.floats(0, 1)


@dataclass(frozen=True)
class Kind:
    """Of a table. ``copies``: memories that have one vector, importance and age in common, and tie.
    ``spikes``: what the codes describe badly, half of it added before them. ``half``: all vectors lie on one
    side of a plane, so that a query from the other side has no cosine above 0.
    """

    count: int
    copies: int = 1
    spikes: int = 0
    half: bool = False


KINDS = (
    Kind(600),
    Kind(600, copies=30),
    Kind(500, spikes=60),
    Kind(600, half=True),
    Kind(90, copies=3, spikes=2),
)
FILTERS = (
    None,
    MemoryFilter(kinds=frozenset({MemoryKind.EVENT})),
    MemoryFilter(event_from=moment(NOW - 30 * DAY)),
)


def memories(kind: Kind) -> list[IndexedMemory]:
    generator = np.random.default_rng(kind.count)
    vectors = clustered(kind.count, DIMENSION, seed=kind.count)
    vectors = np.abs(vectors) if kind.half else vectors
    spikes = generator.permutation(kind.count)[: kind.spikes]
    vectors[spikes] = np.eye(DIMENSION)[spikes % DIMENSION] * np.where(spikes % 2, 1, -1)[:, None]
    held = []
    for number in range(kind.count):
        if number % kind.copies == 0:
            vector, text = vectors[number], sentence(generator, 4)
            importance = float(generator.choice([0.0, 0.25, 0.5, 1.0]))
            event = NOW - float(generator.choice([0, 1, 30, 400, -3, generator.exponential(60)])) * DAY
        held.append(
            indexed(
                f"m{number}", vector=vector, text=text, importance=importance, event=event,
                kind=MemoryKind.EVENT if number % 3 else MemoryKind.FACT,
                expires_at=moment(NOW + DAY) if number % 11 == 0 else None,
            )
        )  # fmt: skip
    return held


@cache
def table(kind: Kind) -> tuple[Partition, list[IndexedMemory]]:
    held = memories(kind)
    partition = Partition(DANA, DIMENSION, PartitionSettings(exact_below=kind.count // 2))
    partition.apply(added=held[: kind.count // 2])
    partition.apply(added=held[kind.count // 2 :])
    assert partition.quantized and not partition.listed
    return partition, held


@settings(max_examples=150, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    about=st.integers(0, 10_000),
    distance=st.sampled_from([0.0, 0.3, 3.0]),
    side=st.sampled_from([1, 1, -1]),
    terms=st.lists(st.sampled_from([*WORDS, "unknown"]), max_size=6),
    shares=st.tuples(SHARES, SHARES, SHARES),
    keyword_share=st.sampled_from([0.0, 0.7, 0.95, 1.0]),
    half_life=st.sampled_from([30.0, 30.0, 0.5, 3_000.0]),
    later=st.sampled_from([0.0, 2.0, 700.0, -100.0]),
    limit=st.sampled_from([1, 2, 10, 40, 300, 1_000]),
    only=st.sampled_from(FILTERS),
)  # fmt: skip
def test_what_is_chosen_ranks_as_all_rows_do(
    kind: Kind, about: int, distance: float, side: int, terms: list[str], shares: tuple[float, float, float],
    keyword_share: float, half_life: float, later: float, limit: int, only: MemoryFilter | None,
) -> None:  # fmt: skip
    partition, held = table(kind)
    vector = side * near(held[about % kind.count].vector.astype(np.float32), seed=about, distance=distance)
    weights = RankingWeights(*shares, half_life * DAY, Fusion.of(terms, keyword_share))
    now = NOW + later * DAY
    selection = Selection(weights, now, limit, filter=only)
    term_weights = partition.statistics(terms).weights(terms)
    everything = partition.exact_candidates(vector, term_weights, selection)
    chosen = partition.candidates(vector, term_weights, selection)
    assert everything is not None and len(set(chosen.ids)) == len(chosen.ids)
    expected, found = (
        [(rows.ids[each.row], each.total) for each in rank(rows, weights, now=now, limit=limit)]
        for rows in (everything, chosen)
    )
    assert found == expected


class WrongCodes:
    """Every total is off by nearly all that codes may be off by, this way or that; a misfit's by anything."""

    first = 4

    def __init__(self, held: MemorySet, seed: int, misfits: int, aged: bool) -> None:
        self._held, self._aged = held, aged
        self._chance = np.random.default_rng(seed)
        self.misfits = SlotSet(self._chance.permutation(len(held))[:misfits].tolist())

    def __len__(self) -> int:
        return len(self._held)

    def nearest(
        self, question: Question, count: int, allowed: NDArray[np.bool_] | None, least: float | None = None
    ) -> Nearest:
        held, weights, slack = self._held, question.weights, 0.05
        dense = weights.relevance * (1 - weights.fusion.share)
        totals = dense * (held.vectors.astype(np.float32) @ question.vector)
        totals += np.float32(weights.importance) * held.importance
        if self._aged:
            powers = np.exp2((held.event_seconds - question.now) / weights.half_life_seconds)
            totals += np.float32(weights.recency) * powers.astype(np.float32)
        totals += self._chance.choice([-0.99, 0.99], len(held)).astype(np.float32) * np.float32(slack)
        wrong = self.misfits.array()
        totals[wrong] = self._chance.uniform(-1, 3, len(wrong))
        slots = np.arange(len(held)) if allowed is None else np.flatnonzero(allowed)
        order = slots[np.argsort(-totals[slots], kind="stable")]
        chosen = order[:count]
        unseen = float(totals[chosen[-1]]) + slack if count < len(order) else float("-inf")
        far_side = weights.importance + weights.recency
        return Nearest(chosen, totals[chosen], unseen, slack, self._aged, far_side, lambda slots: dense)


@settings(max_examples=300, deadline=None)
@given(
    kind=st.sampled_from(KINDS[:4]),
    seed=st.integers(0, 10_000),
    misfits=st.sampled_from([0, 5, 40, 200]),
    aged=st.booleans(),
    side=st.sampled_from([1, 1, -1]),
    terms=st.lists(st.sampled_from(WORDS), max_size=3),
    shares=st.tuples(SHARES, SHARES, SHARES),
    keyword_share=st.sampled_from([0.0, 0.2, 0.7, 1.0]),
    limit=st.sampled_from([1, 3, 10]),
    filtered=st.booleans(),
)  # fmt: skip
def test_codes_as_wrong_as_they_may_be_cost_no_result(
    kind: Kind, seed: int, misfits: int, aged: bool, side: int, terms: list[str],
    shares: tuple[float, float, float], keyword_share: float, limit: int, filtered: bool,
) -> None:  # fmt: skip
    partition, memories = table(kind)
    held = partition._set
    vector = side * near(memories[seed % kind.count].vector.astype(np.float32), seed=seed)
    question = Question(vector, RankingWeights(*shares, fusion=Fusion.of(terms, keyword_share)), NOW, limit)
    scores = np.zeros(len(held), np.float32)
    touched = held.keywords.add_scores(scores, partition.statistics(terms).weights(terms))
    allowed = np.arange(len(held)) % 3 > 0 if filtered else None
    everything = np.arange(len(held)) if allowed is None else np.flatnonzero(allowed)
    codes = cast(Codes, WrongCodes(held, seed, misfits, aged))
    chosen = select(held, codes, question, KeywordEvidence(scores, touched), allowed)
    assert len(set(chosen.tolist())) == len(chosen)
    expected, found = (
        [
            (rows.ids[each.row], each.total)
            for rows in [held.chosen(slots, vector, scores[slots])]
            for each in rank(rows, question.weights, now=NOW, limit=limit)
        ]
        for slots in (everything, chosen)
    )
    assert found == expected
