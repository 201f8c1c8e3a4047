"""How much of what one model finds near the other one finds near too, on questions that memories suggest.

Cosines alone are compared. Keywords, importance and recency are the same whatever the model: a search that
weighs them as well finds much in common between models that have nothing in common.
"""

import asyncio
import random
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.engine.encoding.encoder import TextRole
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import Memory
from precall.engine.memory.store import TenantStore
from precall.engine.migration.patient_embedding import PatientEmbedding
from precall.engine.resident_partitions import Lineage
from precall.engine.retrieval.query import Query
from precall.engine.retrieval.search import search_fast
from precall.engine.tenant_model import TenantModel
from precall.scoring.ranking import RankingWeights

_QUERIES: Final = 100
_AT_ONCE: Final = 20
_RESULTS: Final = 10
_WORDS: Final = 12
"""Of a memory's beginning, where it names no question that it answers."""

_ENOUGH: Final = 50
"""Memories of which a question's reader must see more. Of ten, any two models have the first ten in common;
of fifty, two that know nothing of each other have a fifth of them.
"""

_COSINE_ALONE: Final = RankingWeights(relevance=1.0, importance=0.0, recency=0.0)
_SEED: Final = 20_260
"""Any: the same memories are asked the same questions."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """``overlap_at_10``: the mean share of the ten nearest memories that both models found."""

    overlap_at_10: float
    queries: int


@dataclass(frozen=True, slots=True)
class SampledQuery:
    """What a reader on ``rung`` might ask."""

    rung: Rung
    text: str


class ModelComparison:
    """Of two models of one tenant, each searched with vectors of its own."""

    def __init__(
        self,
        store: TenantStore,
        models: Sequence[TenantModel],
        turn: asyncio.Lock,
        embedding: PatientEmbedding,
    ) -> None:
        """``turn``: whoever holds it sees disk and memory agree."""
        self._store = store
        self._models = models
        self._turn = turn
        self._embedding = embedding

    async def run(self, *, now: float) -> Comparison | None:
        """None where too few memories stand to ask about. ``now``: Unix seconds of the searches.

        A query that one of the models cannot embed is left out. Raises Draining when it is to stop.
        """
        asked = await asyncio.to_thread(sample_queries, self._store)
        overlaps: list[float] = []
        for begin in range(0, len(asked), _AT_ONCE):
            queries = asked[begin : begin + _AT_ONCE]
            vectors = [await self._embed(model, queries) for model in self._models]
            for query, *embedded in zip(queries, *vectors, strict=True):
                found = [
                    await self._search(model, query, vector, now=now)
                    for model, vector in zip(self._models, embedded, strict=True)
                    if vector is not None
                ]
                if len(found) == len(self._models) and any(found):
                    overlaps.append(len(set.intersection(*found)) / max(map(len, found)))
        return Comparison(float(np.mean(overlaps)), len(overlaps)) if overlaps else None

    async def _embed(
        self, model: TenantModel, queries: Sequence[SampledQuery]
    ) -> Sequence[NDArray[np.float32] | None]:
        texts = [query.text for query in queries]
        return [each.vector for each in await self._embedding.embed(model, texts, TextRole.QUERY)]

    async def _search(
        self, model: TenantModel, asked: SampledQuery, vector: NDArray[np.float32], *, now: float
    ) -> set[str]:
        """Ids of the first ten."""
        query = Query(vector, (), now, limit=_RESULTS, weights=_COSINE_ALONE, keyword_share=0.0)
        lineage: Lineage = await model.partitions.lineage(asked.rung, self._turn)
        # On a thread, however few they are: two hundred searches in a row would hold everybody up.
        return {hit.memory.id for hit in await asyncio.to_thread(search_fast, lineage, query)}


def sample_queries(store: TenantStore) -> list[SampledQuery]:
    """Up to a hundred, from current memories of all rungs alike whose readers see enough of them; each rung
    is read once and as far as needed. Blocks.
    """
    chance = random.Random(_SEED)
    current = {each.rung: each.current for each in store.counts() if each.current}
    counts = {
        rung: count
        for rung, count in current.items()
        if sum(current.get(seen, 0) for seen in rung.lineage()) > _ENOUGH
    }
    total = sum(counts.values())
    picked = iter(sorted(chance.sample(range(total), min(_QUERIES, total))))
    by_rung: dict[Rung, set[int]] = {}
    begin, pick = 0, next(picked, None)
    for rung, count in counts.items():
        while pick is not None and pick < begin + count:
            by_rung.setdefault(rung, set()).add(pick - begin)
            pick = next(picked, None)
        begin += count
    return [
        SampledQuery(rung, text)
        for rung, places in by_rung.items()
        for memory in _memories_at(store, rung, places)
        if (text := _question(memory, chance))
    ]


def _memories_at(store: TenantStore, rung: Rung, places: set[int]) -> list[Memory]:
    """Those that come at these places when the rung is read."""
    found = []
    with closing(store.load_rung(rung)) as rows:
        for place, indexed in enumerate(rows):
            if place in places:
                found.append(indexed.memory)
            if len(found) == len(places):
                break
    return found


def _question(memory: Memory, chance: random.Random) -> str:
    if memory.questions:
        return chance.choice(memory.questions)
    return " ".join(memory.text.split(maxsplit=_WORDS)[:_WORDS])
