"""While writes, supersedes, deletes, searches and sessions go on, a tenant is taken through every step.

No call fails, and every answer is one model's: by the length of its vectors and by their content, against a
plain dictionary of what stands.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from precall.engine.anticipation.conversation import Turn, TurnRole
from precall.engine.anticipation.events import StreamOpened
from precall.engine.engine import Engine
from precall.engine.errors import FingerprintMismatch, ModelChanged, StreamNotFound
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.preparing import GivenVector
from precall.engine.retrieval.query import Query
from precall.engine.tenant import Found, Tenant
from precall.engine.tenant_model import TenantModel
from precall.scoring.terms import analyze
from tests.engine.conftest import new, write
from tests.engine.two_models import (
    ALIKE,
    NEW,
    HeldEncoder,
    TwoModels,
    ask,
    assert_scored_by,
    assert_vectors_of,
    finish,
    idle,
    search,
    start,
)
from tests.fakes.clock import FakeClock
from tests.fakes.memories import ACME, DANA, WORDS, moment
from tests.fakes.stream_client import StreamClient

TEXT = "pune train tea doctor"
_ENOUGH = 2
"""Rounds of each worker in each state: what is tested is what happens beside a step, not how much."""


@dataclass
class Storm:
    """Workers that go round until they are told to stop; ``expected``: id -> text of what must be found."""

    models: TwoModels
    engine: Engine
    tenant: Tenant
    chance: random.Random
    expected: dict[str, str] = field(default_factory=dict)
    unsure: set[str] = field(default_factory=set)
    """Ids that somebody changes at this moment."""
    gone: set[str] = field(default_factory=set)
    rounds: dict[str, int] = field(default_factory=dict)
    answered_by: set[str] = field(default_factory=set)
    stopping: bool = False
    _turned: asyncio.Event = field(default_factory=asyncio.Event)

    def workers(self) -> list[asyncio.Task[None]]:
        works = {
            "write 0": lambda: self.write("w0"),
            "write 1": lambda: self.write("w1"),
            "supersede": self.supersede,
            "delete": self.delete,
            "search": self.search,
            "search with a vector": self.search_with_the_other,
            "search the past": self.search_the_past,
            "converse": self.converse,
        }
        return [asyncio.create_task(self._go_round(name, work)) for name, work in works.items()]

    async def _go_round(self, name: str, work: Callable[[], object]) -> None:
        while not self.stopping:
            await work()  # type: ignore[misc]
            self.rounds[name] = self.rounds.get(name, 0) + 1
            self._turned.set()
            await asyncio.sleep(0)  # what is warm is answered without a wait, and the others want their turn

    async def blow(self, workers: list[asyncio.Task[None]]) -> None:
        """Return when each worker has gone round a few times more; raises what one of them raises."""
        target = {name: count + _ENOUGH for name, count in self.rounds.items()}
        async with asyncio.timeout(60):
            while len(self.rounds) < len(workers) or any(self.rounds[n] < t for n, t in target.items()):
                self._turned.clear()
                turned = asyncio.create_task(self._turned.wait())
                await asyncio.wait({turned, *workers}, return_when=asyncio.FIRST_COMPLETED)
                turned.cancel()
                for worker in workers:
                    if worker.done():
                        worker.result()

    def text(self) -> str:
        return " ".join(self.chance.sample(WORDS[:10], 4))

    def stands_for_sure(self) -> dict[str, str]:
        return {i: text for i, text in self.expected.items() if i not in self.unsure}

    # Workers

    async def write(self, prefix: str) -> None:
        memory_id, text = f"{prefix}-{self.rounds.get(prefix, 0)}", self.text()
        self.rounds[prefix] = self.rounds.get(prefix, 0) + 1
        self.unsure.add(memory_id)
        memory = new(memory_id, text)
        encoder = self.chance.choice((None, self.models.old, self.models.new))
        try:
            vector = encoder and GivenVector(3 * encoder.vector(text), encoder.card.fingerprint)
            outcome = await self.tenant.write([memory], [vector], request_id=None, truncate=False)
        except FingerprintMismatch:  # the tenant has not this model (any more)
            outcome = await write(self.tenant, memory)
        self.expected[memory_id] = text
        self.unsure.discard(memory_id)
        found = await self.asked(DANA, min_version=outcome.version)
        assert memory_id in ids_of(found) or memory_id not in self.stands_for_sure(), "read your writes"

    async def supersede(self) -> None:
        count = self.rounds.get("statements", 0)
        self.rounds["statements"] = count + 1
        before, memory_id, text = f"s-{count - 1}", f"s-{count}", self.text()
        self.unsure |= {before, memory_id}
        await write(self.tenant, new(memory_id, text, ACME, at=count, key="home"))
        self.expected.pop(before, None)
        self.gone.add(before)
        self.expected[memory_id] = text
        self.unsure -= {before, memory_id}
        found = ids_of(await self.asked(ACME))
        assert memory_id in found
        assert before not in found

    async def delete(self) -> None:
        standing = sorted(i for i in self.stands_for_sure() if i.startswith("w"))
        if len(standing) < 4:
            return
        gone = self.chance.choice(standing)
        self.unsure.add(gone)
        await self.tenant.delete([gone], visible_from=None, request_id=None)
        del self.expected[gone]
        self.gone.add(gone)
        self.unsure.discard(gone)
        assert gone not in ids_of(await self.asked(DANA))

    async def search(self) -> None:
        await self.checked(lambda: self.asked(DANA))

    async def search_with_the_other(self) -> None:
        """With vectors of either model, as a client that has one's encoder; then by text if it must."""
        encoder = self.chance.choice((self.models.old, self.models.new))

        async def asked() -> Found:
            try:
                model = self.tenant.model(encoder.card.fingerprint)
                found = await search(self.tenant, TEXT, encoder.vector(TEXT), model, limit=1_000)
            except (FingerprintMismatch, ModelChanged):
                return await self.asked(DANA)
            assert_scored_by(found, encoder, TEXT)
            return found

        await self.checked(asked)

    async def search_the_past(self) -> None:
        model = self.tenant.model()
        query = Query(self.encoder(model).vector(TEXT), analyze(TEXT), 0.0, limit=1_000)
        try:
            now = moment(self.models.clock.wall())
            found = await self.tenant.search(DANA, query, model=model, as_of=now)
        except ModelChanged:
            return
        assert_scored_by(found, self.encoder(model), TEXT)

    async def converse(self) -> None:
        """One connection: what comes over it is of the model that it was opened for."""
        number = self.rounds["connections"] = self.rounds.get("connections", 0) + 1
        model, stream_id = self.tenant.model(), f"stream-{number}"
        anticipator = self.engine.anticipator
        stream = anticipator.open_stream("t", stream_id, model.card)
        client = StreamClient("s")
        try:
            partitions = await self.tenant.partitions(DANA, model)
            anticipator.open_session(
                tenant_id="t", stream_id=stream_id, session_id="s", conversation_id="", rung=DANA,
                ladder=self.tenant.ladder, model=model, partitions=partitions, version=self.tenant.version,
            )  # fmt: skip
            anticipator.observe("t", "s", 1, Turn(TurnRole.USER, TEXT), partial=False)
            for _ in range(5):
                if not stream._queue and not stream.open:
                    break
                event = await stream.next(lambda: anticipator.heartbeat("t"), 0.01)
                if event is not None:
                    if isinstance(event.body, StreamOpened):
                        assert event.body.model_fingerprint == model.fingerprint
                    client.apply(event)
                    stream.acknowledge(client.applied)
        except (StreamNotFound, ModelChanged):
            assert self.tenant.model() is not model, "only a step in between refuses it"
        finally:
            anticipator.close_stream(stream, "the connection ended")
        assert_vectors_of([item.indexed for item in client.items.values()], self.encoder(model))

    # What they rest on

    def encoder(self, model: TenantModel) -> HeldEncoder:
        return self.models.encoder(model.fingerprint)

    async def asked(self, rung: Rung, *, min_version: int = 0) -> Found:
        """As the edge asks: by text, and anew when the model was given up meanwhile."""
        while True:
            model = self.tenant.model()
            vector = await model.embed_turn(TEXT)
            assert vector.shape == (model.card.dimension,)
            query = Query(vector, analyze(TEXT), 0.0, limit=1_000)
            try:
                found = await self.tenant.search(rung, query, model=model, min_version=min_version)
            except ModelChanged:
                continue
            assert_scored_by(found, self.encoder(model), TEXT)
            self.answered_by.add(model.fingerprint)
            return found

    async def checked(self, asked: Callable[[], object]) -> None:
        """What stood before a search and stands after it is found; nothing that was gone before it is."""
        before, gone = self.stands_for_sure(), set(self.gone)
        found: Found = await asked()  # type: ignore[misc]
        sure = before.keys() & self.stands_for_sure().keys()
        assert sure <= ids_of(found), sure - ids_of(found)
        assert not gone & ids_of(found)


