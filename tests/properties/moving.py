"""A tenant as the lines that `precall export` writes, and the batches that `precall ingest` makes of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from precall.cli import export as exporting
from precall.cli.batch_message import UsableVectors, batch_message
from precall.cli.ingest import cut_into_batches
from precall.cli.memory_file import MemoryLine, read_memory_file
from precall.engine.memory.ladder import Ladder
from precall.engine.memory.memory import NewMemory
from precall.server.mapping.memories import new_memory
from tests.fakes.clock import FakeClock
from tests.properties.service import LEVELS


@dataclass(frozen=True)
class Exported:
    """A line, and the vector that stands in it. ``vector``: float16, ``(dimension,)``."""

    memory: NewMemory
    vector: NDArray[np.float16]
    fingerprint: str


def moved(data_dir: Path, tenant: str, file: Path, clock: FakeClock) -> Sequence[Sequence[Exported]]:
    """What a server would be asked to write, batch by batch; none for a tenant that holds nothing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with patch.object(exporting, "time", SimpleNamespace(time_ns=lambda: int(clock.wall() * 1e6) * 1_000)):
        exporting.export(tenant=tenant, backup=None, file=file, vectors=True, data_dir=data_dir)
    if not file.read_text():
        return []
    ladder, now = Ladder(LEVELS), datetime.fromtimestamp(clock.wall(), UTC)
    batches = []
    for batch in cut_into_batches(read_memory_file(file, {})):
        message = batch_message(
            batch.scope,
            batch.lines,
            [line.fields.id for line in batch.lines],
            request_id=batch.request_id,
            truncate=False,
            usable=UsableVectors("", 0),
        )
        batches.append(
            [
                _exported(new_memory(each, ladder, now=now), line)
                for each, line in zip(message.memories, batch.lines, strict=True)
            ]
        )
    return batches


def _exported(memory: NewMemory, line: MemoryLine) -> Exported:
    vector = line.fields.vector
    assert vector is not None
    return Exported(memory, np.frombuffer(vector.content, "<f2"), vector.model_fingerprint)
