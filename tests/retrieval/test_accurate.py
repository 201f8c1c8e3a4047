"""ACCURATE search: what the reranker reads, how its scores count, and what it never does."""

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping, Sequence

import numpy as np
import pytest

from precall.engine.encoding.encoder import TokenizedText, TokenUsage
from precall.engine.encoding.guard import PROBE_TEXT
from precall.engine.encoding.reranker import RerankedBatch, RerankerCard
from precall.engine.errors import (
    ConfigurationError,
    DeadlineExceeded,
    InvalidInput,
    ModelUnavailable,
    NumericsError,
    Overloaded,
    PrecallError,
    TextTooLong,
)
from precall.engine.index.partition import Partition, PartitionSettings
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import IndexedMemory
from precall.engine.retrieval.accurate import (
    MOST_READ_CHARACTERS,
    AccurateSearch,
    AccurateSettings,
    AskedText,
)
from precall.engine.retrieval.query import Hit, Leg, Query
from precall.engine.retrieval.reranking import RerankingSettings, RerankQueue
from precall.engine.retrieval.search import search_fast
from precall.scoring.keyword import inverse_document_frequency
from precall.scoring.query_terms import QueryTerms
from precall.scoring.ranking import RankingWeights
from precall.scoring.terms import analyze
from tests.fakes.memories import ACME, DANA, NOW, clustered, indexed

DIMENSION = 32
VECTORS = clustered(200, DIMENSION, seed=3)
RELEVANCE_ALONE = RankingWeights(relevance=1.0, importance=0.0, recency=0.0)


class TableReranker:
    """Scores of documents from a table, 0.1 for others. ``gate`` closed holds every pass."""

    card = RerankerCard("table", "1", "0" * 64, 50, "{query}{document}", "")

    def __init__(self, scores: Mapping[str, float], *, share: float = 0.5) -> None:
        self.share = share
        self.terms_told: list[int] = []
        self.scores = dict(scores)
        self.read: list[tuple[str, str]] = []
        self.term_weights: list[Mapping[str, float] | None] = []
        self.errors: dict[str, PrecallError] = {}
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()

    def search_share(self, asked: QueryTerms) -> float:
        self.terms_told.append(len(asked.terms))
        return self.share

    def tokenize(
        self,
        query: str,
        document: str,
        *,
        truncate: bool,
        instruction: str | None = None,
        term_weights: Mapping[str, float] | None = None,
    ) -> TokenizedText:
        assert truncate and instruction is None
        self.read.append((query, document))
        self.term_weights.append(term_weights)
        if isinstance(error := self.errors.get(document), InvalidInput):
            raise error
        return TokenizedText(np.array([len(self.read) - 1], np.int64), TokenUsage(1, 1))

    def score(self, pairs: Sequence[TokenizedText]) -> RerankedBatch:
        self.entered.set()
        assert self.gate.wait(10)
        documents = [self.read[int(pair.token_ids[0])][1] for pair in pairs]
        errors = {row: self.errors[each] for row, each in enumerate(documents) if each in self.errors}
        scores = np.array([self.scores.get(document, 0.1) for document in documents], np.float32)
        return RerankedBatch(scores, errors)

    def close(self) -> None: ...


@pytest.fixture
async def released() -> AsyncIterator[list[TableReranker]]:
    """Rerankers whose gate is opened in the end, whatever a test comes to."""
    held: list[TableReranker] = []
    yield held
    for reranker in held:
        reranker.gate.set()


def partition(rung: Rung, held: Sequence[IndexedMemory]) -> Partition:
    made = Partition(rung, DIMENSION, PartitionSettings())
    made.apply(added=held)
    return made


def memories(count: int, rung: Rung = DANA, **fields: object) -> list[IndexedMemory]:
    return [
        indexed(f"{rung.depth}-{n:03}", rung, vector=VECTORS[n], text=f"tea number {n}", **fields)
        for n in range(count)
    ]


def asked(text: str = "tea", at: int = 0, **fields: object) -> AskedText:
    return AskedText(text, Query(VECTORS[at], analyze(text), NOW, **fields))  # type: ignore[arg-type]


def searcher(reranker: TableReranker, candidates: int = 100, **settings: object) -> AccurateSearch:
    queue = RerankQueue(reranker, RerankingSettings(**settings))  # type: ignore[arg-type]
    return AccurateSearch(queue, AccurateSettings(candidates=candidates))


async def hits(
    reranker: TableReranker, parts: Sequence[Partition], *texts: AskedText, candidates: int = 100
) -> list[Hit]:
    answer = await searcher(reranker, candidates).search(parts, texts, tenant="acme", deadline=None)
    return answer.hits


