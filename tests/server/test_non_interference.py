"""Whatever others do, nobody's answers change by it.

Two servers hear the same requests of one observer, about his things and about others'. On one of them he is
alone; on the other they ask every method before each of his requests, for their things and for his. What he
is told must be equal to the last field: nothing of theirs appears in it, nothing of his was changed, and
nothing of theirs was counted.

`ASKED` has a case for each method of the contract: a method that is added without one fails here.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
from asking import ASKED, RANKED_AT, Actor, Answer, Levels, Target, answer, first_words
from fakes.reranker import WordReranker
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from harness import ACME, DANA, ELI, METHODS, Stage, remember, running_stage, scope
from listening import Listener

from precall.proto import admin_pb2

READ, WRITE, ADMIN = admin_pb2.KEY_ROLE_READ, admin_pb2.KEY_ROLE_WRITE, admin_pb2.KEY_ROLE_ADMIN
OBSERVER: Final = "observer"
SECRET: Final = "zanzibar"
NAMESAKE: Final = {"customer": "other", "user": "dana"}

COUNTS_COMMITS: Final = {"version", "created_version", "superseded_version"}
"""By contract a tenant's commit counter: that, and no more, is learnt of others who write there."""

OF_ONE_RUN: Final = {
    f"precall.v1.{name}"
    for name in (
        "CreateKeyResponse.secret",
        "EmbedResponse.timings",
        "Key.created_at",
        "Key.id",
        "Key.revoked_at",
        "Memory.created_at",
        "Push.caused_at",
        "PushedItem.stamp",
        "RenewLeaseResponse.lease",
        "RerankResponse.timings",
        "SearchResponse.timings",
        "StreamOpened.server_time",
        "WatchEvent.sequence",
        "WriteMemoriesResponse.timings",
    )
}
"""Clocks, random numbers, digests over them, and what counts heartbeats."""


TELLS_OF_IDS: Final = {
    "AnticipationService/OpenSession",
    "AnticipationService/Watch",
    "MemoryService/WriteMemories",
}
"""An id that is in use is refused to everybody: with another's id, which nobody guesses, these say so."""


@dataclass(frozen=True)
class Observer:
    """Whose answers are compared: where he stands, and what his key is good for.

    ``shared_with``: who may change what stands there, and so is not to be kept from it.
    """

    tenant: str
    levels: dict[str, str]
    role: admin_pb2.KeyRole.ValueType
    pinned: bool = False
    shared_with: str = ""


OBSERVERS: Final = {
    "another tenant, same names": Observer("calm", DANA, WRITE),
    "another tenant's admin": Observer("calm", DANA, ADMIN),
    "a user": Observer("acme", DANA, WRITE),
    "a user, pinned": Observer("acme", DANA, WRITE, pinned=True),
    "a user, reading, pinned": Observer("acme", DANA, READ, pinned=True),
    "the rung above, reading": Observer("acme", ACME, READ, shared_with="eli"),
}


@dataclass(frozen=True)
class World:
    """A server with the observer on it and, unless it is quiet, the others."""

    observer: Actor
    listener: Listener
    others: list[Actor]
    attackers: list[Actor]
    spied: list[tuple[Actor, Target]]

    async def asked(self, method: str) -> list[Answer]:
        """What the observer is told, while everybody else asks the same about their things and about his."""
        for other in self.others:
            await other.ask(method, other.own)
        if method != "AnticipationService/OpenSession":  # nobody knows a session's UUID before it is opened
            await self.attacked(method)
        told = await self.observer.ask(method, self.observer.own)
        for spy, target in self.spied if method not in TELLS_OF_IDS else ():
            told += [each.without(target.key_id) for each in await spy.ask(method, target)]
        if method == "AnticipationService/OpenSession":
            await self.attacked(method)
            await self.attacked("AnticipationService/CloseSession")  # while there is more to be observed
        if method == "AnticipationService/ObserveTurn":
            await self.listener.until("push", caused_by=1)
        return told

    async def attacked(self, method: str) -> None:
        for other in self.attackers:
            await other.ask(method, self.observer.own)


def uuids(seed: int) -> list[str]:
    """Three that end in 0, the same in both worlds."""
    return [str(uuid.UUID(int=(seed << 96) + (number << 32), version=4)) for number in range(1, 4)]


def things_of(name: str, tenant: str, seed: int, *, key_id: str = "0" * 16) -> Target:
    """What somebody has, or would have if he were there."""
    standing, passing, request_id = uuids(seed)
    stream_id, session_id, _ = uuids(100 + sum(name.encode()))  # unlike memories, of all tenants together
    return Target(tenant, standing, passing, stream_id, session_id, key_id, request_id)


async def actor_on(stage: Stage, name: str, tenant: str, levels: Levels, seed: int, **key: Any) -> Actor:
    """Somebody new, whose first memories stand."""
    word = "pune" if name == OBSERVER else SECRET
    spare = await stage.admin("AdminService/CreateKey", tenant_id=tenant, label=f"spare of {word}")
    own = things_of(name, tenant, seed, key_id=spare.key.id)
    actor = Actor(name, await stage.key(tenant, **key), levels, word, own)
    writer = await stage.key(tenant)
    await writer("MemoryService/WriteMemories", memories=first_words(actor, own))
    return actor


