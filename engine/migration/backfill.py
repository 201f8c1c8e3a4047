"""Giving every memory of a tenant its vector of the model that the tenant migrates to."""

import asyncio
import copy
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import numpy as np

from precall.engine.encoding.encoder import TextRole
from precall.engine.errors import ModelUnavailable, PrecallError
from precall.engine.memory.next_vectors import NextVector, Unembedded
from precall.engine.memory.store import TenantStore
from precall.engine.migration.patient_embedding import PatientEmbedding
from precall.engine.tenant_model import TenantModel

_ROWS: Final = 64
_MOST_FAULTS: Final = 100
"""Memories without a vector at which it is the model that is at fault, and not they."""

_NAMED: Final = 5
"""Of them, in the error."""

_CHARACTERS: Final = 100_000
"""Of one request, but for a single longer text: little beside what a tenant may have waiting."""


async def backfill(
    store: TenantStore, model: TenantModel, turn: asyncio.Lock, embedding: PatientEmbedding
) -> None:
    """Return when no memory lacks a vector of ``model``; what is made is kept, batch by batch.

    ``turn``: whoever holds it sees disk and memory agree. Raises Draining when it is to stop; and, once all
    others have their vectors, the error of the texts that cannot be embedded, which names their memories.
    """
    try:
        faults = await _filled(store, model, turn, embedding)
    finally:
        model.is_far_behind = False
    if faults:
        raise _named(faults)


async def _filled(
    store: TenantStore, model: TenantModel, turn: asyncio.Lock, embedding: PatientEmbedding
) -> Sequence[tuple[Unembedded, PrecallError]]:
    """What can have no vector, and why."""
    faults: dict[int, tuple[Unembedded, PrecallError]] = {}
    while len(faults) < _MOST_FAULTS:
        lacking = await asyncio.to_thread(store.lacking, _ROWS, but=faults)
        if not lacking:
            break
        rows = _first(lacking)
        model.is_far_behind = len(lacking) == _ROWS
        outcomes = await embedding.embed(model, [row.text for row in rows], TextRole.DOCUMENT)
        made = []
        for row, outcome in zip(rows, outcomes, strict=True):
            if outcome.vector is not None:
                made.append(NextVector(row.number, outcome.vector.astype(np.float16)))
            elif not isinstance(outcome.error, ModelUnavailable):  # that says nothing of the text: again
                assert outcome.error is not None
                faults[row.number] = (row, outcome.error)
        if made:
            async with turn:
                await asyncio.to_thread(store.add_next_vectors, made, fingerprint=model.fingerprint)
                model.texts_cut += sum(each.truncated for each in outcomes if each.vector is not None)
                model.partitions.clear()  # they lack what came: whoever wants them reads them again
    return list(faults.values())


def _first(rows: Sequence[Unembedded]) -> Sequence[Unembedded]:
    """As many as make one request."""
    lengths = accumulate(len(row.text) for row in rows)
    return rows[: max(1, sum(length <= _CHARACTERS for length in lengths))]


def _named(faults: Sequence[tuple[Unembedded, PrecallError]]) -> PrecallError:
    """The first error, said of the memories."""
    named = ", ".join(row.id for row, _ in faults[:_NAMED])
    more = f" and {len(faults) - _NAMED} more" if len(faults) > _NAMED else ""
    first = faults[0][1]
    located = copy.copy(first)
    many = f"{len(faults)} memories get" if len(faults) > 1 else "one memory gets"
    located.message = (
        f"{many} no vector of the new model: {named}{more}; delete them, or write other texts. "
        f"Of the first: {first.message}"
    )
    located.args = (located.message,)
    return located
