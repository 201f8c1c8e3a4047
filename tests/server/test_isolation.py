"""No method shows one tenant or one user what is another's, or lets it change that.

One case a method of the contract: a method that is added without a case fails here.
"""

import contextlib
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
import pytest
from harness import DANA, ELI, METHODS, Caller, Stage, remember, scope, search

from precall.proto import admin_pb2, anticipation_pb2, common_pb2, embedding_pb2

SECRET = "zanzibar"
LABEL = "acme-front-desk"
Fields = dict[str, Any]


@dataclass
class Victim:
    """Dana of the tenant acme: what she has, by its ids."""

    caller: Caller
    memory_id: str
    key_id: str
    stream: Any
    stream_id: str
    session_id: str

    async def is_unharmed(self) -> bool:
        """Her memory is there, and her session still takes what she says."""
        await self.caller(
            "AnticipationService/ObserveTurn",
            session_id=self.session_id,
            sequence=1_000,
            role=anticipation_pb2.TURN_ROLE_USER,
            text="hello",
        )
        keys = await self.caller("AdminService/ListKeys", tenant_id="acme")
        alive = all(not key.HasField("revoked_at") for key in keys.keys)
        history = await self.caller("MemoryService/GetHistory", scope=scope(DANA), key="trip")
        return alive and len(history.memories) == 1 and await search(self.caller, DANA, SECRET) == [TEXT]


TEXT = f"Dana travels to {SECRET}"

# What an intruder sends to reach Dana: with her ids, and standing on the rung that it names.
CASES: dict[str, Callable[[Victim, dict[str, str]], Fields]] = {
    "EmbeddingService/Embed": lambda v, s: {"texts": ["trip"], "role": embedding_pb2.TEXT_ROLE_QUERY},
    "EmbeddingService/Rerank": lambda v, s: {"query": "trip", "documents": ["a"]},
    "EmbeddingService/GetModel": lambda v, s: {},
    "EmbeddingService/GetClientEncoder": lambda v, s: {},
    "MemoryService/WriteMemories": lambda v, s: {
        "memories": [common_pb2.MemoryInput(id=v.memory_id, scope=scope(s), text="mine now", key="trip")]
    },
    "MemoryService/GetMemories": lambda v, s: {"ids": [v.memory_id], "scope": scope(s)},
    "MemoryService/ListMemories": lambda v, s: {"scope": scope(s), "include_history": True},
    "MemoryService/GetHistory": lambda v, s: {"scope": scope(s), "key": "trip"},
    "MemoryService/DeleteMemories": lambda v, s: {"ids": [v.memory_id], "scope": scope(s)},
    "MemoryService/ForgetScope": lambda v, s: {"scope": scope(s)},
    "MemoryService/ForgetSource": lambda v, s: {
        "scope": scope(s),
        "source": common_pb2.Source(conversation_id="call-1"),
    },
    "RetrievalService/Search": lambda v, s: {"scope": scope(s), "query": SECRET[:4], "limit": 100},
    "AnticipationService/Watch": lambda v, s: {"stream_id": v.stream_id},
    "AnticipationService/OpenSession": lambda v, s: {
        "stream_id": v.stream_id,
        "session_id": v.session_id,
        "scope": scope(s),
    },
    "AnticipationService/ObserveTurn": lambda v, s: {
        "session_id": v.session_id,
        "sequence": 5,
        "role": anticipation_pb2.TURN_ROLE_USER,
        "text": "trip",
    },
    "AnticipationService/CloseSession": lambda v, s: {"session_id": v.session_id},
    "AnticipationService/RenewLease": lambda v, s: {"stream_id": v.stream_id, "applied_sequence": 10**6},
    "AnticipationService/ReportReads": lambda v, s: {
        "reads": [anticipation_pb2.ReadReport(session_id=v.session_id)]
    },
    "AdminService/CreateTenant": lambda v, s: {"id": "acme"},
    "AdminService/GetTenant": lambda v, s: {"id": "acme"},
    "AdminService/ListTenants": lambda v, s: {},
    "AdminService/DeleteTenant": lambda v, s: {"id": "acme"},
    "AdminService/CreateKey": lambda v, s: {"tenant_id": "acme", "role": admin_pb2.KEY_ROLE_READ},
    "AdminService/ListKeys": lambda v, s: {"tenant_id": "acme"},
    "AdminService/RevokeKey": lambda v, s: {"id": v.key_id},
    "AdminService/BackUpTenant": lambda v, s: {"tenant_id": "acme"},
    "AdminService/StartMigration": lambda v, s: {"tenant_id": "acme"},
    "AdminService/GetMigration": lambda v, s: {"tenant_id": "acme"},
    "AdminService/EndMigration": lambda v, s: {"tenant_id": "acme"},
}