async def others_on(stage: Stage) -> list[Actor]:
    """Two users and a namesake beside the observer, and another tenant where all ids are his own."""
    await stage.admin("AdminService/CreateTenant", id="zen")
    eli = await actor_on(stage, "eli", "acme", ELI, 2)
    twin = await actor_on(stage, "twin", "zen", DANA, 1)
    pinned = {"role": WRITE, "pinned_scope": scope(ELI)}
    return [
        eli,
        twin,
        await actor_on(stage, "namesake", "acme", NAMESAKE, 3),
        Actor("eli, pinned", await stage.key("acme", **pinned), ELI, SECRET, eli.own),
        Actor("eli, reading", await stage.key("acme", role=READ), ELI, SECRET, eli.own),
        Actor("eli, pinned, as dana", await stage.key("acme", **pinned), DANA, SECRET, eli.own),
        Actor("twin's admin", await stage.key("zen", role=ADMIN), DANA, SECRET, twin.own),
    ]


@asynccontextmanager
async def world_on(stage: Stage, asked: Observer, *, quiet: bool) -> AsyncIterator[World]:
    for tenant in ("acme", "calm"):
        shared = await stage.tenant(tenant)
        await remember(shared, ACME, "everybody's trip", id=uuids(9)[0], said_time=RANKED_AT)
    observer = await actor_on(
        stage,
        OBSERVER,
        asked.tenant,
        asked.levels,
        1,
        role=asked.role,
        pinned_scope=scope(asked.levels) if asked.pinned else None,
    )
    others = [] if quiet else await others_on(stage)
    async with asyncio.TaskGroup() as tasks:
        listener = Listener(observer.caller, observer.own.stream_id)
        listeners = [listener]
        for other in others:  # a stream each, so that they have sessions of their own
            if other.own.stream_id not in {each.stream_id for each in listeners}:
                listeners.append(Listener(other.caller, other.own.stream_id))
        listening = [tasks.create_task(each.listen()) for each in listeners]
        for each in listeners:
            await each.until("opened")
        attackers = [other for other in others if other.name != asked.shared_with]
        eli, twin = [other.own for other in others[:2]] or [
            things_of("eli", "acme", 2),
            things_of("twin", "zen", 1),
        ]
        spied = [(observer, eli), (observer, twin)]
        if asked.pinned:  # and so he may not stand where others do
            spied.append((replace(observer, levels=ELI), eli))
        yield World(observer, listener, others, attackers, spied)
        for task in listening:
            task.cancel()


@pytest.fixture
async def worlds(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[list[World]]:
    """The quiet one and the loud one of the observer that the test is about."""
    async with AsyncExitStack() as stack:
        made = []
        for quiet in (True, False):
            running = running_stage(
                tmp_path / f"quiet-{quiet}",
                reranker=WordReranker(),
                complete_below=0,  # so that what is pushed is predicted
            )
            stage = await stack.enter_async_context(running)
            world = world_on(stage, OBSERVERS[request.param], quiet=quiet)
            made.append(await stack.enter_async_context(world))
        yield made


def fields(message: Message) -> dict[str, Any]:
    """A message as plain values, without what belongs to one run and without commit counters."""
    plain: dict[str, Any] = {}
    for descriptor, value in message.ListFields():
        if descriptor.name in COUNTS_COMMITS or descriptor.full_name in OF_ONE_RUN:
            continue
        if descriptor.type != FieldDescriptor.TYPE_MESSAGE:
            plain[descriptor.name] = value if isinstance(value, str | bytes | float | int) else list(value)
        elif isinstance(value, Message):
            plain[descriptor.name] = fields(value)
        elif hasattr(value, "items"):
            plain[descriptor.name] = dict(value)
        else:
            plain[descriptor.name] = [fields(each) for each in value]
    return plain


def comparable(answers: list[Answer]) -> list[Any]:
    return [
        (each.code, each.told[0] if each.code is not grpc.StatusCode.OK else [*map(fields, each.told)])
        for each in answers
    ]


def test_every_method_is_asked() -> None:
    assert ASKED.keys() == METHODS.keys()


@pytest.mark.parametrize("worlds", OBSERVERS, indirect=True)
async def test_nothing_that_others_do_changes_an_answer(worlds: list[World]) -> None:
    quiet, loud = worlds
    answered = 0
    for method in ASKED:
        silent, told = await quiet.asked(method), await loud.asked(method)
        assert comparable(told) == comparable(silent), method
        assert SECRET.encode() not in b"".join(each.content for each in told), method
        answered += any(each.code is grpc.StatusCode.OK for each in told)
    assert answered >= 12  # what compares refusals alone proves nothing

    pushed = await loud.listener.all_that_was_meant()
    assert [fields(event) for event in pushed] == [
        fields(event) for event in await quiet.listener.all_that_was_meant()
    ]
    assert any(event.push.HasField("coverage") for event in pushed)
    assert SECRET.encode() not in b"".join(event.SerializeToString() for event in pushed)


async def test_the_servers_own_admin_reads_no_memory(stage: Stage) -> None:
    """It sees every tenant, that is what it is for; of what anybody said it sees nothing."""
    await stage.admin("AdminService/CreateTenant", id="acme")
    others = await others_on(stage)
    targets = [other.own for other in others]
    admin = Actor("the server's admin", stage.admin, DANA, "admin", targets[0])
    for method in [method for method in ASKED if method != "AdminService/DeleteTenant"]:
        for target in targets:
            for request in ASKED[method](admin, target):
                told = await answer(stage.admin(method, **request))
                assert b"trip goes" not in told.content, method
