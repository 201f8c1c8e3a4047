"""Engines that run one or two models without weights, whose vectors a test can tell apart and hold back."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.engine.encoding.card import ModelCard
from precall.engine.encoding.encoder import EncodedBatch, TextRole, TokenizedText
from precall.engine.engine import Engine, EngineSettings
from precall.engine.errors import ModelUnavailable
from precall.engine.index.partition import PartitionSettings
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import IndexedMemory
from precall.engine.memory.migration import Migration, MigrationState
from precall.engine.migration.migrating import MigrationReport
from precall.engine.retrieval.query import Query
from precall.engine.tenant import Found, Tenant
from precall.engine.tenant_model import TenantModel
from precall.scoring.terms import analyze
from tests.engine.conftest import ANTICIPATION
from tests.fakes.clock import FakeClock
from tests.fakes.encoder import FAKE_CARD, FakeEncoder
from tests.fakes.memories import DANA

OLD: Final = FAKE_CARD
NEW: Final = replace(FAKE_CARD, name="fake-new", dimension=24, scripts=("latin", "devanagari"))
ALIKE: Final = replace(FAKE_CARD, name="fake-alike", revision="2")
"""Its vectors are as long as the old model's, and others."""

POISON: Final = "poison"
"""A word of which the model makes NaN, where a test says so."""


class HeldEncoder(FakeEncoder):
    """A model whose vectors are its own: those of one card are not those of another.

    ``hold`` keeps every pass from ending until `let_go`; ``poisoned`` makes the word NaN.
    """

    def __init__(self, card: ModelCard) -> None:
        super().__init__(card)
        self.poisoned = False
        self.embedded: list[bytes] = []
        """The token ids of each text that went through."""
        self._known: dict[str, NDArray[np.float32]] = {}
        self.waiting = threading.Event()
        self._free = threading.Event()
        self._free.set()
        self._turned = np.random.default_rng(list(card.name.encode())).permutation(card.dimension)
        self._poison = self.tokenize(POISON, TextRole.QUERY, truncate=True).token_ids[0]

    def hold(self) -> None:
        self.waiting.clear()
        self._free.clear()

    def let_go(self) -> None:
        self._free.set()

    async def somebody_waits(self) -> None:
        assert await asyncio.to_thread(self.waiting.wait, 20)

    def encode(self, texts: Sequence[TokenizedText]) -> EncodedBatch:
        if not self._free.is_set():
            self.waiting.set()
            assert self._free.wait(20)
        vectors = super().encode(texts).vectors[:, self._turned]
        if self.poisoned:
            vectors[[self._poison in text.token_ids for text in texts]] = np.nan
        self.embedded += [text.token_ids.tobytes() for text in texts]
        return EncodedBatch(vectors)

    def vector(self, text: str) -> NDArray[np.float32]:
        """What it makes of a text, whatever it is told to do with passes."""
        if text not in self._known:
            token_ids = self.tokenize(text, TextRole.QUERY, truncate=True).token_ids
            self._known[text] = self._vector(token_ids)[self._turned]
        return self._known[text]


class TwoModels:
    """The encoders of a test and the engines that it starts with them, one after the other on one folder."""

    def __init__(self, folder: Path, clock: FakeClock, old: ModelCard = OLD, new: ModelCard = NEW) -> None:
        self.old, self.new = HeldEncoder(old), HeldEncoder(new)
        self.clock = clock
        self._settings = EngineSettings(
            folder / "data", anticipation=ANTICIPATION, partitions=PartitionSettings(exact_below=20)
        )
        self._engines: list[Engine] = []

    async def start(self, primary: HeldEncoder | None = None, other: HeldEncoder | None = None) -> Engine:
        """Close the last one first. Without encoders: the old model, and the new one as the next."""
        if primary is None:
            primary, other = self.old, self.new
        engine = Engine(self._settings, primary, next_encoder=other, clock=self.clock)
        self._engines.append(engine)
        await engine.start()
        return engine

    async def close(self) -> None:
        for encoder in (self.old, self.new):
            encoder.let_go()
            encoder.broken = False
        for engine in self._engines:
            await engine.close()

    def encoder(self, fingerprint: str) -> HeldEncoder:
        return next(each for each in (self.old, self.new) if each.card.fingerprint == fingerprint)


async def until(tenant: Tenant, true: Callable[[MigrationReport], bool]) -> MigrationReport:
    """The first report that is as asked."""
    async with asyncio.timeout(30):
        while True:
            report = await tenant.migrating.report()
            if true(report):
                return report
            await asyncio.sleep(0.005)


async def idle(tenant: Tenant) -> Migration:
    """The migration once nothing is done in the background."""
    async with asyncio.timeout(30):
        await tenant.migrating.settled()
    report = await tenant.migrating.report()
    assert report.migration is not None
    return report.migration


async def start(engine: Engine, tenant: Tenant, to: HeldEncoder) -> Migration:
    """Begin, and wait until it is ready and compared."""
    await tenant.migrating.start(engine.models.named(to.card.fingerprint))
    migration = await idle(tenant)
    assert migration.ready, (await tenant.migrating.report()).error
    return migration


async def finish(tenant: Tenant) -> Migration:
    await tenant.migrating.finish()
    migration = await idle(tenant)
    assert migration.state is MigrationState.FINISHED
    return migration


async def ask(
    tenant: Tenant, text: str, rung: Rung = DANA, *, model: TenantModel | None = None, limit: int = 100
) -> Found:
    """Search with a vector of the model: that which serves when nothing is said."""
    model = tenant.model() if model is None else model
    return await search(tenant, text, await model.embed_turn(text), model, rung, limit=limit)


async def search(
    tenant: Tenant,
    text: str,
    vector: NDArray[np.float32],
    model: TenantModel,
    rung: Rung = DANA,
    *,
    limit: int = 100,
) -> Found:
    query = Query(vector, analyze(text), 1_770_000_000.0, limit=limit)
    return await tenant.search(rung, query, model=model)


def assert_scored_by(found: Found, encoder: HeldEncoder, text: str) -> None:
    """Each hit's cosine is that of this model's vectors, and of no other's."""
    asked = encoder.vector(text)
    for hit in found.hits:
        held = encoder.vector(hit.memory.text).astype(np.float16).astype(np.float32)
        assert abs(hit.score.dense - float(held @ asked)) < 2e-3, hit.memory.id


def assert_vectors_of(stored: Iterable[IndexedMemory], encoder: HeldEncoder) -> None:
    for each in stored:
        expected = encoder.vector(each.memory.text).astype(np.float16)
        assert each.vector.shape == expected.shape
        assert np.abs(each.vector - expected).max() < 2e-3, each.memory.id


def broken(encoder: HeldEncoder) -> None:
    """Every pass of it fails from here on."""
    encoder.fault = ModelUnavailable("the fake device is gone")
    encoder.broken = True


async def outcome_of(step: Awaitable[object]) -> BaseException | None:
    """The error that it ends with, if it does."""
    with suppress(asyncio.CancelledError):
        try:
            await step
        except Exception as error:
            return error
    return None