def ids_of(found: Found) -> set[str]:
    return {hit.memory.id for hit in found.hits}


@pytest.fixture(params=[NEW, ALIKE], ids=["of-another-length", "of-the-same-length"])
async def storm(
    request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Storm]:
    monkeypatch.setattr(
        "precall.engine.migration.comparison._QUERIES", 5
    )  # it yields to everybody, and all are busy
    models = TwoModels(tmp_path, clock, new=request.param)
    engine = await models.start()
    tenant = await engine.create_tenant("t", Ladder(("customer", "user")))
    storm = Storm(models, engine, tenant, random.Random(1))
    for number in range(30):  # more than are scored one by one: codes and their training are in play
        storm.expected[f"b{number}"] = text = storm.text()
        await write(tenant, new(f"b{number}", text))
    yield storm
    await models.close()


async def settled(storm: Storm, encoder: HeldEncoder) -> None:
    """After the storm: exactly what stands is found, and disk and memory agree."""
    found = await ask(storm.tenant, TEXT, limit=1_000)
    assert {hit.memory.id: hit.memory.text for hit in found.hits} == storm.expected
    assert_scored_by(found, encoder, TEXT)
    storm.tenant.check_integrity()
    storm.tenant.store.check_integrity()
    storm.engine.anticipator.check_integrity()
    storm.engine.residency.check_integrity()


