"""A server on loopback that follows the wire's contract over a list of memories, and breaks it on demand.

It ranks with the same formulas as the real one, pushes whole rungs (``complete``) or answers to observations
with a coverage (``floor``), and grants leases as the real one does: never before a renewal asks for one.
"""

# ruff: noqa: N802 - the methods are named as in the .proto
import asyncio
import dataclasses
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import numpy as np
from pushes import Stored, coverage, push, rung_claim
from settable import FINGERPRINT, term_vector

from precall.client import methods
from precall.proto import anticipation_pb2, common_pb2, embedding_pb2, memory_pb2, retrieval_pb2
from precall.scoring import ranking, terms, vectors
from precall.scoring.fusion import Fusion
from precall.scoring.keyword import KeywordIndex
from precall.scoring.ranking import Candidates, RankingWeights
from precall.scoring.version import SCORING_VERSION

_BEAT_SECONDS = 0.05
HANDLERS = {
    method.full_path: method for method in vars(methods).values() if isinstance(method, methods.Method)
}


class Refused(Exception):
    """Ends the call with this status; ``trailers`` as the real server sends them."""

    def __init__(self, code: grpc.StatusCode, reason: str, *, pushback_ms: int | None = None) -> None:
        self.code = code
        self.trailers = [("precall-reason", reason)]
        if pushback_ms is not None:
            self.trailers.append(("grpc-retry-pushback-ms", str(pushback_ms)))


@dataclasses.dataclass
class FakeStream:
    """One Watch call; ``queue`` holds events, or None to end it."""

    stream_id: str
    queue: asyncio.Queue[anticipation_pb2.WatchEvent | None] = dataclasses.field(
        default_factory=asyncio.Queue
    )
    sequence: int = 0
    applied: int = 0

    def send(self, *, confirm: bool = False, **event: Any) -> int:
        self.sequence += 1
        self.queue.put_nowait(anticipation_pb2.WatchEvent(sequence=self.sequence, confirm=confirm, **event))
        return self.sequence


@dataclasses.dataclass
class FakeSession:
    request: anticipation_pb2.OpenSessionRequest
    stream: FakeStream
    push_id: int = 0

    @property
    def scope(self) -> dict[str, str]:
        return dict(self.request.scope.levels)


