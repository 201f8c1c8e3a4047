"""From what a writer said and what the models made of it to what is stored."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from precall.engine.batching.outcome import EmbeddingOutcome
from precall.engine.batching.work import WorkClass
from precall.engine.encoding.encoder import TextRole, TokenUsage
from precall.engine.errors import InvalidVector, PrecallError
from precall.engine.memory.memory import NewMemory
from precall.engine.memory.prepared import PreparedMemory, own_terms
from precall.engine.model_pair import ModelPair
from precall.engine.tenant_model import TenantModel
from precall.scoring.vectors import unit

_QUICKLY_ANALYSED: Final = 1_000
"""Characters of a write that are analysed in less time than a thread takes to begin (0.3 ms)."""

_PATIENCE_SECONDS: Final = 5.0
"""How much longer than for its own vectors a write waits for those that the backfill can make as well."""


@dataclass(frozen=True, slots=True)
class GivenVector:
    """A vector that a writer brought. ``vector``: float32, ``(dimension,)``, of the model of that
    fingerprint; it need not be of unit length.
    """

    vector: NDArray[np.float32]
    fingerprint: str


@dataclass(frozen=True, slots=True)
class PreparedBatch:
    """``serving`` and ``other``: fingerprints of the models whose vectors the memories have; ``other`` is
    empty where there was none. ``cut_beside``: of how many texts the other one read a part only.
    """

    memories: Sequence[PreparedMemory]
    serving: str
    other: str
    cut_beside: int = 0


_Rows: TypeAlias = Mapping[int, NDArray[np.float32]]
"""Position in the batch -> unit vector."""


class Preparing:
    """Batches of one tenant. Only the event loop may call in."""

    def __init__(self, tenant_id: str, pair: ModelPair) -> None:
        self._tenant_id = tenant_id
        self._pair = pair

    async def prepare(
        self,
        memories: Sequence[NewMemory],
        given: Sequence[GivenVector | None],
        *,
        truncate: bool,
        deadline: float | None,
    ) -> PreparedBatch:
        """Vectors of each of the tenant's models, and keyword terms. ``deadline``: monotonic seconds.

        The model that serves makes its vectors or the batch fails; so does the other one while there is a way
        back to it. What one that is being filled cannot make now is left to the backfill. ``truncate`` speaks
        of the model that serves: the other one may read less of a text, and cuts it.

        Raises what `Batcher.embed` raises, or an item's error, which names its position.
        """
        serving, other, obliged = self._pair.serving, self._pair.other, self._pair.switched
        rows = self._checked(given)
        own = rows.get(serving.fingerprint, {})
        others: _Rows = {}
        cut_beside = 0
        if other is None:  # the usual case, in which a small write must not pay for a task and a timer
            embedded = await self._embed(serving, memories, own, truncate=truncate, deadline=deadline)
            _require_made(embedded)
        else:
            theirs = rows.get(other.fingerprint, {})
            limit = deadline if obliged else None
            beside = asyncio.create_task(
                self._beside(other, memories, theirs, obliged=obliged, deadline=limit)
            )
            try:
                embedded = await self._embed(serving, memories, own, truncate=truncate, deadline=deadline)
                _require_made(embedded)
                if not obliged:
                    # A backfill that has far to go stands before this in the queue, and makes it too.
                    patience = 0.0 if other.is_far_behind else _patience(deadline)
                    await asyncio.wait({beside}, timeout=patience)
                made = await beside if obliged else _made_by_now(beside)
            finally:
                beside.cancel()
                await asyncio.gather(beside, return_exceptions=True)  # seen, whatever became of it
            others = {**theirs, **{position: each.require_vector() for position, each in made.items()}}
            cut_beside = sum(each.truncated for each in made.values())
        arguments = (memories, own, embedded, others)
        if sum(memory.characters for memory in memories) <= _QUICKLY_ANALYSED:
            prepared = _prepared(*arguments)
        else:  # on a thread: long texts take seconds to analyse, and every tenant shares this loop
            prepared = await asyncio.to_thread(_prepared, *arguments)
        beside_by = "" if other is None else other.fingerprint
        return PreparedBatch(prepared, serving.fingerprint, beside_by, cut_beside)

    def _checked(self, given: Sequence[GivenVector | None]) -> Mapping[str, _Rows]:
        """Fingerprint -> what was given of that model. Raises FingerprintMismatch, InvalidVector."""
        rows: dict[str, dict[int, NDArray[np.float32]]] = {}
        for position, each in enumerate(given):
            if each is not None:
                try:
                    dimension = self._pair.model(each.fingerprint).card.dimension
                    rows.setdefault(each.fingerprint, {})[position] = _unit(each.vector, dimension)
                except PrecallError as error:
                    raise error.at(position) from error
        return rows

    async def _beside(
        self,
        model: TenantModel,
        memories: Sequence[NewMemory],
        own: _Rows,
        *,
        obliged: bool,
        deadline: float | None,
    ) -> Mapping[int, EmbeddingOutcome]:
        """What the model that does not serve makes of the others' texts: all of it, if it is ``obliged``."""
        embedded = await self._embed(model, memories, own, truncate=True, deadline=deadline)
        if obliged:
            _require_made(embedded)
        return {position: each for position, each in embedded.items() if each.vector is not None}

    async def _embed(
        self,
        model: TenantModel,
        memories: Sequence[NewMemory],
        own: _Rows,
        *,
        truncate: bool,
        deadline: float | None,
    ) -> Mapping[int, EmbeddingOutcome]:
        """Position -> outcome, of those that have no vector of the model."""
        positions = [position for position in range(len(memories)) if position not in own]
        if not positions:
            return {}
        outcomes = await model.batcher.embed(
            [memories[position].text for position in positions],
            TextRole.DOCUMENT,
            tenant=self._tenant_id,
            work_class=WorkClass.INGEST,
            deadline=deadline,
            truncate=truncate,
        )
        return dict(zip(positions, outcomes, strict=True))


