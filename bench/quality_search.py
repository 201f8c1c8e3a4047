"""ACCURATE search as a column of the quality table: what an engine answers, asked as the server asks it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.bench.quality_ledger import PairLedger
from precall.bench.quality_measures import DEEP
from precall.bench.quality_methods import EncodedSet, Scores
from precall.bench.quality_sets import LabelledSet
from precall.bench.quality_vectors import VectorCache
from precall.engine.encoding.encoder import TextRole
from precall.engine.encoding.reranker import Reranker
from precall.engine.engine import Engine, EngineSettings
from precall.engine.index.partition import Partition
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.memory.memory import MemoryKind, NewMemory, Source
from precall.engine.preparing import GivenVector
from precall.engine.retrieval.accurate import (
    DEFAULT_CANDIDATES,
    AccurateSearch,
    AccurateSettings,
    AskedText,
)
from precall.engine.retrieval.query import Hit, Query
from precall.engine.retrieval.reranking import RerankQueue
from precall.engine.retrieval.splitting import split_query
from precall.engine.tenant import Tenant
from precall.scoring.fusion import keyword_share
from precall.scoring.query_terms import QueryTerms
from precall.scoring.ranking import RankingWeights

_TENANT: Final = "quality"
_BEGINNING: Final = datetime(2026, 1, 1, tzinfo=UTC)
_BATCH: Final = 500
_RELEVANCE_ALONE: Final = RankingWeights(relevance=1.0, importance=0.0, recency=0.0)


@dataclass(frozen=True, slots=True)
class AccurateMethod:
    """A set is written into an engine of its own, turn by turn where it is a conversation, and searched.

    Relevance alone ranks, for nothing in these sets is more important or older than the rest. ``vectors``
    is also where the parts of a compound query get theirs. The `DEEP` best are asked for: each part of a
    compound query then has so many candidates at least, where a search for ten gives it its share of
    ``candidates``. Only MADial has such queries, but for one.
    """

    reranker: Reranker
    vectors: VectorCache
    candidates: int = DEFAULT_CANDIDATES

    def __call__(self, encoded: EncodedSet) -> Scores:
        """Places as scores, the first ``DEEP`` for the best; 0 for what was not among the `DEEP` best."""
        return asyncio.run(self._scores(encoded))

    async def _scores(self, encoded: EncodedSet) -> Scores:
        asked = self._asked(encoded)
        ledger = PairLedger(self.reranker)
        queue = RerankQueue(ledger)
        accurate = AccurateSearch(queue, AccurateSettings(self.candidates))
        with TemporaryDirectory() as folder:
            engine = Engine(EngineSettings(Path(folder)), self.vectors.encoder)
            await engine.start()
            try:
                tenant = await engine.create_tenant(_TENANT, Ladder(("set",)))
                rung = Rung((encoded.labelled.name,))
                await _write(tenant, rung, encoded)
                for texts in asked:
                    await _found(tenant, rung, accurate, texts)
                await asyncio.to_thread(ledger.settle)
                scores = np.zeros((len(asked), len(encoded.labelled.memories)), np.float32)
                for row, texts in enumerate(asked):
                    for place, hit in enumerate(await _found(tenant, rung, accurate, texts)):
                        scores[row, int(hit.memory.id)] = DEEP - place
            finally:
                await queue.close()
                await engine.close()
        return scores

    def _asked(self, encoded: EncodedSet) -> list[list[AskedText]]:
        """Per query the whole one and the parts that a search splits it into."""
        queries = encoded.labelled.queries
        parts = [split_query(query.text) for query in queries]
        distinct = list(dict.fromkeys(part for its_parts in parts for part in its_parts))
        vectors = dict(zip(distinct, self.vectors.vectors(distinct, TextRole.QUERY), strict=True))
        return [
            [
                AskedText(text, self._query(text, vector))
                for text, vector in ((query.text, own), *((part, vectors[part]) for part in its_parts))
            ]
            for query, own, its_parts in zip(queries, encoded.queries, parts, strict=True)
        ]

    def _query(self, text: str, vector: NDArray[np.float32]) -> Query:
        terms = QueryTerms.of(text)
        return Query(
            vector,
            terms.terms,
            _BEGINNING.timestamp(),
            limit=DEEP,
            weights=_RELEVANCE_ALONE,
            keyword_share=keyword_share(terms, self.vectors.encoder.card.scripts),
        )


async def _write(tenant: Tenant, rung: Rung, encoded: EncodedSet) -> None:
    """A memory's id is its row; what was said before it is in its conversation, a second earlier or more."""
    memories = [
        NewMemory(
            id=str(row),
            rung=rung,
            text=text,
            event_time=_BEGINNING + timedelta(seconds=row),
            said_time=_BEGINNING + timedelta(seconds=row),
            kind=MemoryKind.EPISODE,
            source=Source(conversation_id=str(conversation)),
        )
        for row, (text, conversation) in enumerate(
            zip(encoded.labelled.memories, _conversations(encoded.labelled), strict=True)
        )
    ]
    fingerprint = tenant.model().fingerprint
    vectors = [GivenVector(vector, fingerprint) for vector in encoded.memories]
    for start in range(0, len(memories), _BATCH):
        batch = slice(start, start + _BATCH)
        await tenant.write(memories[batch], vectors[batch], request_id=None, truncate=True)


def _conversations(labelled: LabelledSet) -> list[int]:
    """Per memory the row that its conversation began with."""
    began: list[int] = []
    for row, before in enumerate(labelled.context):
        began.append(row if before is None else began[before])
    return began


async def _found(
    tenant: Tenant, rung: Rung, accurate: AccurateSearch, asked: Sequence[AskedText]
) -> Sequence[Hit]:
    found = await tenant.search(rung, asked[0].query, method=partial(_answer, accurate, asked))
    return found.hits


async def _answer(
    accurate: AccurateSearch, asked: Sequence[AskedText], partitions: Sequence[Partition], query: Query
) -> list[Hit]:
    answer = await accurate.search(partitions, asked, tenant=_TENANT, deadline=None)
    return answer.hits
