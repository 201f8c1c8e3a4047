"""When a cache may answer: always what is proven, never more than the bars allow."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from precall.scoring.calibration import CALIBRATIONS, CalibratedPart, Calibration
from precall.scoring.coverage import Coverage, CoveredRead, Decision
from precall.scoring.evidence import NAMES, SERVED, Evidence, Nearness, gather, lowest_bound
from precall.scoring.fusion import Fusion
from precall.scoring.judgement import Judgement, judge
from precall.scoring.memory_set import MemorySet
from precall.scoring.ranking import RankingWeights, rank, score
from tests.fakes.memory_sets import NOW, VOCABULARY, memory_set, random_unit

WEIGHTS = RankingWeights()
ORDER = [Decision.MISS, Decision.BORDERLINE, Decision.SURE]


@dataclass(frozen=True)
class Cache:
    """A rung of 80 memories of which the answers to some queries are held, and a read of it."""

    held: MemorySet
    coverages: Sequence[Coverage]
    read: CoveredRead

    @classmethod
    def of(cls, seed: int, *, queries: int, sent: int, drift: float) -> "Cache":
        generator = np.random.default_rng(seed)
        everything, held, coverages = memory_set(generator, 80), MemorySet(8), []
        asked, terms = random_unit(generator), [str(t) for t in generator.choice(VOCABULARY, 3)]
        for _ in range(queries):
            weights = WEIGHTS.fused(Fusion.of(terms))
            candidates = everything.candidates(asked, everything.statistics(terms).weights(terms))
            found = rank(candidates, weights, now=NOW, limit=sent)
            for result in found:
                memory_id = everything.ids[result.row]
                if memory_id not in held:
                    held.add(memory_id, everything.features(memory_id))
            coverages.append(Coverage(asked, frozenset(terms), found[-1].total))
            asked = asked + np.float32(drift) * random_unit(generator)
            asked = (asked / np.linalg.norm(asked)).astype(np.float32)
            terms = [*terms[1:], str(generator.choice(VOCABULARY))]
        read_terms = tuple(dict.fromkeys(terms))
        statistics = everything.statistics()
        fused = WEIGHTS.fused(Fusion.of(read_terms))
        return cls(held, coverages, CoveredRead(asked, read_terms, read_terms, statistics, fused))

    def best(self, read: CoveredRead, count: int = SERVED) -> list:
        candidates = self.held.candidates(read.vector, read.statistics.weights(read.terms))
        return rank(candidates, read.weights, now=NOW, limit=count)

    def totals(self, place: int) -> np.ndarray:
        asked = self.coverages[place]
        candidates = self.held.candidates(asked.vector, self.read.statistics.weights(asked.terms))
        return score(candidates, candidates.dense, WEIGHTS.fused(asked.fusion), now=NOW).total

    def judge(
        self, calibration: Calibration | None, *, limit: int = 3, negated: bool = False, fall: float = 0.0
    ) -> Judgement:
        """``fall``: how much lower every floor is than it could be."""
        coverages = [replace(each, floor=max(each.floor - fall, 1e-6)) for each in self.coverages]
        read = replace(self.read, negated=negated)
        queries = np.stack([each.vector for each in coverages])
        best = self.best(read, max(limit, SERVED))
        return judge(read, best, coverages, queries, self.totals, calibration, limit=limit)


def part(
    intercept: float = 0.0, sure: float = 1.0, borderline: float = 0.0, **weights: float
) -> CalibratedPart:
    return CalibratedPart(Evidence(**{**dict.fromkeys(NAMES, 0.0), **weights}), intercept, sure, borderline)


def calibration(continued: CalibratedPart, other: CalibratedPart | None = None) -> Calibration:
    return Calibration("model", continued, other or continued, "made up")


ALWAYS, NEVER = calibration(part(100.0)), calibration(part(-100.0))
CACHES = st.builds(
    Cache.of,
    st.integers(0, 2**32 - 1),
    queries=st.integers(1, 4),
    sent=st.integers(SERVED, 60),
    drift=st.floats(0, 1),
)
WEIGHT = st.floats(-5, 5)


@settings(max_examples=150, deadline=None)
@given(cache=CACHES)
def test_what_is_proven_is_sure_whatever_a_calibration_says(cache: Cache) -> None:
    nearness = Nearness.of(cache.read.vector, np.stack([each.vector for each in cache.coverages]))
    third = cache.best(cache.read)[2].total
    proven = third >= lowest_bound(cache.read, cache.coverages, nearness)
    event(f"proven: {proven}")
    for each in (None, ALWAYS, NEVER):
        judged = cache.judge(each)
        assert judged.proven is proven
        if proven:
            assert judged.decision is Decision.SURE
    if not proven:
        assert cache.judge(None).decision is not Decision.SURE
        assert cache.judge(NEVER).decision is Decision.MISS
        assert cache.judge(ALWAYS).decision is Decision.SURE


@settings(max_examples=150, deadline=None)
@given(
    cache=CACHES,
    weights=st.fixed_dictionaries(dict.fromkeys(NAMES, WEIGHT)),
    intercept=WEIGHT,
    fall=st.floats(0, 0.5),
)
def test_a_lower_floor_never_makes_it_less_sure(
    cache: Cache, weights: dict[str, float], intercept: float, fall: float
) -> None:
    weights["slack"] = abs(weights["slack"])
    fitted = calibration(part(intercept, 1.0, 0.0, **weights))
    before, after = cache.judge(fitted), cache.judge(fitted, fall=fall)
    event(f"{before.decision.value} -> {after.decision.value}")
    assert ORDER.index(after.decision) >= ORDER.index(before.decision)
    if before.confidence is not None and after.confidence is not None:
        assert after.confidence >= before.confidence - 1e-9


def far_read(**arguments: int) -> Cache:
    """A read that is proven nothing about."""
    found = (Cache.of(seed, queries=2, sent=20, drift=0.5, **arguments) for seed in range(100))
    return next(each for each in found if not each.judge(None).proven)


def test_each_bar_is_a_bar() -> None:
    cache = far_read()
    for intercept, decision in ((-0.1, Decision.MISS), (0.0, Decision.BORDERLINE), (1.0, Decision.SURE)):
        judged = cache.judge(calibration(part(intercept)))
        assert judged.decision is decision and judged.confidence == pytest.approx(intercept)


def test_a_longer_list_than_the_calibration_knows_is_not_sure() -> None:
    cache = far_read()
    assert cache.judge(ALWAYS, limit=SERVED).decision is Decision.SURE
    assert cache.judge(ALWAYS, limit=SERVED + 1).decision is Decision.BORDERLINE


def test_fewer_held_than_asked_for_is_not_sure() -> None:
    cache = far_read()
    assert cache.judge(ALWAYS, limit=len(cache.held) + 1).decision is not Decision.SURE


def test_a_denial_that_no_query_made_is_not_sure_unless_proven() -> None:
    cache = far_read()
    assert cache.judge(ALWAYS, negated=True).decision is Decision.BORDERLINE
    denied = replace(cache, coverages=[replace(each, negated=True) for each in cache.coverages])
    assert denied.judge(ALWAYS, negated=True).decision is Decision.SURE
    proven = next(
        each
        for each in (Cache.of(seed, queries=1, sent=40, drift=0.0) for seed in range(100))
        if each.judge(None).proven
    )
    assert proven.judge(NEVER, negated=True).decision is Decision.SURE


def test_a_read_that_goes_on_with_the_query_is_judged_as_such() -> None:
    cache = far_read()
    parts = calibration(part(5.0), part(-5.0))
    cache = replace(cache, coverages=[replace(each, floor=0.99) for each in cache.coverages[-1:]])
    same = replace(cache, read=replace(cache.read, terms=tuple(cache.coverages[-1].terms)))
    other = replace(cache, read=replace(cache.read, terms=("zebra", "yacht")))
    assert same.judge(parts).confidence == pytest.approx(5.0)
    assert other.judge(parts).confidence == pytest.approx(-5.0)


def test_without_a_coverage_it_is_a_miss() -> None:
    cache = far_read()
    nothing = np.empty((0, 8), np.float32)
    judged = judge(cache.read, cache.best(cache.read), (), nothing, cache.totals, ALWAYS, limit=3)
    assert judged.decision is Decision.MISS


def test_evidence_by_hand() -> None:
    """Twelve memories on a line: the read turns the query's order round for the first three."""
    axes = np.eye(8, dtype=np.float32)
    query = Coverage(axes[0], frozenset(["pune"]), floor=0.2)
    cache = far_read()
    read = replace(
        cache.read,
        vector=(0.6 * axes[0] + 0.8 * axes[1]).astype(np.float32),
        terms=("pune", "zebra"),
        elsewhere=("pune", "zebra"),
    )
    best = [
        replace(each, row=row, total=1.0 - row / 100, relevance=0.5)
        for row, each in enumerate(cache.best(read))
    ]
    totals = np.array([0.5, 0.6, 0.7, *(0.4 - row / 100 for row in range(9))], np.float32)
    nearness = Nearness.of(read.vector, query.vector[None])
    gathered = gather(read, best, query, nearness, bound=0.9, query_totals=totals)
    assert gathered.slack == pytest.approx(10 * (0.98 - 0.9))
    assert gathered.lead == pytest.approx(0.2) and gathered.gap == pytest.approx(0.7)
    assert gathered.relevance == pytest.approx(5.0)
    assert gathered.distance == pytest.approx(np.sqrt(0.8), abs=1e-6)
    assert gathered.residual == pytest.approx(0.8, abs=1e-3)
    assert gathered.depth_of_three == pytest.approx(np.log(3) / np.log(13))
    assert gathered.depth_of_ten == pytest.approx(np.log1p(np.arange(10)).mean() / np.log(13))
    assert gathered.length == pytest.approx(np.log(2)) and gathered.held == pytest.approx(np.log(12 / 256))
    rare = read.rarity["zebra"]
    assert gathered.new == gathered.unknown == pytest.approx(rare / (rare + read.rarity["pune"]))
    known = gather(replace(read, elsewhere=("pune",)), best, query, nearness, bound=0.9, query_totals=totals)
    assert known.new == gathered.new and known.unknown == 0.0