def _require_made(embedded: Mapping[int, EmbeddingOutcome]) -> None:
    for position, outcome in embedded.items():
        if outcome.error is not None:
            raise outcome.error.at(position)


def _patience(deadline: float | None) -> float:
    """Seconds; of what a deadline leaves, half is kept for the disk."""
    if deadline is None:
        return _PATIENCE_SECONDS
    return min(_PATIENCE_SECONDS, max(deadline - time.monotonic(), 0.0) / 2)


def _made_by_now(
    beside: "asyncio.Task[Mapping[int, EmbeddingOutcome]]",
) -> Mapping[int, EmbeddingOutcome]:
    """Nothing, if it is late or failed: the backfill will find out why, and says so."""
    if not beside.done() or beside.cancelled() or beside.exception() is not None:
        return {}
    return beside.result()


def _unit(vector: NDArray[np.float32], dimension: int) -> NDArray[np.float32]:
    """Raises InvalidVector."""
    if vector.shape != (dimension,):
        raise InvalidVector(f"the vector has shape {vector.shape}, that model's have ({dimension},)")
    try:
        return unit(vector)
    except ValueError as error:
        raise InvalidVector(str(error)) from error


def _prepared(
    memories: Sequence[NewMemory], own: _Rows, embedded: Mapping[int, EmbeddingOutcome], others: _Rows
) -> Sequence[PreparedMemory]:
    """Blocks for seconds when the texts are long."""
    prepared = []
    for position, memory in enumerate(memories):
        outcome = embedded.get(position)
        vector = own[position] if outcome is None else outcome.require_vector()
        usage = TokenUsage(0, 0) if outcome is None else outcome.usage or TokenUsage(0, 0)
        terms = own_terms(memory.text, memory.questions)
        other = others.get(position)
        prepared.append(
            PreparedMemory(
                memory,
                vector.astype(np.float16),
                terms,
                usage,
                None if other is None else other.astype(np.float16),
            )
        )
    return prepared
