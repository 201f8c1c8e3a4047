"""A tenant's store to test on, and a short way to say a memory."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from precall.engine.encoding.encoder import TokenUsage
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.memory.memory import NewMemory
from precall.engine.memory.prepared import PreparedMemory, own_terms
from precall.engine.memory.store import TenantStore

DIMENSION = 8
DANA = Rung(("acme", "dana"))

Prepare = Callable[..., PreparedMemory]


@pytest.fixture(scope="session")
def prepare() -> Prepare:
    """``prepare(id, rung, at=hours, **fields)``: its vector follows from its id, its terms from its words."""

    def prepared(identity: str, rung: Rung = DANA, *, at: int = 0, **fields: Any) -> PreparedMemory:
        moment = datetime(2024, 5, 1, tzinfo=UTC) + timedelta(hours=at)
        defaults: dict[str, Any] = {
            "text": f"what {identity} says",
            "event_time": moment,
            "said_time": moment,
        }
        vector = np.random.default_rng(list(identity.encode())).normal(size=DIMENSION)
        memory = NewMemory(id=identity, rung=rung, **(defaults | fields))
        return PreparedMemory(
            memory=memory,
            vector=(vector / np.linalg.norm(vector)).astype(np.float16),
            terms=own_terms(memory.text, memory.questions),
            usage=TokenUsage(given=9, used=7),
        )

    return prepared


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TenantStore]:
    made = TenantStore.create(
        tmp_path / "acme.db",
        tenant_id="acme",
        ladder=Ladder(("customer", "user")),
        model_fingerprint="model-1",
        dimension=DIMENSION,
    )
    yield made
    made.close()
