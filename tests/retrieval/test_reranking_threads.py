"""Reading pairs and scoring them takes the event loop no time: both happen on threads."""

import threading
from collections.abc import Mapping, Sequence

import numpy as np

from precall.engine.encoding.encoder import TokenizedText, TokenUsage
from precall.engine.encoding.reranker import RerankedBatch, RerankerCard
from precall.engine.retrieval.reranking import RerankQueue
from tests.retrieval.asking import rerank


class ThreadNotingReranker:
    card = RerankerCard("noting", "1", "0" * 64, 50, "{instruction}{query}{document}", "find")

    def __init__(self) -> None:
        self.threads: dict[str, set[int]] = {"tokenize": set(), "score": set()}

    def tokenize(
        self,
        query: str,
        document: str,
        *,
        truncate: bool,
        instruction: str | None = None,
        term_weights: Mapping[str, float] | None = None,
    ) -> TokenizedText:
        self.threads["tokenize"].add(threading.get_ident())
        return TokenizedText(np.zeros(3, np.int64), TokenUsage(3, 3))

    def score(self, pairs: Sequence[TokenizedText]) -> RerankedBatch:
        self.threads["score"].add(threading.get_ident())
        return RerankedBatch(np.full(len(pairs), 0.5, np.float32))

    def close(self) -> None: ...


async def test_pairs_are_tokenised_and_scored_beside_the_event_loop() -> None:
    reranker = ThreadNotingReranker()
    answer = await rerank(RerankQueue(reranker), "a query", ["one document", "another"])
    assert [document.score for document in answer.documents] == [0.5, 0.5]
    for stage, threads in reranker.threads.items():
        assert threads and threading.get_ident() not in threads, stage