def test_every_method_has_a_case():
    assert CASES.keys() == METHODS.keys()


async def victim_on(stage: Stage) -> Victim:
    await stage.tenant("acme")
    caller = await stage.key("acme", role=admin_pb2.KEY_ROLE_ADMIN, label=LABEL)
    (memory_id,) = await remember(
        caller, DANA, TEXT, key="trip", source=common_pb2.Source(conversation_id="call-1")
    )
    stream_id, session_id = str(uuid.uuid4()), str(uuid.uuid4())
    stream = caller.stream("AnticipationService/Watch", stream_id=stream_id)
    await stream.read()
    await caller(
        "AnticipationService/OpenSession", stream_id=stream_id, session_id=session_id, scope=scope(DANA)
    )
    key_id = (caller.token or "").split("_")[1]
    return Victim(caller, memory_id, key_id, stream, stream_id, session_id)


async def intruders_on(stage: Stage) -> dict[str, tuple[Caller, dict[str, str]]]:
    """Each with the rung that it claims to stand on."""
    zen = await stage.tenant("zen")
    zen_admin = await stage.key("zen", role=admin_pb2.KEY_ROLE_ADMIN)
    eli = await stage.key("acme", pinned_scope=scope(ELI))
    acme_read = await stage.key("acme", role=admin_pb2.KEY_ROLE_READ)
    acme = await stage.key("acme")
    return {
        "another tenant, same names": (zen, DANA),
        "another tenant's admin": (zen_admin, DANA),
        "another user, pinned, as himself": (eli, ELI),
        "another user, pinned, as Dana": (eli, DANA),
        "another user's rung": (acme, ELI),
        "another user's rung, reading": (acme_read, ELI),
    }


async def said(call: Any) -> bytes:
    """All that a call tells its caller, be it a reply or an error."""
    try:
        reply = await call
    except grpc.aio.AioRpcError as error:
        return repr((error.details(), error.trailing_metadata())).encode()
    return b"".join(m.SerializeToString() for m in (reply if isinstance(reply, list) else [reply]))


@pytest.mark.parametrize("method", CASES)
async def test_an_intruder_learns_and_changes_nothing(stage: Stage, method: str):
    victim = await victim_on(stage)
    for kind, (caller, levels) in (await intruders_on(stage)).items():
        told = await said(caller(method, **CASES[method](victim, levels)))
        assert SECRET.encode() not in told, kind
        assert LABEL.encode() not in told, kind
        assert await victim.is_unharmed(), kind
    victim.stream.cancel()


