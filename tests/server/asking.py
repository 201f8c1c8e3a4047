"""Every method of the contract as somebody would ask it, about his own things or about another's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import grpc
import grpc.aio
import numpy as np
from google.protobuf.timestamp_pb2 import Timestamp
from harness import Caller, scope
from wire_vectors import vectors

from precall.proto import anticipation_pb2, common_pb2, embedding_pb2, retrieval_pb2

Fields = dict[str, Any]
Levels = Mapping[str, str]

RANKED_AT: Final = Timestamp(seconds=1_900_000_000)
_SAID: Final = Timestamp(seconds=1_800_000_000)


@dataclass(frozen=True)
class Target:
    """Whose things a request names: by their ids, their tenant and the words that were said.

    ``standing``: a memory that is not deleted on the way. ``passing``: one that is, with all from its `uri`.
    """

    tenant: str
    standing: str
    passing: str
    stream_id: str
    session_id: str
    key_id: str
    request_id: str

    @property
    def uri(self) -> str:
        """Where what is passing comes from."""
        return f"file:{self.passing}"


@dataclass(frozen=True)
class Actor:
    """Somebody with a key, standing on a rung; ``word`` is in whatever he says."""

    name: str
    caller: Caller
    levels: Levels
    word: str
    own: Target

    async def ask(self, method: str, target: Target) -> "list[Answer]":
        """All requests of a method that he can think of, one after the other."""
        return [await answer(self.caller(method, **fields)) for fields in ASKED[method](self, target)]


@dataclass(frozen=True)
class Answer:
    """``told``: the replies, or the error with everything that came with it."""

    code: grpc.StatusCode
    told: tuple[Any, ...]

    @property
    def content(self) -> bytes:
        """Every byte of it."""
        return b"".join(
            each.encode() if isinstance(each, str) else each.SerializeToString() for each in self.told
        )

    def without(self, name: str) -> "Answer":
        """The same, where an error does not repeat this name."""
        told = tuple(each.replace(name, "...") if isinstance(each, str) else each for each in self.told)
        return Answer(self.code, told)


async def answer(call: Any) -> Answer:
    try:
        reply = await call
    except grpc.aio.AioRpcError as error:
        return Answer(error.code(), (error.details() or "", repr(error.trailing_metadata())))
    return Answer(grpc.StatusCode.OK, tuple(reply if isinstance(reply, list) else [reply]))


def memory(actor: Actor, memory_id: str, text: str, **fields: Any) -> common_pb2.MemoryInput:
    """What an actor writes on his rung, its moments given: worlds must not differ by the clock."""
    defaults: Fields = {"said_time": _SAID, "metadata": {"by": actor.word}, "importance": 0.25}
    return common_pb2.MemoryInput(
        id=memory_id, scope=scope(dict(actor.levels)), text=f"{text} {actor.word}", **(defaults | fields)
    )


def first_words(actor: Actor, target: Target) -> list[common_pb2.MemoryInput]:
    """What stands before anybody asks anything."""
    return [
        memory(actor, target.standing, "the trip goes to", key="trip"),
        memory(actor, target.passing, "a note on the trip", source=common_pb2.Source(uri=target.uri)),
    ]


def _writes(actor: Actor, target: Target) -> list[Fields]:
    """A correction under a key that everybody uses, a turn that was derived, both tries of one request, and
    an id that is taken. New ids are the actor's own: nobody guesses a UUID before it is used.
    """
    own = actor.own
    later = Timestamp(seconds=_SAID.seconds + 60)
    correction = memory(actor, _next(own.standing, 1), "no, the trip goes to", key="trip", said_time=later)
    derived = common_pb2.Source(memory_ids=[own.standing], conversation_id="call")
    turn = memory(actor, _next(own.standing, 2), "so the trip", source=derived, kind="MEMORY_KIND_EPISODE")
    request = {"memories": [correction, turn], "request_id": own.request_id}
    taken = {"memories": [memory(actor, target.standing, "mine now:", key="trip")]}
    return [request, request, taken]


def _searches(actor: Actor, target: Target) -> list[Fields]:
    asked: Fields = {"scope": scope(dict(actor.levels)), "query": "where the trip goes", "limit": 50}
    asked["ranked_at"] = RANKED_AT
    unit = np.eye(1, 32, dtype=np.float32)[0]
    accurate = {"mode": retrieval_pb2.SEARCH_MODE_ACCURATE}
    return [
        asked,
        asked | {"limit": 1},
        asked | {"filter": common_pb2.Filter(keys=["trip"])},
        asked | {"filter": common_pb2.Filter(conversation_ids=["call"], metadata={"by": actor.word})},
        asked | {"query_vector": vectors(unit)},
        asked | accurate,
    ]


def _lists(actor: Actor, target: Target) -> list[Fields]:
    asked: Fields = {"scope": scope(dict(actor.levels)), "include_history": True}
    return [asked, asked | {"page_size": 1}, asked | {"filter": common_pb2.Filter(keys=["trip"])}]


def _deletes(actor: Actor, target: Target) -> list[Fields]:
    """Of his own what is to go; of another's all that he can name."""
    kept = [] if target is actor.own else [target.standing, _next(target.standing, 1)]
    ids = [target.passing, _next(target.passing, 1), *kept]
    asked: Fields = {"ids": ids, "scope": scope(dict(actor.levels))}
    return [asked | {"request_id": _next(actor.own.request_id, 1)}, asked]