def ids(found: Sequence[Hit]) -> list[str]:
    return [hit.memory.id for hit in found]


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
async def test_relevance_is_mixed_and_importance_and_recency_still_count(share: float) -> None:
    parts = [partition(DANA, memories(30, importance=0.3)), partition(ACME, memories(30, ACME))]
    question = asked(limit=60)
    fast = {hit.memory.id: hit for hit in search_fast(parts, question.query)}
    reranker = TableReranker({f"tea number {n}": n / 40 for n in range(30)}, share=share)
    found = await hits(reranker, parts, question)
    assert set(ids(found)) == set(fast)
    for hit in found:
        before = fast[hit.memory.id].score
        assert hit.rerank == pytest.approx(reranker.scores[hit.memory.text])
        relevance = (1 - share) * before.relevance + share * hit.rerank
        assert hit.score.relevance == pytest.approx(relevance)
        total = 0.7 * relevance + 0.2 * before.importance + 0.1 * before.recency
        assert hit.score.total == pytest.approx(total, abs=1e-6)
        assert (hit.score.dense, hit.score.keyword) == (before.dense, before.keyword)
    assert [-hit.score.total for hit in found] == sorted(-hit.score.total for hit in found)
    if share == 0:
        assert ids(found) == list(fast)


async def test_a_candidate_far_down_in_fast_search_can_come_first() -> None:
    parts = [partition(DANA, memories(100))]
    last = search_fast(parts, asked(limit=100).query)[-1]
    found = await hits(TableReranker({last.memory.text: 1.0}, share=1.0), parts, asked(limit=3))
    assert ids(found)[0] == last.memory.id and len(found) == 3


async def test_the_reranker_reads_so_many_and_no_more_unless_more_are_asked_for() -> None:
    parts = [partition(DANA, memories(100))]
    for limit, texts, expected in ((5, 1, 40), (60, 1, 60), (5, 3, 3 * 14), (30, 2, 60)):
        reranker = TableReranker({})
        questions = [asked(f"tea {n}", n, limit=limit) for n in range(texts)]
        found = await hits(reranker, parts, *questions, candidates=40)
        assert (len(reranker.read), len(found)) == (expected, limit)
        assert list(dict.fromkeys(query for query, _ in reranker.read)) == [f"tea {n}" for n in range(texts)]


async def test_the_reranker_is_told_how_rare_the_terms_are_on_all_visible_rungs() -> None:
    parts = [
        partition(DANA, [indexed("a", vector=VECTORS[0], text="zeppelin tea")]),
        partition(ACME, [indexed(f"b{n}", ACME, vector=VECTORS[n], text="tea") for n in range(3)]),
    ]
    reranker = TableReranker({})
    await hits(reranker, parts, asked("zeppelin, tea, glacier, tea"))
    assert set(reranker.terms_told) == {3}, "each once, those that nothing holds as well"
    expected = {
        "zeppelin": inverse_document_frequency(4, 1),
        "tea": inverse_document_frequency(4, 4),
    }
    assert len(reranker.term_weights) == 4
    assert all(weights == pytest.approx(expected) for weights in reranker.term_weights)


async def test_parts_are_merged_by_the_best_total_and_each_memory_comes_once() -> None:
    held = [
        indexed("boats", vector=VECTORS[0], text="boats"),
        indexed("trains", vector=VECTORS[1], text="trains"),
        indexed("both", vector=VECTORS[2], text="trains boats"),
    ]
    parts = [partition(DANA, held)]
    texts = [asked(text, at, weights=RELEVANCE_ALONE) for at, text in enumerate(("boats", "trains"))]
    reranker = TableReranker({"boats": 0.2, "trains": 0.2, "trains boats": 0.1}, share=0.5)
    found = await hits(reranker, parts, *texts)
    alone = [await hits(reranker, parts, text) for text in texts]
    best = {memory_id: max(
        hit.score.total for part in alone for hit in part if hit.memory.id == memory_id
    ) for memory_id in ("boats", "trains", "both")}  # fmt: skip
    assert {hit.memory.id: hit.score.total for hit in found} == pytest.approx(best)
    assert sorted(ids(found)) == ["boats", "both", "trains"]
    (both,) = [hit for hit in found if hit.memory.id == "both"]
    assert Leg.KEYWORD in both.legs