async def test_streams_carry_their_own_sessions_alone(stage: Stage):
    """Intruders with streams and sessions of their own, on any rung they name, get nothing of Dana's."""
    victim = await victim_on(stage)
    for kind, (caller, levels) in (await intruders_on(stage)).items():
        stream_id, session_id = str(uuid.uuid4()), str(uuid.uuid4())
        stream = caller.stream("AnticipationService/Watch", stream_id=stream_id)
        events = [await stream.read()]
        with contextlib.suppress(grpc.aio.AioRpcError):  # refused: as good as nothing pushed
            await caller(
                "AnticipationService/OpenSession",
                stream_id=stream_id,
                session_id=session_id,
                scope=scope(levels),
            )
            await caller(
                "AnticipationService/ObserveTurn",
                session_id=session_id,
                sequence=1,
                role=anticipation_pb2.TURN_ROLE_USER,
                text=f"what about {SECRET[:5]}",
            )
        await remember(victim.caller, DANA, f"another note on {SECRET}")
        heartbeats = 0
        while heartbeats < 2:  # whatever was meant for this stream came before
            events.append(event := await stream.read())
            heartbeats += event.HasField("heartbeat")
        stream.cancel()
        assert SECRET.encode() not in b"".join(e.SerializeToString() for e in events), kind
    victim.stream.cancel()


async def test_equal_ids_of_two_tenants_do_not_meet(stage: Stage):
    acme, zen = await stage.tenant("acme"), await stage.tenant("zen")
    same = str(uuid.uuid4())
    await remember(acme, DANA, "acme's word", id=same, key="k")
    await remember(zen, DANA, "zen's word", id=same, key="k")
    assert await search(acme, DANA, "word") == ["acme's word"]
    await zen("MemoryService/DeleteMemories", ids=[same], scope=scope(DANA))
    assert await search(acme, DANA, "word") == ["acme's word"]
    assert await search(zen, DANA, "word") == []


async def test_keys_of_a_deleted_tenant_do_not_open_a_new_one(stage: Stage):
    earlier = await stage.tenant("acme")
    await remember(earlier, DANA, TEXT)
    await stage.admin("AdminService/DeleteTenant", id="acme")
    later = await stage.tenant("acme")
    assert await search(later, DANA, SECRET) == []
    assert b"Bearer" in await said(search(earlier, DANA, SECRET))


async def test_a_pinned_key_deletes_what_was_derived_and_learns_nothing_of_other_rungs(stage: Stage):
    """A summary must not outlive what it sums up; that it stood on Eli's rung is not for Dana's key."""
    acme = await stage.tenant("acme")
    dana = await stage.key("acme", pinned_scope=scope(DANA))
    for forget, fields in (
        ("MemoryService/DeleteMemories", {"scope": scope(DANA)}),
        ("MemoryService/ForgetScope", {"scope": scope(DANA)}),
    ):
        (origin,) = await remember(acme, DANA, "Dana's note")
        source = common_pb2.Source(memory_ids=[origin])
        (own,) = await remember(acme, DANA, "Dana's summary", source=source)
        (shared,) = await remember(acme, {"customer": "acme"}, "everybody's summary", source=source)
        (elis,) = await remember(acme, ELI, "Eli's summary", source=source)
        ids = {"ids": [origin]} if forget.endswith("DeleteMemories") else {}
        reply = await dana(forget, **fields, **ids)
        if ids:
            assert set(reply.deleted_ids) == {origin, own, shared}
        else:
            assert reply.deleted == 3
        found = await acme("MemoryService/GetMemories", ids=[origin, own, shared, elis], scope=scope(ELI))
        assert len(found.missing_ids) == 4, "all of them are gone"


async def test_a_pinned_key_cannot_ask_by_deriving_whether_a_memory_exists(stage: Stage):
    acme = await stage.tenant("acme")
    dana = await stage.key("acme", pinned_scope=scope(DANA))
    (elis,) = await remember(acme, ELI, "Eli's note")
    (shared,) = await remember(acme, {"customer": "acme"}, "everybody's note")
    told = []
    for origin in (elis, str(uuid.uuid4())):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await remember(dana, DANA, "x", source=common_pb2.Source(memory_ids=[origin]))
        told.append((caught.value.code(), (caught.value.details() or "").replace(origin, "…")))
    assert told[0] == told[1]
    assert told[0][0] is grpc.StatusCode.NOT_FOUND
    await remember(dana, DANA, "y", source=common_pb2.Source(memory_ids=[shared]))
