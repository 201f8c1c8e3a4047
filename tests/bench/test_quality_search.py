"""The column ACCURATE: an engine's own answers, and the ledger that makes them cheap."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from precall.bench.locomo import load_demo_conversation
from precall.bench.quality import encode
from precall.bench.quality_ledger import PairLedger
from precall.bench.quality_methods import score_fast
from precall.bench.quality_search import AccurateMethod
from precall.bench.quality_sets import LabelledQuery, LabelledSet, conversation_set, unconnected
from precall.bench.quality_vectors import VectorCache
from precall.engine.encoding.encoder import TokenizedText, TokenUsage
from precall.engine.encoding.reranker import RerankedBatch, RerankerCard
from precall.engine.errors import InvalidInput, NumericsError
from precall.scoring.query_terms import QueryTerms
from tests.fakes.encoder import FakeEncoder


class NumberReranker:
    """Judges by the number that a document ends with, a hundredth of it, else 0; notes what it reads."""

    card = RerankerCard("number", "1", "0" * 64, 50, "{query}{document}", "")

    def __init__(self, share: float = 1.0) -> None:
        self.share = share
        self.read: list[tuple[str, str]] = []
        self.told: list[Mapping[str, float] | None] = []
        self.calls = 0
        self.failing: set[str] = set()

    def search_share(self, asked: QueryTerms) -> float:
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
        if document == "unreadable":
            raise InvalidInput("only signs")
        self.read.append((query, document))
        self.told.append(term_weights)
        return TokenizedText(np.array([len(self.read) - 1], np.int64), TokenUsage(1, 1))

    def score(self, pairs: Sequence[TokenizedText]) -> RerankedBatch:
        self.calls += 1
        documents = [self.read[int(pair.token_ids[0])][1] for pair in pairs]
        numbers = [document.split()[-1] for document in documents]
        scores = [int(number) / 100 if number.isdigit() else 0.0 for number in numbers]
        errors = {row: NumericsError("none") for row, each in enumerate(documents) if each in self.failing}
        return RerankedBatch(np.array(scores, np.float32), errors)

    def close(self) -> None: ...


@pytest.fixture
def vectors(tmp_path: Path) -> VectorCache:
    return VectorCache(FakeEncoder(), tmp_path / "vectors")


def ranked(method: AccurateMethod, labelled: LabelledSet) -> list[list[int]]:
    """Per query the rows that were found, best first."""
    scores = method(encode(labelled, method.vectors))
    return [[row for row in np.argsort(-each, kind="stable").tolist() if each[row] > 0] for each in scores]


def test_without_a_share_of_the_reranker_the_engine_ranks_as_the_table_says_of_fast(
    vectors: VectorCache,
) -> None:
    labelled = conversation_set(load_demo_conversation())
    assert any(before is not None for before in labelled.context), "context would go unnoticed"
    fast = score_fast(encode(labelled, vectors))
    for row, found in enumerate(ranked(AccurateMethod(NumberReranker(0.0), vectors), labelled)):
        assert len(found) == min(50, len(labelled.memories))
        expected = np.sort(fast[row])[::-1][: len(found)]
        np.testing.assert_allclose(fast[row][found], expected, atol=2e-3)


def test_the_reranker_orders_the_best_of_fast_and_no_more(vectors: VectorCache) -> None:
    texts = [f"tea {'in the garden ' * (n % 3)}number {n}" for n in range(80)]
    labelled = unconnected("made up", texts, [LabelledQuery("tea garden?", (0,))])
    reranker = NumberReranker()
    (found,) = ranked(AccurateMethod(reranker, vectors, candidates=60), labelled)
    read = {int(document.split()[-1]) for _, document in reranker.read}
    fast = score_fast(encode(labelled, vectors))[0]
    assert len(read) == 60 and fast[list(read)].min() >= np.sort(fast)[::-1][60] - 2e-3
    assert found == sorted(read, reverse=True)[:50]
    assert all(told and set(told) == {"tea", "garden"} for told in reranker.told)
    assert reranker.calls == 1, "one call for all of a set"


def test_the_parts_of_a_compound_query_are_searched_too(vectors: VectorCache) -> None:
    labelled = unconnected(
        "made up",
        [f"something about tea number {n}" for n in range(5)],
        [LabelledQuery("Where does Dana live, what does Eli drink?", (0,))],
    )
    reranker = NumberReranker()
    ranked(AccurateMethod(reranker, vectors), labelled)
    assert list(dict.fromkeys(query for query, _ in reranker.read)) == [
        "Where does Dana live, what does Eli drink?", "Where does Dana live", "what does Eli drink?",
    ]  # fmt: skip


def test_a_ledger_reads_a_pair_once_and_answers_what_the_reranker_said() -> None:
    reranker = NumberReranker()
    reranker.failing = {"tea 7"}
    ledger = PairLedger(reranker)
    texts = ["tea 3", "tea 7", "tea 5"]

    def pairs(query: str, documents: Sequence[str]) -> list[TokenizedText]:
        return [ledger.tokenize(query, each, truncate=True, term_weights={"tea": 2.0}) for each in documents]

    assert ledger.score(pairs("a", texts)).scores.tolist() == [0, 0, 0]
    assert ledger.score(pairs("b", texts[:1])).scores.tolist() == [0]
    ledger.settle()
    again = ledger.score(pairs("a", texts[::-1]))
    assert again.scores == pytest.approx([0.05, 0.07, 0.03])
    assert list(again.errors) == [1] and isinstance(again.errors[1], NumericsError)
    assert ledger.score(pairs("b", texts[:1])).errors == {}
    assert (len(reranker.read), reranker.calls) == (4, 1)
    assert reranker.told == [{"tea": 2.0}] * 4
    with pytest.raises(InvalidInput):
        ledger.tokenize("a", "unreadable", truncate=True)
    with pytest.raises(IndexError):
        ledger.score(pairs("c", texts))
