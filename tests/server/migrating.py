"""A server with two models, and a tenant on its way from one to the other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from fakes.encoder import FAKE_CARD, FakeEncoder
from harness import Stage, running_stage

from precall.engine.encoding.encoder import TextRole
from precall.proto import admin_pb2, common_pb2

NEXT_CARD = replace(FAKE_CARD, name="fake-next", dimension=48, scripts=("latin", "devanagari"))
OLD, NEW = FAKE_CARD.fingerprint, NEXT_CARD.fingerprint

ENDS = {
    "switch": admin_pb2.MIGRATION_END_SWITCH,
    "roll back": admin_pb2.MIGRATION_END_ROLL_BACK,
    "finish": admin_pb2.MIGRATION_END_FINISH,
}


@asynccontextmanager
async def two_models(data_dir: Path, **changes: Any) -> AsyncIterator[Stage]:
    """``next_encoder``: another one than the usual of `NEXT_CARD`."""
    async with running_stage(data_dir, **({"next_encoder": FakeEncoder(NEXT_CARD)} | changes)) as stage:
        yield stage


async def take(stage: Stage, step: str, tenant_id: str = "acme") -> admin_pb2.Migration:
    """ "start", or the name of an end; returns what the step answered."""
    if step == "start":
        return await stage.admin("AdminService/StartMigration", tenant_id=tenant_id)
    return await stage.admin("AdminService/EndMigration", tenant_id=tenant_id, end=ENDS[step])


async def standing(stage: Stage, tenant_id: str = "acme") -> admin_pb2.Migration:
    """The migration once the server is at work on it no more, as an operator waits for it."""
    async with asyncio.timeout(20):
        while True:
            migration = await stage.admin("AdminService/GetMigration", tenant_id=tenant_id)
            if not migration.working:
                return migration
            await asyncio.sleep(0.01)


async def taken(stage: Stage, *steps: str, tenant_id: str = "acme") -> admin_pb2.Migration:
    """Take the steps, each once the one before is done, and wait for the last one too."""
    for step in steps:
        await take(stage, step, tenant_id)
        migration = await standing(stage, tenant_id)
    return migration


def vector_by(card: Any, text: str, **changes: Any) -> common_pb2.Vectors:
    """A text as the fake model of this card embeds it."""
    encoder = FakeEncoder(card)
    row = encoder.encode([encoder.tokenize(text, TextRole.QUERY, truncate=True)]).vectors[0]
    fields = {
        "data": row.astype("<f4").tobytes(),
        "count": 1,
        "dimension": len(row),
        "format": common_pb2.VECTOR_FORMAT_FLOAT32,
        "model_fingerprint": card.fingerprint,
    }
    return common_pb2.Vectors(**(fields | changes))


def rows(vectors: common_pb2.Vectors) -> np.ndarray:
    """Float16 rows off the wire."""
    return np.frombuffer(vectors.data, "<f2").reshape(vectors.count, vectors.dimension)
