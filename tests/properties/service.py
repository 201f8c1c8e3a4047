"""What a life asks of precall, whichever way it goes, and what comes back."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from precall.engine.index.filter import MemoryFilter
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import NewMemory, Source
from tests.properties.vectors import embed

LEVELS = ("customer", "user")


class Refused(Exception):
    """An error of precall's, by its reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Given:
    """A vector that a writer brings: what that model makes of ``words``, whatever the memory says."""

    fingerprint: str
    words: str

    @property
    def vector(self) -> NDArray[np.float32]:
        return embed(self.fingerprint, self.words)


@dataclass(frozen=True)
class Wrote:
    """``written``: id, whether it stands, whom it superseded; in the order of the batch."""

    version: int
    written: list[tuple[str, bool, tuple[str, ...]]]
    replayed: bool


@dataclass(frozen=True)
class Destroyed:
    """``ids`` and ``missing`` are None where the path does not tell them."""

    version: int
    count: int
    replayed: bool
    ids: frozenset[str] | None = None
    missing: frozenset[str] | None = None


@dataclass(frozen=True)
class Found:
    """``hits``: id and total, best first; ``texts``: by id. ``fingerprint``: of the model that answered."""

    hits: list[tuple[str, float]]
    texts: dict[str, str]
    version: int
    visible: int
    fingerprint: str


@dataclass(frozen=True)
class Seen:
    """A memory as a list, a history or a look-up shows it."""

    id: str
    rung: Rung
    text: str
    key: str
    current: bool


@dataclass(frozen=True)
class Page:
    memories: list[Seen]
    next_token: str
    version: int


@dataclass(frozen=True)
class Standing:
    """How far a tenant's migration has come. ``state``: in the wire's words."""

    state: str
    origin: str
    goal: str
    serving: str
    done: int
    total: int
    error: str


class Service(Protocol):
    """precall by one of its paths. Errors are `Refused`. Every tenant has the ladder `LEVELS`."""

    @property
    def data_dir(self) -> Path:
        """The server's folder."""
        ...

    async def start(self, data_dir: Path, models: Sequence[str]) -> None:
        """``models``: fingerprints; the first one is what new tenants get."""
        ...

    async def stop(self) -> None: ...
    async def create(self, tenant: str) -> None: ...
    async def drop(self, tenant: str) -> None: ...

    async def write(
        self,
        tenant: str,
        batch: Sequence[NewMemory],
        request_id: str | None,
        given: Sequence[Given | None] = (),
    ) -> Wrote:
        """``given``: empty, or one a memory."""
        ...

    async def delete(
        self, tenant: str, ids: Sequence[str], rung: Rung, request_id: str | None
    ) -> Destroyed: ...
    async def forget_scope(self, tenant: str, rung: Rung, request_id: str | None) -> Destroyed: ...
    async def forget_source(
        self, tenant: str, source: Source, rung: Rung, request_id: str | None
    ) -> Destroyed: ...
    async def sweep(self) -> None:
        """Destroy what has expired."""
        ...

    async def search(
        self,
        tenant: str,
        rung: Rung,
        text: str,
        *,
        limit: int,
        asked: MemoryFilter | None = None,
        as_of: float | None = None,
        min_version: int = 0,
        by: str = "",
    ) -> Found:
        """``by``: the model whose vector comes with the question; empty: the question comes alone."""
        ...

    async def page(
        self,
        tenant: str,
        rung: Rung,
        *,
        size: int,
        token: str = "",
        asked: MemoryFilter | None = None,
        include_history: bool = False,
        as_of: float | None = None,
    ) -> Page: ...
    async def history(self, tenant: str, rung: Rung, key: str) -> list[Seen]: ...
    async def get(self, tenant: str, ids: Sequence[str], rung: Rung) -> list[Seen]: ...

    async def step(self, tenant: str, step: str, goal: str) -> None:
        """One of `model_change.STEPS`; ``goal``: where a start leads."""
        ...

    async def rest(self, tenant: str) -> None:
        """Return when nothing is done in the background for the tenant's migration."""
        ...

    async def standing(self, tenant: str) -> Standing | None:
        """None where the model was never changed."""
        ...

    async def evict(self) -> None:
        """Everything that nobody uses leaves the memory."""
        ...

    async def back_up(self, tenant: str, folder: Path) -> Path: ...
    async def restore(self, backup: Path, tenant: str) -> None: ...
    async def check(self, tenant: str) -> None:
        """Look inside, where the path allows it: parts that disagree raise AssertionError."""
        ...