@pytest.mark.parametrize(
    "arguments",
    [
        {"slack": -0.1},
        {"borderline": 2.0},
    ],
)
def test_a_calibration_that_cannot_be_is_refused(arguments: dict) -> None:
    with pytest.raises(ValueError, match=r"slack|bar"):
        part(**arguments)


def test_what_is_shipped_says_where_it_is_from() -> None:
    for model, shipped in CALIBRATIONS.items():
        assert shipped.model == model and "LoCoMo" in shipped.provenance
        assert shipped.continued.sure > 0 and shipped.other.sure > 0, "sure is more likely right than wrong"


@pytest.mark.parametrize("part_name", ["continued", "other"])
def test_what_is_shipped_tells_a_near_read_from_a_far_one(part_name: str) -> None:
    near = Evidence(
        slack=-1.0,
        depth_of_three=0.2,
        depth_of_ten=0.35,
        distance=0.3,
        residual=0.25,
        lead=0.8,
        gap=0.8,
        relevance=5.0,
        length=1.6,
        held=0.0,
        new=0.15,
        unknown=0.0,
    )
    far = replace(
        near,
        slack=-5.0,
        depth_of_three=0.95,
        depth_of_ten=0.9,
        distance=0.95,
        residual=0.9,
        relevance=2.0,
        new=0.9,
    )
    for shipped in CALIBRATIONS.values():
        judged: CalibratedPart = getattr(shipped, part_name)
        assert judged.confidence(near) >= judged.sure
        assert judged.confidence(far) < judged.borderline
