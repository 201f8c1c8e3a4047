"""Anticipation on the wire: observations come up, pushes and invalidations go down."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Final

import grpc.aio

from precall.engine.engine import Engine
from precall.engine.errors import InvalidInput, Unauthenticated
from precall.proto import anticipation_pb2
from precall.proto.anticipation_pb2_grpc import AnticipationServiceServicer
from precall.server.call import current_call
from precall.server.keys import KeyStore
from precall.server.mapping.events import EventMapper
from precall.server.mapping.observation import observed_turn, observed_vector
from precall.server.mapping.values import (
    MAX_IDS,
    duration,
    optional_uuid,
    rung_of,
    uuid_text,
)
from precall.server.mapping.vectors import vector_dtype
from precall.server.metrics import ServerMetrics
from precall.server.reports import ReadReports
from precall.server.streams import StreamBook

Context = grpc.aio.ServicerContext[Any, Any]

MAX_USED_PREDICTORS: Final = 100_000
"""In all reads of one report: a name for each item that a read gave out."""

MAX_HELD: Final = 65_536
"""Memories that a client may name as held; how many of them it may keep, its session's budget says."""


class AnticipationService(AnticipationServiceServicer):
    """Streams and sessions of all clients of this server."""

    def __init__(self, engine: Engine, keys: KeyStore, metrics: ServerMetrics) -> None:
        self._engine = engine
        self._keys = keys
        self._metrics = metrics
        self._reports = ReadReports(metrics)
        self._book = StreamBook()
        metrics.streams.set_function(lambda: self._book.stream_count)
        metrics.sessions.set_function(lambda: self._book.session_count)

    async def Watch(  # type: ignore[override]  # events as bytes, which the gate lets pass
        self, request: anticipation_pb2.WatchRequest, context: Context
    ) -> AsyncIterator[bytes]:
        principal = current_call().principal
        stream_id = uuid_text(request.stream_id, "stream_id")
        tenant = await self._engine.tenant(principal.tenant)
        anticipator = self._engine.anticipator
        card = tenant.model().card
        events = EventMapper(tenant.ladder, card.fingerprint, card.dimension)
        stream = anticipator.open_stream(tenant.id, stream_id, card)
        self._book.open_stream(stream_id, principal.key_id)
        try:
            interval = anticipator.settings.heartbeat_seconds
            while event := await stream.next(lambda: anticipator.heartbeat(tenant.id), interval):
                if not self._keys.is_good(principal.key_id):
                    raise Unauthenticated("the API key of this stream was revoked")
                yield events.serialized(event)
        finally:
            self._book.close_stream(stream_id)
            anticipator.close_stream(stream, "the connection ended")

    async def OpenSession(
        self, request: anticipation_pb2.OpenSessionRequest, context: Context
    ) -> anticipation_pb2.OpenSessionResponse:
        principal = current_call().principal
        stream_id = uuid_text(request.stream_id, "stream_id")
        session_id = uuid_text(request.session_id, "session_id")
        conversation_id = optional_uuid(request.conversation_id, "conversation_id") or ""
        if vector_dtype(request.vector_format, "vector_format").itemsize != 2:
            raise InvalidInput("vector_format: pushed vectors are FLOAT16")
        tenant = await self._engine.tenant(principal.tenant)
        rung = rung_of(request.scope, tenant.ladder)
        principal.require_read(rung)
        named = _named(request, most=self._engine.anticipator.settings.max_items)
        self._book.require_openable(session_id, stream_id, principal.key_id)

        readings = self._engine.anticipator.readings(named)
        await readings.prepare(await tenant.partitions(rung))
        model = tenant.model()
        partitions = await tenant.partitions(rung, model)
        # From here to the end nothing is awaited: the session starts at the version that its partitions have.
        version = tenant.version
        self._book.require_openable(session_id, stream_id, principal.key_id)
        self._engine.anticipator.open_session(
            tenant_id=tenant.id,
            stream_id=stream_id,
            session_id=session_id,
            conversation_id=conversation_id,
            rung=rung,
            ladder=tenant.ladder,
            model=model,
            partitions=partitions,
            version=version,
            max_items=request.max_items,
            max_bytes=request.max_bytes,
            attempt=request.attempt,
            readings=readings,
        )
        self._book.open_session(session_id, stream_id, principal.key_id)  # last: what was refused is not open
        return anticipation_pb2.OpenSessionResponse(
            version=version,
            model_fingerprint=model.fingerprint,
            ladder=tenant.ladder.levels,
            resumed=named is not None,
        )

    async def ObserveTurn(
        self, request: anticipation_pb2.ObserveTurnRequest, context: Context
    ) -> anticipation_pb2.ObserveTurnResponse:
        principal = current_call().principal
        session_id = uuid_text(request.session_id, "session_id")
        if not request.sequence:
            raise InvalidInput("sequence counts a session's observations from 1")
        turn = observed_turn(request)
        self._book.require_session(session_id, principal.key_id)
        anticipator = self._engine.anticipator
        vector = observed_vector(request, anticipator.model_card(principal.tenant, session_id))
        turn = replace(turn, vector=vector)
        taken = anticipator.observe(
            principal.tenant, session_id, request.sequence, turn, partial=request.partial
        )
        if taken:
            self._metrics.observed(by_client=vector is not None)
        return anticipation_pb2.ObserveTurnResponse(sequence=request.sequence, replayed=not taken)

    async def CloseSession(
        self, request: anticipation_pb2.CloseSessionRequest, context: Context
    ) -> anticipation_pb2.CloseSessionResponse:
        principal = current_call().principal
        session_id = uuid_text(request.session_id, "session_id")
        if self._book.close_session(session_id, principal.key_id):
            self._engine.anticipator.close_session(principal.tenant, session_id)
        return anticipation_pb2.CloseSessionResponse()

    async def RenewLease(
        self, request: anticipation_pb2.RenewLeaseRequest, context: Context
    ) -> anticipation_pb2.RenewLeaseResponse:
        principal = current_call().principal
        stream_id = uuid_text(request.stream_id, "stream_id")
        self._book.require_stream(stream_id, principal.key_id)
        anticipator = self._engine.anticipator
        # Before anything that may fail: a tenant that is being deleted waits for this word.
        anticipator.acknowledge(principal.tenant, stream_id, request.applied_sequence)
        tenant = await self._engine.tenant(principal.tenant)
        # First on disk, then granted: a server that restarts must reckon with every lease that was given.
        await tenant.note_lease(anticipator.settings.lease_seconds)
        granted = anticipator.renew_lease(tenant.id, stream_id, request.applied_sequence)
        return anticipation_pb2.RenewLeaseResponse(lease=duration(granted))

    async def ReportReads(
        self, request: anticipation_pb2.ReportReadsRequest, context: Context
    ) -> anticipation_pb2.ReportReadsResponse:
        reports = len(request.reads) + len(request.pushes)
        if reports > MAX_IDS:
            raise InvalidInput(f"{reports} reports, at most {MAX_IDS}: send them more often")
        for name in ("used_predictors", "served_ids"):
            if sum(len(getattr(read, name)) for read in request.reads) > MAX_USED_PREDICTORS:
                raise InvalidInput(f"over {MAX_USED_PREDICTORS} {name}: send reports more often")
        tenant_id = current_call().principal.tenant
        for read in request.reads:
            self._reports.take_read(read)
            self._engine.anticipator.served(tenant_id, read.session_id, read.served_ids)
        for push in request.pushes:
            self._reports.take_push(push)
        return anticipation_pb2.ReportReadsResponse()


def _named(request: anticipation_pb2.OpenSessionRequest, *, most: int) -> dict[str, int] | None:
    """Id -> stamp of what the client goes on with; None: it begins with nothing, as it does where it holds
    more than ``most``, which it cannot have from a server of these settings. Raises InvalidInput.
    """
    if not request.held_ids and not request.held_stamps:
        return None
    if len(request.held_ids) != len(request.held_stamps):
        raise InvalidInput("held_stamps has one stamp for each of held_ids, in order")
    if len(request.held_ids) > MAX_HELD:
        raise InvalidInput(f"held_ids names {len(request.held_ids)} memories, at most {MAX_HELD}")
    if len(request.held_ids) > most:
        return None
    ids = (uuid_text(each, f"held_ids[{position}]") for position, each in enumerate(request.held_ids))
    return dict(zip(ids, request.held_stamps, strict=True))
