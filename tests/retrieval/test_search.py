"""Search over several rungs: one formula, the narrowest first on ties, nobody else's memory."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precall.engine.index.partition import Partition, PartitionSettings
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import IndexedMemory
from precall.engine.retrieval.query import Leg, Query
from precall.engine.retrieval.search import search, search_fast
from precall.scoring.fusion import Fusion
from precall.scoring.keyword import inverse_document_frequency
from precall.scoring.ranking import RankingWeights
from precall.scoring.terms import analyze
from tests.fakes.memories import ACME, DANA, EVE, NOW, clustered, indexed, moment, near, sentence

DIMENSION = 32
VECTORS = clustered(600, DIMENSION, seed=3)


def partition(rung: Rung, held: list[IndexedMemory], *, exact_below: int = 10**9) -> Partition:
    made = Partition(rung, DIMENSION, PartitionSettings(exact_below=exact_below))
    made.apply(added=held)
    return made


def query(vector: np.ndarray, text: str = "", **fields: object) -> Query:
    return Query(vector, analyze(text) if text else [], NOW, **fields)  # type: ignore[arg-type]


def ids(hits: list) -> list[str]:  # type: ignore[type-arg]
    return [hit.memory.id for hit in hits]


def test_nothing_visible_finds_nothing() -> None:
    assert search_fast([], query(VECTORS[0])) == []
    assert search_fast([partition(ACME, []), partition(DANA, [])], query(VECTORS[0])) == []


def test_equal_memories_come_narrowest_rung_first() -> None:
    twins = [indexed(f"on-{rung.depth}", rung, vector=VECTORS[0], text="tea") for rung in (ACME, DANA)]
    for order in ((0, 1), (1, 0)):
        parts = [partition(twins[i].memory.rung, [twins[i]]) for i in order]
        assert ids(search_fast(parts, query(VECTORS[0], "tea"))) == ["on-2", "on-1"]


def test_ties_on_a_rung_go_to_the_later_event_and_then_to_the_id() -> None:
    weights = RankingWeights(recency=0.0)
    held = [
        indexed("b", vector=VECTORS[0], event=NOW - 10),
        indexed("a", vector=VECTORS[0], event=NOW - 10),
        indexed("c", vector=VECTORS[0], event=NOW - 5),
    ]
    hits = search_fast([partition(DANA, held)], query(VECTORS[0], weights=weights))
    assert ids(hits) == ["c", "a", "b"]


@pytest.mark.parametrize("exact_below", [10, 10**9])
def test_several_rungs_rank_as_one_corpus(exact_below: int) -> None:
    """The same memories on two rungs or on one: the same totals, because statistics are summed."""
    generator = np.random.default_rng(1)
    texts = [sentence(generator) for _ in range(300)]

    def held(rung: Rung, numbers: range) -> list[IndexedMemory]:
        return [indexed(f"m{n:03}", rung, vector=VECTORS[n], text=texts[n], event=NOW - n) for n in numbers]

    one = [partition(DANA, held(DANA, range(300)), exact_below=exact_below)]
    two = [
        partition(DANA, held(DANA, range(100)), exact_below=exact_below),
        partition(ACME, held(ACME, range(100, 300)), exact_below=exact_below),
    ]
    for seed in range(10):
        asked = query(near(VECTORS[seed], seed=seed), sentence(generator, 3), limit=20)
        first, second = search_fast(one, asked), search_fast(two, asked)
        assert [hit.score.total for hit in first] == pytest.approx(
            [hit.score.total for hit in second], abs=1e-6
        )
        assert set(ids(first)) == set(ids(second))


def test_the_keyword_part_weighs_a_term_over_all_visible_rungs() -> None:
    """Three of four visible memories hold the term; on the user's own rung it is one of one."""
    mine = indexed("mine", DANA, vector=VECTORS[0], text="zeppelin")
    theirs = [
        indexed(f"t{n}", ACME, vector=VECTORS[n], text="zeppelin" if n < 3 else "tea") for n in (1, 2, 3)
    ]
    (hit, *_) = search_fast([partition(DANA, [mine]), partition(ACME, theirs)], query(VECTORS[0], "zeppelin"))
    bm25 = inverse_document_frequency(4, 3) * mine.impacts["zeppelin"]
    assert hit.memory.id == "mine"
    assert hit.score.keyword == pytest.approx(bm25 / (bm25 + Fusion.of(["zeppelin"]).half), rel=1e-5)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_no_search_returns_another_rungs_memory(seed: int) -> None:
    """What comes back stands on the partitions that were passed in, and is what a brute force would find."""
    generator = np.random.default_rng(seed)
    rungs = (ACME, DANA, EVE, Rung(("globex",)))
    parts = {}
    for rung in rungs:
        count = int(generator.integers(0, 40))
        held = [
            indexed(
                f"{'/'.join(rung.values)}-{n}",
                rung,
                vector=VECTORS[int(generator.integers(600))],
                text=sentence(generator),
                importance=float(generator.random()),
            )
            for n in range(count)
        ]
        parts[rung] = partition(rung, held, exact_below=int(generator.choice([5, 10**9])))
    visible = [parts[rung] for rung in DANA.lineage()]
    hits = search_fast(visible, query(VECTORS[seed % 600], sentence(generator, 3), limit=15))
    assert all(hit.memory.rung.is_visible_from(DANA) for hit in hits)
    assert len(hits) == min(15, sum(map(len, visible)))
    assert sorted(-hit.score.total for hit in hits) == [-hit.score.total for hit in hits]


def test_a_keyword_match_is_found_where_its_meaning_is_far_off() -> None:
    held = [indexed(f"m{n}", vector=VECTORS[n], text="tea", importance=0.0) for n in range(500)]
    held.append(
        indexed(
            "rare", vector=-VECTORS[0], text="a zeppelin over the glacier near the ravine", importance=0.0
        )
    )
    hits = search_fast(
        [partition(DANA, held, exact_below=100)], query(VECTORS[0], "zeppelin, glacier, ravine")
    )
    found = next(hit for hit in hits if hit.memory.id == "rare")
    assert found.legs == {Leg.KEYWORD}
    assert any(hit.legs == {Leg.DENSE} for hit in hits)


def test_upcoming_memories_are_found_on_request_only() -> None:
    held = [
        indexed("now", vector=VECTORS[0]),
        indexed("soon", vector=VECTORS[0], valid_from=moment(NOW + 5)),
        indexed("over", vector=VECTORS[0], valid_until=moment(NOW)),
        indexed("expired", vector=VECTORS[0], expires_at=moment(NOW - 5)),
    ]
    for exact_below in (1, 10**9):
        parts = [partition(DANA, held, exact_below=exact_below)]
        assert ids(search_fast(parts, query(VECTORS[0]))) == ["now"]
        assert sorted(ids(search_fast(parts, query(VECTORS[0], include_upcoming=True)))) == ["now", "soon"]


async def test_a_large_search_answers_like_a_small_one() -> None:
    """Over the size from which a search leaves the event loop."""
    vectors = clustered(5_200, DIMENSION, seed=8)
    large = partition(DANA, [indexed(f"m{n}", vector=vectors[n]) for n in range(5_200)], exact_below=2_000)
    asked = query(near(vectors[17], seed=1))
    assert ids(await search([large], asked)) == ids(search_fast([large], asked))
