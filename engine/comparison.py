"""How much of what one model finds the other one finds too, on questions that a tenant's memories suggest."""

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
from precall.engine.patient_embedding import PatientEmbedding
from precall.engine.resident_partitions import Lineage
from precall.engine.retrieval.query import Query
from precall.engine.retrieval.search import search_fast
from precall.engine.tenant_model import TenantModel
from precall.scoring.fusion import keyword_share
from precall.scoring.query_terms import QueryTerms

_QUERIES: Final = 100
_AT_ONCE: Final = 20
_RESULTS: Final = 10
_WORDS: Final = 12
"""Of a memory's beginning, where it names no question that it answers."""

_SEED: Final = 20_260
"""Any: the same memories are asked the same questions."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """``overlap_at_10``: the mean share of the first ten results that both models found."""

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
        """None where nothing can be asked. ``now``: Unix seconds that recency counts from.

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
        terms = QueryTerms.of(asked.text)
        share = keyword_share(terms, model.card.scripts)
        query = Query(vector, terms.terms, now, limit=_RESULTS, keyword_share=share)
        lineage: Lineage = await model.partitions.lineage(asked.rung, self._turn)
        # On a thread, however few they are: two hundred searches in a row would hold everybody up.
        return {hit.memory.id for hit in await asyncio.to_thread(search_fast, lineage, query)}


def sample_queries(store: TenantStore) -> list[SampledQuery]:
    """Up to a hundred, from current memories of all rungs alike; of the rungs that have some, each read once
    and as far as needed. Blocks.
    """
    chance = random.Random(_SEED)
    counts = [each for each in store.counts() if each.current]
    total = sum(each.current for each in counts)
    picked = iter(sorted(chance.sample(range(total), min(_QUERIES, total))))
    by_rung: dict[Rung, set[int]] = {}
    begin, pick = 0, next(picked, None)
    for each in counts:
        while pick is not None and pick < begin + each.current:
            by_rung.setdefault(each.rung, set()).add(pick - begin)
            pick = next(picked, None)
        begin += each.current
    return [
        SampledQuery(rung, text)
        for rung, places in by_rung.items()
        for memory in _memories_at(store, rung, places)
        if (text := _question(memory, chance))
    ]


def _memories_at(store: TenantStore, rung: Rung, places: set[int]) -> list[Memory]:
    """Those that come at these places when the rung is read."""
    found = []
    with closing(store.load_rung(rung)) as rows:  # type: ignore[type-var]
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