async def test_equal_totals_are_ordered_as_in_fast_search() -> None:
    held = [indexed(f"on-{rung.depth}", rung, vector=VECTORS[0], text="tea") for rung in (ACME, DANA)]
    held += [indexed("later", vector=VECTORS[0], text="tea", event=NOW + 5)]
    parts = [partition(rung, [each for each in held if each.memory.rung == rung]) for rung in (ACME, DANA)]
    question = asked(weights=RELEVANCE_ALONE)
    expected = ["later", "on-2", "on-1"]
    assert ids(search_fast(parts, question.query)) == expected
    assert ids(await hits(TableReranker({}), parts, question)) == expected


async def test_what_a_write_takes_away_while_the_reranker_reads_is_not_served(
    released: list[TableReranker],
) -> None:
    parts = [partition(DANA, memories(6))]
    reranker = TableReranker({})
    released.append(reranker)
    reranker.gate.clear()
    searching = asyncio.create_task(hits(reranker, parts, asked(limit=2)))
    assert await asyncio.to_thread(reranker.entered.wait, 10)
    gone = ids(search_fast(parts, asked(limit=2).query))
    parts[0].apply(removed=gone)
    reranker.gate.set()
    found = ids(await searching)
    assert len(found) == 2 and not set(found) & set(gone)


async def test_a_failed_pass_fails_the_search_and_is_not_passed_off_as_fast() -> None:
    reranker = TableReranker({})
    reranker.errors["tea number 3"] = ModelUnavailable("device lost")
    with pytest.raises(ModelUnavailable):
        await hits(reranker, [partition(DANA, memories(6))], asked())


@pytest.mark.parametrize(
    "error", [InvalidInput("only signs"), TextTooLong("too long"), NumericsError("no number")]
)
async def test_a_memory_without_a_score_counts_nothing_and_the_others_are_ranked(error: PrecallError) -> None:
    reranker = TableReranker({f"tea number {n}": (n + 1) / 10 for n in range(6)}, share=1.0)
    reranker.errors["tea number 3"] = error
    found = await hits(reranker, [partition(DANA, memories(6))], asked())
    assert [hit.memory.text[-1] for hit in found] == ["5", "4", "2", "1", "0", "3"]
    (unread,) = [hit for hit in found if hit.memory.text == "tea number 3"]
    assert (unread.rerank, unread.score.relevance) == (0.0, 0.0)


async def test_memories_of_which_none_can_be_read_are_found_all_the_same() -> None:
    reranker = TableReranker({}, share=0.5)
    reranker.errors |= {f"tea number {n}": InvalidInput("only signs") for n in range(6)}
    parts = [partition(DANA, memories(6))]
    assert ids(await hits(reranker, parts, asked())) == ids(search_fast(parts, asked().query))


async def test_a_query_that_cannot_be_read_fails_the_search() -> None:
    reranker = TableReranker({})
    reranker.errors |= {text: InvalidInput("no room") for text in (PROBE_TEXT, "tea number 3")}
    with pytest.raises(InvalidInput, match="no room"):
        await hits(reranker, [partition(DANA, memories(6))], asked())


async def test_a_model_without_a_finite_score_for_any_memory_fails_the_search() -> None:
    reranker = TableReranker({})
    reranker.errors |= {f"tea number {n}": NumericsError("no number") for n in range(6)}
    with pytest.raises(NumericsError):
        await hits(reranker, [partition(DANA, memories(6))], asked())


async def test_a_deadline_that_has_passed_is_told() -> None:
    parts = [partition(DANA, memories(6))]
    with pytest.raises(DeadlineExceeded):
        await searcher(TableReranker({})).search(parts, [asked()], tenant="acme", deadline=0.0)


async def test_an_overloaded_reranker_is_told(released: list[TableReranker]) -> None:
    parts = [partition(DANA, memories(6))]
    reranker = TableReranker({})
    released.append(reranker)
    reranker.gate.clear()
    busy = searcher(reranker, max_waiting_characters=300)
    first = asyncio.create_task(busy.search(parts, [asked()], tenant="acme", deadline=None))
    assert await asyncio.to_thread(reranker.entered.wait, 10)
    with pytest.raises(Overloaded):
        await busy.search(parts, [asked()], tenant="acme", deadline=None)
    reranker.gate.set()
    assert len((await first).hits) == 6


async def test_a_long_memory_is_read_in_its_first_part() -> None:
    reranker = TableReranker({})
    held = [indexed("long", vector=VECTORS[0], text="tea " * 25_000)]
    await hits(reranker, [partition(DANA, held)], asked())
    assert [len(document) for _, document in reranker.read] == [MOST_READ_CHARACTERS]


async def test_nothing_visible_finds_nothing() -> None:
    assert await hits(TableReranker({}), [partition(DANA, [])], asked()) == []


def test_no_candidates_are_no_setting() -> None:
    with pytest.raises(ConfigurationError):
        AccurateSettings(candidates=0)