async def test_every_step_in_a_storm(storm: Storm) -> None:
    tenant, models = storm.tenant, storm.models
    workers = storm.workers()
    await storm.blow(workers)
    await start(storm.engine, tenant, models.new)
    await storm.blow(workers)
    await tenant.migrating.switch()
    await storm.blow(workers)
    await tenant.migrating.roll_back()
    await storm.blow(workers)
    assert storm.answered_by == {models.old.card.fingerprint, models.new.card.fingerprint}
    await start(storm.engine, tenant, models.new)
    await tenant.migrating.switch()
    await storm.blow(workers)
    await finish(tenant)
    await storm.blow(workers)
    storm.stopping = True
    await asyncio.gather(*workers)
    await settled(storm, models.new)
    await storm.engine.close()
    storm.engine = await models.start(models.new)
    storm.tenant = await storm.engine.tenant("t")
    await settled(storm, models.new)


async def test_steps_follow_one_another_as_fast_as_they_can_in_a_storm(storm: Storm) -> None:
    tenant, models = storm.tenant, storm.models
    workers = storm.workers()
    await storm.blow(workers)
    for _ in range(3):
        await start(storm.engine, tenant, models.new)
        await tenant.migrating.switch()
        await tenant.migrating.roll_back()
    await start(storm.engine, tenant, models.new)
    await tenant.migrating.switch()
    await finish(tenant)
    await start(storm.engine, tenant, models.old)
    await tenant.migrating.switch()
    await storm.blow(workers)
    storm.stopping = True
    await asyncio.gather(*workers)
    await idle(tenant)
    await settled(storm, models.old)
