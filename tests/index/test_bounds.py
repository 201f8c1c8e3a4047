"""What a search leaves unread is bounded rightly, and no bound that cannot be met makes it read on and on."""

import numpy as np
import pytest
from numpy.typing import NDArray

from precall.engine.index.coder import Coder, scanned_index
from precall.engine.index.codes import Codes, Nearest, Question
from precall.engine.index.listed import ListedCodes
from precall.engine.index.partition import Partition, PartitionSettings
from precall.engine.index.score_space import HALF_LIFE, LANES, SPARE_LANES, ScoreSpace
from precall.engine.index.selection import Selection
from precall.engine.memory.memory import IndexedMemory
from precall.engine.retrieval.query import Query
from precall.engine.retrieval.search import search_fast
from precall.scoring.ranking import RankingWeights, rank, recency
from tests.fakes.memories import DANA, NOW, clustered, indexed, sentence

DIMENSION = 32
DAY = 86_400.0
LISTED = PartitionSettings(exact_below=100, listed_from=1_000)


def memories(vectors: NDArray[np.float32], *, seed: int = 1) -> list[IndexedMemory]:
    generator = np.random.default_rng(seed)
    return [
        indexed(
            f"m{number}",
            vector=vector,
            text=sentence(generator),
            importance=float(generator.random()),
            event=NOW - float(generator.exponential(60 * DAY)),
        )
        for number, vector in enumerate(vectors)
    ]


def listed(held: list[IndexedMemory]) -> tuple[Partition, ListedCodes]:
    partition = Partition(DANA, held[0].vector.shape[0], LISTED)
    partition.apply(added=held)
    partition.wait_until_listed()
    codes = partition.codes
    assert isinstance(codes, ListedCodes)
    return partition, codes


@pytest.mark.parametrize("dimension", [1, 6, 7, 14, 15, 64, 384, 1024])
def test_a_query_is_read_as_floats_whatever_the_dimension(dimension: int) -> None:
    """FAISS rounds it to 8 bits for rows whose width 16 divides."""
    space = ScoreSpace(dimension, NOW)
    assert space.width >= dimension + 2 and space.width % LANES == SPARE_LANES
    generator = np.random.default_rng(dimension)
    vectors = generator.standard_normal((60, dimension)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    coder = Coder(vectors, generator.random(60).astype(np.float32), np.full(60, NOW))
    rows = coder.space.rows(vectors, generator.random(60).astype(np.float32), np.full(60, NOW))
    query = generator.standard_normal(space.width).astype(np.float32)
    coded = coder.encode(rows).codes
    asked = coder.ask(query)
    index = scanned_index(space.width)
    index.add_sa_codes(coded)
    totals, slots = index.search(asked.vector[None], 60)
    decoded = coder.decode(coded) @ query
    assert np.abs(totals[0] + asked.offset - decoded[slots[0]]).max() < 1e-4


def test_no_row_has_more_merit_than_is_said_of_its_list() -> None:
    held = memories(clustered(1_200, DIMENSION, seed=3))
    partition, codes = listed(held)
    lists = np.frombuffer(codes._list_of, np.uint32).copy()
    generator = np.random.default_rng(4)
    table = partition._set
    for turn in range(60):
        w_d, w_i, w_r = generator.random(3)
        half_life = HALF_LIFE if turn % 3 else HALF_LIFE * float(generator.choice([0.05, 0.5, 3.0]))
        weights = RankingWeights(w_d, w_i, w_r, half_life)
        now = NOW + float(generator.choice([-50, -1, 0, 20, 900])) * DAY
        question = Question(held[0].vector.astype(np.float32), weights, now, 10)
        true = w_i * table.importance + w_r * recency(table.event_seconds, now, half_life)
        assert (true <= codes._merits(question)[lists] + 1e-5).all()


def counted(codes: Codes, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The counts of candidates that searches of ``codes`` ask for, one after the other."""
    asked: list[int] = []
    nearest = codes.nearest

    def counting(question: Question, count: int, *rest: object) -> Nearest:
        asked.append(count)
        return nearest(question, count, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(codes, "nearest", counting)
    return asked


def test_misfits_among_the_best_do_not_make_a_search_ask_for_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They count for nothing in what the others reach, which the lists that were read were chosen by."""
    held = memories(clustered(3_000, DIMENSION, seed=5))
    partition, codes = listed(held)
    query = Query(held[7].vector.astype(np.float32), [], NOW)
    for hit in search_fast([partition], query):
        codes.misfits.add(partition._set.slot(hit.memory.id))
    asked = counted(codes, monkeypatch)
    search_fast([partition], query)
    assert asked and len(asked) <= 2


def test_what_is_important_is_found_on_the_far_side_of_the_query() -> None:
    """Its cosine counts as 0, and its code says less."""
    half = np.abs(clustered(2_000, DIMENSION, seed=6))
    half /= np.linalg.norm(half, axis=1, keepdims=True)
    held = memories(half)
    partition, _ = listed(held)
    query = Query(-held[11].vector.astype(np.float32), [], NOW)
    table = partition.exact_candidates(query.vector, {}, Selection(query.fused_weights, NOW, 10))
    assert table is not None and (table.dense < 0).all()
    best = [table.ids[each.row] for each in rank(table, query.fused_weights, now=NOW, limit=10)]
    assert [hit.memory.id for hit in search_fast([partition], query)] == best


def test_what_the_codes_describe_badly_is_found_by_vector_and_by_word() -> None:
    """More misfits than are all scored: those that may reach the bar still are."""
    partition, codes = listed(memories(clustered(2_000, DIMENSION, seed=8)))
    spikes = [
        indexed(
            f"spike{number}", vector=sign * np.eye(DIMENSION)[axis], text=f"zebra{number}", importance=1.0
        )
        for number, (axis, sign) in enumerate((axis, sign) for axis in range(DIMENSION) for sign in (1, -1))
    ]
    partition.apply(added=spikes)
    assert len(codes.misfits) > 40
    elsewhere = clustered(1, DIMENSION, seed=9)[0]
    for number, spike in enumerate(spikes):
        vector = spike.vector.astype(np.float32)
        assert search_fast([partition], Query(vector, [], NOW))[0].memory.id == spike.memory.id
        named = search_fast([partition], Query(elsewhere, [f"zebra{number}"], NOW))
        assert named[0].memory.id == spike.memory.id