class FakeServer(grpc.GenericRpcHandler):
    """Knobs are plain attributes, to be set by a test; what was received is in ``calls`` by method name."""

    def __init__(self) -> None:
        self.memories: dict[str, Stored] = {}
        self.version = 0
        self.complete = True
        self.floor = 0.3
        self.heartbeat_seconds = 2.0  # what is announced; the beat itself is quicker
        self.beating = True
        self.lease_seconds = 10.0
        self.maximum_age_seconds = 3600.0
        self.fingerprint = FINGERPRINT
        self.scoring_version = SCORING_VERSION
        self.pushes_on_open = True
        self.pushes_on_write = True
        self.refuse: dict[str, list[Refused]] = {}
        self.hold: dict[str, asyncio.Event] = {}
        self.encoder_files: dict[str, bytes] = {}
        self.encoder_manifest = embedding_pb2.ClientEncoderManifest()
        self.calls: dict[str, list[Any]] = {}
        self.gone: Counter[str] = Counter()  # calls that were given up while they were held
        self.metadata: list[dict[str, str]] = []
        self.streams: dict[str, FakeStream] = {}
        self.sessions: dict[str, FakeSession] = {}
        self.replies: dict[str, memory_pb2.WriteMemoriesResponse] = {}
        self._called = asyncio.Condition()
        self._server: grpc.aio.Server | None = None
        self._port = 0
        self._heartbeats: asyncio.Task[None] | None = None

    # Life

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self._port}"

    async def start(self) -> None:
        """On a free port, or after ``stop`` on the same one."""
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers((self,))
        self._port = self._server.add_insecure_port(f"127.0.0.1:{self._port}")
        await self._server.start()
        self._heartbeats = asyncio.create_task(self._beat())

    async def stop(self) -> None:
        """All connections break; streams and sessions are forgotten, memories stay."""
        if self._heartbeats is not None:
            self._heartbeats.cancel()
        for held in self.hold.values():
            held.set()
        self.break_streams()
        self.sessions.clear()
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    def break_streams(self) -> None:
        for stream in self.streams.values():
            stream.queue.put_nowait(None)
        self.streams.clear()

    async def called(self, name: str, times: int = 1) -> list[Any]:
        """Wait until a method was called this often; its requests."""
        async with self._called:
            await asyncio.wait_for(
                self._called.wait_for(lambda: len(self.calls.get(name, [])) >= times), timeout=10
            )
        return self.calls[name]

    @property
    def stream(self) -> FakeStream:
        (stream,) = self.streams.values()
        return stream

    @property
    def session(self) -> FakeSession:
        (session,) = self.sessions.values()
        return session

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_BEAT_SECONDS)
            for stream in self.streams.values() if self.beating else ():
                stream.send(heartbeat=anticipation_pb2.Heartbeat(version=self.version))

    # Content

    def add(self, *stored: Stored) -> None:
        self.version += 1
        self.memories |= {each.id: each for each in stored}

    def visible(self, scope: dict[str, str]) -> list[Stored]:
        return [each for each in self.memories.values() if dict(each.scope).items() <= scope.items()]

    def push(self, session: FakeSession, stored: list[Stored], **arguments: Any) -> None:
        session.push_id += 1
        visible = self.visible(session.scope)
        claims = [
            rung_claim(level, [each for each in visible if each.rung == level], complete=self.complete)
            for level in session.scope
        ]
        arguments = {"version": self.version, "rungs": claims} | arguments
        session.stream.send(
            push=push(
                stored,
                push_id=session.push_id,
                session_id=session.request.session_id,
                fingerprint=self.fingerprint,
                **arguments,
            )
        )

    def invalidate(self, *ids: str, cause: str = "DELETED", confirm: bool = False) -> dict[FakeStream, int]:
        invalidation = anticipation_pb2.Invalidation(
            memory_ids=ids, version=self.version, cause=f"INVALIDATION_CAUSE_{cause}"
        )
        return {
            id(stream): stream.send(invalidation=invalidation, confirm=confirm)
            for stream in self.streams.values()
        }

    def ranked(self, scope: dict[str, str], query: str, limit: int) -> list[tuple[Stored, ranking.Ranked]]:
        visible = self.visible(scope)
        index = KeywordIndex()
        for each in visible:
            index.add(each.impacts)
        query_terms = terms.analyze(query)
        rows = [each.vector.astype(np.float32) for each in visible]
        count = len(visible)
        ranked = ranking.rank(
            Candidates(
                ids=[each.id for each in visible],
                dense=np.stack(rows) @ term_vector(query) if rows else np.zeros(0, np.float32),
                keyword=index.scores(index.statistics().weights(query_terms)),
                importance=np.array([each.importance for each in visible], np.float32),
                event_seconds=np.array([each.event_seconds for each in visible], np.float64),
                servable_from=np.full(count, -np.inf),
                servable_until=np.full(count, np.inf),
                depth=np.array([len(each.scope) for each in visible], np.int32),
            ),
            RankingWeights().fused(Fusion.of(query_terms)),
            now=1_800_000_000.0,
            limit=limit,
        )
        return [(visible[each.row], each) for each in ranked]

    # Wire

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        method = HANDLERS.get(details.method)
        name = details.method.rpartition("/")[2]
        implementation = getattr(self, name, None)
        if method is None or implementation is None:
            return None

        async def prepare(request: Any, context: grpc.aio.ServicerContext) -> None:
            async with self._called:
                self.calls.setdefault(name, []).append(request)
                self.metadata.append({str(key): str(value) for key, value in context.invocation_metadata()})
                self._called.notify_all()
            if name in self.hold:
                try:
                    await self.hold[name].wait()
                except asyncio.CancelledError:
                    self.gone[name] += 1
                    raise
            if self.refuse.get(name):
                await end(context, self.refuse[name].pop(0))

        async def end(context: grpc.aio.ServicerContext, refused: Refused) -> None:
            await context.abort(refused.code, refused.trailers[0][1], tuple(refused.trailers))

        async def unary(request: Any, context: grpc.aio.ServicerContext) -> Any:
            await prepare(request, context)
            try:
                return await implementation(request)
            except Refused as refused:
                await end(context, refused)

        async def stream(request: Any, context: grpc.aio.ServicerContext) -> AsyncIterator[Any]:
            await prepare(request, context)
            async for message in implementation(request):
                yield message

        codec = {
            "request_deserializer": method.request.FromString,
            "response_serializer": method.response.SerializeToString,
        }
        if name in ("Watch", "GetClientEncoder"):
            return grpc.unary_stream_rpc_method_handler(stream, **codec)
        return grpc.unary_unary_rpc_method_handler(unary, **codec)

    async def Watch(
        self, request: anticipation_pb2.WatchRequest
    ) -> AsyncIterator[anticipation_pb2.WatchEvent]:
        stream = FakeStream(request.stream_id)
        opened = anticipation_pb2.StreamOpened(
            model_fingerprint=self.fingerprint, scoring_version=self.scoring_version
        )
        opened.heartbeat_interval.FromNanoseconds(int(self.heartbeat_seconds * 1e9))
        opened.lease.FromNanoseconds(int(self.lease_seconds * 1e9))
        opened.maximum_age.FromNanoseconds(int(self.maximum_age_seconds * 1e9))
        stream.send(opened=opened)
        self.streams[request.stream_id] = stream
        try:
            while event := await stream.queue.get():
                yield event
        finally:
            self.streams.pop(request.stream_id, None)

    async def OpenSession(
        self, request: anticipation_pb2.OpenSessionRequest
    ) -> anticipation_pb2.OpenSessionResponse:
        stream = self.streams.get(request.stream_id)
        if stream is None:
            raise Refused(grpc.StatusCode.NOT_FOUND, "STREAM_NOT_FOUND")
        session = FakeSession(request, stream)
        self.sessions[request.session_id] = session
        if self.pushes_on_open:
            held = self.visible(session.scope) if self.complete else []
            named = dict(zip(request.held_ids, request.held_stamps, strict=True))
            true = {each.id for each in held if named.get(each.id) == each.stamp}
            new = [each for each in held if each.id not in true]
            gone = [memory_id for memory_id in named if memory_id not in true]
            self.push(session, new, reset=not named, resumed=bool(named), evicted=gone)
        return anticipation_pb2.OpenSessionResponse(version=self.version, ladder=list(session.scope))

    async def ObserveTurn(
        self, request: anticipation_pb2.ObserveTurnRequest
    ) -> anticipation_pb2.ObserveTurnResponse:
        session = self.sessions.get(request.session_id)
        if session is None:
            raise Refused(grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND")
        if not self.complete:
            best = [stored for stored, _ in self.ranked(session.scope, request.text, limit=5)]
            self.push(session, best, caused_by=request.sequence, covers=coverage(request.text, self.floor))
        return anticipation_pb2.ObserveTurnResponse(sequence=request.sequence)

    async def CloseSession(
        self, request: anticipation_pb2.CloseSessionRequest
    ) -> anticipation_pb2.CloseSessionResponse:
        self.sessions.pop(request.session_id, None)
        return anticipation_pb2.CloseSessionResponse()

    async def RenewLease(
        self, request: anticipation_pb2.RenewLeaseRequest
    ) -> anticipation_pb2.RenewLeaseResponse:
        stream = self.streams.get(request.stream_id)
        if stream is None:
            raise Refused(grpc.StatusCode.NOT_FOUND, "STREAM_NOT_FOUND")
        stream.applied = max(stream.applied, request.applied_sequence)
        response = anticipation_pb2.RenewLeaseResponse()
        response.lease.FromNanoseconds(int(self.lease_seconds * 1e9))
        return response

    async def ReportReads(
        self, request: anticipation_pb2.ReportReadsRequest
    ) -> anticipation_pb2.ReportReadsResponse:
        return anticipation_pb2.ReportReadsResponse()

    async def Search(self, request: retrieval_pb2.SearchRequest) -> retrieval_pb2.SearchResponse:
        if request.min_version > self.version:
            raise Refused(grpc.StatusCode.FAILED_PRECONDITION, "VERSION_NOT_REACHED")
        if request.HasField("query_vector"):
            if request.query_vector.model_fingerprint != self.fingerprint:
                raise Refused(grpc.StatusCode.FAILED_PRECONDITION, "MODEL_FINGERPRINT_MISMATCH")
            given = np.frombuffer(request.query_vector.data, vectors.FLOAT32)
            assert np.array_equal(given, term_vector(request.query)), "the vector is another query's"
        scope = dict(request.scope.levels)
        response = retrieval_pb2.SearchResponse(
            version=self.version, visible=len(self.visible(scope)), model_fingerprint=self.fingerprint
        )
        for stored, ranked in self.ranked(scope, request.query, request.limit or 10):
            response.results.add(
                memory=stored.message,
                rung=stored.rung,
                score=common_pb2.ScoreParts(
                    total=ranked.total,
                    relevance=ranked.relevance,
                    importance=ranked.importance,
                    recency=ranked.recency,
                    dense=ranked.dense,
                    keyword=ranked.keyword,
                ),
            )
        return response

    async def WriteMemories(
        self, request: memory_pb2.WriteMemoriesRequest
    ) -> memory_pb2.WriteMemoriesResponse:
        if request.request_id in self.replies:
            return self.replies[request.request_id]
        scope = dict(request.memories[0].scope.levels)
        made = [
            Stored(text=each.text, scope=scope, id=each.id or str(uuid.uuid4()), key=each.key)
            for each in request.memories
        ]
        keys = {each.key for each in made if each.key}
        superseded = [each.id for each in self.memories.values() if each.key in keys and each.scope == scope]
        for memory_id in superseded:
            del self.memories[memory_id]
        self.add(*made)
        if superseded:
            self.invalidate(*superseded, cause="SUPERSEDED")
        if self.pushes_on_write:
            for session in self.sessions.values():
                self.push(session, [each for each in made if each in self.visible(session.scope)])
        response = memory_pb2.WriteMemoriesResponse(
            version=self.version,
            written=[
                memory_pb2.WrittenMemory(id=each.id, state="MEMORY_STATE_CURRENT", superseded_ids=superseded)
                for each in made
            ],
        )
        self.replies[request.request_id] = response
        return response

    async def DeleteMemories(
        self, request: memory_pb2.DeleteMemoriesRequest
    ) -> memory_pb2.DeleteMemoriesResponse:
        deleted = [each for each in request.ids if self.memories.pop(each, None) is not None]
        self.version += bool(deleted)
        self.invalidate(*deleted, confirm=True)
        return memory_pb2.DeleteMemoriesResponse(
            version=self.version,
            deleted_ids=deleted,
            missing_ids=[each for each in request.ids if each not in deleted],
        )

    async def ForgetScope(self, request: memory_pb2.ForgetScopeRequest) -> memory_pb2.ForgetScopeResponse:
        scope = dict(request.scope.levels).items()
        doomed = [each.id for each in self.memories.values() if scope <= dict(each.scope).items()]
        for memory_id in doomed:
            del self.memories[memory_id]
        self.version += bool(doomed)
        self.invalidate(*doomed, confirm=True)
        return memory_pb2.ForgetScopeResponse(version=self.version, deleted=len(doomed))

    async def GetClientEncoder(
        self, request: embedding_pb2.GetClientEncoderRequest
    ) -> AsyncIterator[embedding_pb2.ClientEncoderChunk]:
        yield embedding_pb2.ClientEncoderChunk(manifest=self.encoder_manifest)
        content = b"".join(self.encoder_files.values())
        for start in range(0, len(content), 1000):
            yield embedding_pb2.ClientEncoderChunk(data=content[start : start + 1000])
