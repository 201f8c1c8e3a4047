import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precall.scoring.fusion import Fusion
from precall.scoring.ranking import DAY_SECONDS, Candidates, RankingWeights, rank, recency

NOW = 1_700_000_000.0
INFINITY = float("inf")


def candidates(**columns: list[float]) -> Candidates:
    count = len(next(iter(columns.values())))
    rest = {
        "dense": [0.5] * count,
        "keyword": [0.0] * count,
        "importance": [0.5] * count,
        "event_seconds": [NOW] * count,
        "servable_from": [-INFINITY] * count,
        "servable_until": [INFINITY] * count,
        "depth": [1] * count,
    } | columns
    return Candidates(
        ids=[f"m{i}" for i in range(count)],
        dense=np.array(rest["dense"], np.float32),
        keyword=np.array(rest["keyword"], np.float32),
        importance=np.array(rest["importance"], np.float32),
        event_seconds=np.array(rest["event_seconds"], np.float64),
        servable_from=np.array(rest["servable_from"], np.float64),
        servable_until=np.array(rest["servable_until"], np.float64),
        depth=np.array(rest["depth"], np.int32),
    )


def order(table: Candidates, *, limit: int = 10, weights: RankingWeights | None = None) -> list[str]:
    return [table.ids[r.row] for r in rank(table, weights or RankingWeights(), now=NOW, limit=limit)]


def test_parts_add_up_to_the_total() -> None:
    table = candidates(dense=[0.8], keyword=[4.0], importance=[0.9], event_seconds=[NOW - 30 * DAY_SECONDS])
    weights = RankingWeights().fused(Fusion(half=6.0, share=0.75))
    (result,) = rank(table, weights, now=NOW, limit=1)
    assert result.recency == pytest.approx(0.5)
    assert result.keyword == pytest.approx(0.4)
    assert result.relevance == pytest.approx(0.25 * 0.8 + 0.75 * 0.4)
    assert result.total == pytest.approx(0.7 * result.relevance + 0.2 * 0.9 + 0.1 * 0.5, rel=1e-5)


def test_ties_go_to_the_narrowest_rung_then_the_later_event_then_the_id() -> None:
    zero_recency = RankingWeights(relevance=1.0, importance=0.0, recency=0.0)
    table = candidates(depth=[1, 2, 2, 2], event_seconds=[NOW, NOW - 9, NOW, NOW])
    assert order(table, weights=zero_recency) == ["m2", "m3", "m1", "m0"]


def test_a_tie_at_the_last_place_is_decided_by_the_same_rule() -> None:
    assert order(candidates(depth=[1, 1, 2, 1, 2]), limit=2) == ["m2", "m4"]


def test_only_what_is_valid_now_is_served() -> None:
    table = candidates(servable_from=[NOW + 1, NOW, -INFINITY], servable_until=[INFINITY, NOW + 1, NOW])
    assert order(table) == ["m1"]


def test_the_future_is_as_fresh_as_now() -> None:
    assert recency(np.array([NOW + 5.0]), NOW, 1.0)[0] == 1.0


def test_a_negative_cosine_counts_as_none() -> None:
    (result,) = rank(candidates(dense=[-0.9]), RankingWeights(), now=NOW, limit=1)
    assert result.relevance == 0.0


def test_a_weight_of_zero_is_a_value() -> None:
    weights = RankingWeights(relevance=1.0, importance=0.0, recency=0.0)
    assert order(candidates(dense=[0.4, 0.5], importance=[1.0, 0.0]), weights=weights) == ["m1", "m0"]


@pytest.mark.parametrize("field", ["relevance", "importance", "recency"])
def test_weights_outside_their_range_are_refused(field: str) -> None:
    with pytest.raises(ValueError, match=field):
        RankingWeights(**{field: 1.5})


@given(st.lists(st.floats(0, 1, width=16), min_size=1, max_size=30), st.integers(1, 12))
def test_the_best_of_many_are_the_head_of_the_whole_order(dense: list[float], limit: int) -> None:
    table = candidates(dense=dense)
    assert order(table, limit=limit) == order(table, limit=len(dense))[:limit]