def _forgets_source(actor: Actor, target: Target) -> list[Fields]:
    asked: Fields = {"scope": scope(dict(actor.levels))}
    return [asked | {"source": common_pb2.Source(uri=uri)} for uri in (target.uri, "file:nowhere")]


def _observes(actor: Actor, target: Target) -> list[Fields]:
    said: Fields = {"session_id": target.session_id, "role": anticipation_pb2.TURN_ROLE_USER}
    text = f"tell me about the trip {actor.word}"
    used = [target.standing]
    return [
        said | {"sequence": 1, "text": text, "used_memory_ids": used},
        said | {"sequence": 1, "text": text},
    ]


def _reports(actor: Actor, target: Target) -> list[Fields]:
    read = anticipation_pb2.ReadReport(session_id=target.session_id, items=3, used_predictors=["written"])
    push = anticipation_pb2.PushReport(session_id=target.session_id, push_id=1, items=3)
    return [{"reads": [read], "pushes": [push]}]


def _opens(actor: Actor, target: Target) -> list[Fields]:
    """A session on its stream, and one of that id on a stream of his own."""
    asked: Fields = {"session_id": target.session_id, "scope": scope(dict(actor.levels))}
    return [asked | {"stream_id": stream_id} for stream_id in {target.stream_id, actor.own.stream_id}]


def _creates_keys(actor: Actor, target: Target) -> list[Fields]:
    label = f"for {actor.word}"
    return [{"tenant_id": target.tenant, "role": role, "label": label} for role in (1, 2)]


ASKED: Mapping[str, Callable[[Actor, Target], list[Fields]]] = MappingProxyType(
    {
        "EmbeddingService/Embed": lambda actor, target: [
            {"texts": [f"the trip {actor.word}", "the trip"], "role": embedding_pb2.TEXT_ROLE_QUERY}
        ],
        "EmbeddingService/Rerank": lambda actor, target: [
            {"query": "the trip", "documents": [f"a trip {actor.word}", "the trip"]}
        ],
        "EmbeddingService/GetModel": lambda actor, target: [{}],
        "EmbeddingService/GetClientEncoder": lambda actor, target: [{}],
        "AnticipationService/Watch": lambda actor, target: [{"stream_id": target.stream_id}],
        "AnticipationService/OpenSession": _opens,
        "AnticipationService/ObserveTurn": _observes,
        "AnticipationService/RenewLease": lambda actor, target: [
            {"stream_id": target.stream_id, "applied_sequence": 0}
        ],
        "AnticipationService/ReportReads": _reports,
        "MemoryService/WriteMemories": _writes,
        "MemoryService/GetMemories": lambda actor, target: [
            {
                "ids": [target.standing, *(_next(target.standing, n) for n in (1, 2)), target.passing],
                "scope": scope(dict(actor.levels)),
            }
        ],
        "MemoryService/ListMemories": _lists,
        "MemoryService/GetHistory": lambda actor, target: [
            {"scope": scope(dict(actor.levels)), "key": "trip"}
        ],
        "RetrievalService/Search": _searches,
        "AdminService/CreateTenant": lambda actor, target: [{"id": target.tenant}],
        "AdminService/GetTenant": lambda actor, target: [{"id": target.tenant}],
        "AdminService/ListTenants": lambda actor, target: [{}],
        "AdminService/CreateKey": _creates_keys,
        "AdminService/ListKeys": lambda actor, target: [{"tenant_id": target.tenant}],
        "AdminService/RevokeKey": lambda actor, target: [{"id": target.key_id}],
        "AdminService/BackUpTenant": lambda actor, target: [{"tenant_id": target.tenant}],
        "AdminService/StartMigration": lambda actor, target: [{"tenant_id": target.tenant}],
        "AdminService/GetMigration": lambda actor, target: [{"tenant_id": target.tenant}],
        "AdminService/EndMigration": lambda actor, target: [{"tenant_id": target.tenant}],
        # From here on what is there goes: in this order there is something to read for all of the above.
        "MemoryService/DeleteMemories": _deletes,
        "MemoryService/ForgetSource": _forgets_source,
        "AnticipationService/CloseSession": lambda actor, target: [{"session_id": target.session_id}],
        "MemoryService/ForgetScope": lambda actor, target: [{"scope": scope(dict(actor.levels))}],
        "AdminService/DeleteTenant": lambda actor, target: [{"id": target.tenant}],
    }
)
"""Method -> requests, in the order in which they are asked."""


def _next(uuid: str, step: int) -> str:
    """Another id that everybody derives alike from the first one."""
    return f"{uuid[:-1]}{step:x}"
