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
from precall.engine.patient_embedding import PatientEmbedding
from precall.engine.tenant_model import TenantModel

_ROWS: Final = 64
_CHARACTERS: Final = 100_000
"""Of one request, but for a single longer text: little beside what a tenant may have waiting."""


async def backfill(
    store: TenantStore, model: TenantModel, turn: asyncio.Lock, embedding: PatientEmbedding
) -> None:
    """Return when no memory lacks a vector of ``model``; what is made is kept, batch by batch.

    ``turn``: whoever holds it sees disk and memory agree. Raises Draining when it is to stop; and the error
    of a text that cannot be embedded, which names its row, after what came with it was stored.
    """
    while rows := _first(await asyncio.to_thread(store.lacking, _ROWS)):
        outcomes = await embedding.embed(model, [row.text for row in rows], TextRole.DOCUMENT)
        made, faults = [], []
        for row, outcome in zip(rows, outcomes, strict=True):
            if outcome.vector is not None:
                made.append(NextVector(row.number, outcome.vector.astype(np.float16)))
            elif not isinstance(outcome.error, ModelUnavailable):  # that says nothing of the text: again
                assert outcome.error is not None
                faults.append(_of_row(row, outcome.error))
        if made:
            async with turn:
                await asyncio.to_thread(store.add_next_vectors, made, fingerprint=model.fingerprint)
                model.partitions.clear()  # they lack what came: whoever wants them reads them again
        if faults:
            raise faults[0]


def _first(rows: Sequence[Unembedded]) -> Sequence[Unembedded]:
    """As many as make one request."""
    lengths = accumulate(len(row.text) for row in rows)
    return rows[: max(1, sum(length <= _CHARACTERS for length in lengths))]


def _of_row(row: Unembedded, error: PrecallError) -> PrecallError:
    """The same error, said of a memory."""
    located = copy.copy(error)
    located.message = f"memory number {row.number} gets no vector of the new model: {error.message}"
    located.args = (located.message,)
    return located
