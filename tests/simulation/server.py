"""The server of a simulation: the real anticipator and the real mappings over a world of partitions.

What the gRPC service does beside that is authentication and loading from disk.
"""

import asyncio
import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Protocol

from google.protobuf.message import Message

from precall.client import methods
from precall.client.errors import BY_REASON, PrecallError, Unavailable
from precall.engine import errors as engine_errors
from precall.engine.anticipation.anticipator import Anticipator
from precall.engine.anticipation.observer import SilentObserver
from precall.engine.anticipation.predictor_set import PredictorSet
from precall.engine.anticipation.session import Session
from precall.engine.anticipation.settings import AnticipationSettings
from precall.engine.anticipation.stream import Stream
from precall.engine.retrieval.query import Query
from precall.engine.retrieval.search import search
from precall.proto import anticipation_pb2, retrieval_pb2
from precall.scoring import vectors
from precall.scoring.query_terms import QueryTerms
from precall.server.mapping.events import EventMapper
from precall.server.mapping.observation import observed_turn, observed_vector
from precall.server.mapping.search import scored_memories
from precall.server.mapping.values import duration, rung_of
from tests.fakes.world import CARD, DIMENSION, LADDER, World, embed_words


class Connection:
    """One Watch call on the server's side."""

    def __init__(self, server: "SimulatedServer", stream: Stream) -> None:
        self._anticipator = server.world.anticipator
        self._interval = self._anticipator.settings.heartbeat_seconds
        self._mapper = EventMapper(LADDER, CARD.fingerprint, DIMENSION)
        self._stream = stream

    async def next(self) -> anticipation_pb2.WatchEvent | None:
        event = await self._stream.next(
            lambda: self._anticipator.heartbeat(self._stream.tenant_id), self._interval
        )
        return None if event is None else self._mapper.message(event)

    def close(self) -> None:
        self._anticipator.close_stream(self._stream, "the connection ended")


class Link(Protocol):
    """A client's, as far as a server that dies is concerned."""

    def break_streams(self) -> None: ...


class SimulatedServer:
    """``up``: it answers. ``guarded_until``: after a restart no destruction is acked before that moment, as
    the store keeps how long the leases of before can last.
    """

    def __init__(self, world: World, settings: AnticipationSettings, chance: random.Random) -> None:
        self.world = world
        self.up = True
        self.guarded_until = 0.0
        self.generation = 0
        self.links: list[Link] = []
        self._settings = settings
        self._chance = chance
        world.anticipator = self._new_anticipator()

    def connect(self, tenant_id: str, stream_id: str) -> Connection:
        return Connection(self, self.world.open_stream(tenant_id, stream_id))

    async def crash(self, seconds: float) -> None:
        """kill -9, and a start after a while. What was not acked never will be."""
        lease = self.world.anticipator.longest_lease
        self.up = False
        self.generation += 1
        for link in self.links:
            link.break_streams()
        await self.stop()
        self.guarded_until = max(self.guarded_until, asyncio.get_running_loop().time() + lease)
        self.world.anticipator = self._new_anticipator()
        await asyncio.sleep(seconds)
        self.up = True

    @property
    def sessions(self) -> Iterable[Session]:
        return self.world.anticipator._sessions

    async def stop(self) -> None:
        """Nothing is predicted any more."""
        await self.world.anticipator._prediction.close()

    async def drain(self) -> None:
        await self.world.anticipator.drain(0.2)
        await asyncio.sleep(0.2)
        await self.crash(0.3)

    async def handle(self, tenant_id: str, method: methods.Method[Any, Any], request: Any) -> Message:
        """Raises what the client would make of the server's answer."""
        generation = self.generation
        try:
            response = await self._handle(tenant_id, method, request)
        except engine_errors.PrecallError as error:
            raise BY_REASON.get(error.reason, PrecallError)(str(error)) from error
        if generation != self.generation:
            raise Unavailable("the server died meanwhile")
        return response

    async def _handle(self, tenant_id: str, method: methods.Method[Any, Any], request: Any) -> Message:
        anticipator = self.world.anticipator
        if method is methods.OPEN_SESSION:
            return await self._open(tenant_id, request)
        if method is methods.OBSERVE_TURN:
            turn = replace(observed_turn(request), vector=observed_vector(request, CARD))
            anticipator.observe(
                tenant_id, request.session_id, request.sequence, turn, partial=request.partial
            )
            return anticipation_pb2.ObserveTurnResponse(sequence=request.sequence)
        if method is methods.RENEW_LEASE:
            seconds = anticipator.renew_lease(tenant_id, request.stream_id, request.applied_sequence)
            return anticipation_pb2.RenewLeaseResponse(lease=duration(seconds))
        if method is methods.CLOSE_SESSION:
            anticipator.close_session(tenant_id, request.session_id)
            return anticipation_pb2.CloseSessionResponse()
        if method is methods.REPORT_READS:
            return anticipation_pb2.ReportReadsResponse()
        assert method is methods.SEARCH, method
        return await self._search(tenant_id, request)

    async def _open(self, tenant_id: str, request: anticipation_pb2.OpenSessionRequest) -> Message:
        rung = rung_of(request.scope, LADDER)
        await asyncio.sleep(self._chance.uniform(0, 0.05))  # partitions are loaded
        named = dict(zip(request.held_ids, request.held_stamps, strict=True))
        self.world.open_session(
            tenant_id,
            request.stream_id,
            request.session_id,
            rung,
            conversation_id=request.conversation_id,
            named=named or None,
            max_items=request.max_items,
            max_bytes=request.max_bytes,
            attempt=request.attempt,
        )
        return anticipation_pb2.OpenSessionResponse(
            version=self.world.versions.get(tenant_id, 0),
            model_fingerprint=CARD.fingerprint,
            ladder=LADDER.levels,
            resumed=bool(named),
        )

    async def _search(self, tenant_id: str, request: retrieval_pb2.SearchRequest) -> Message:
        rung = rung_of(request.scope, LADDER)
        version = self.world.versions.get(tenant_id, 0)
        asked = QueryTerms.of(request.query)
        if request.HasField("query_vector"):
            (vector,) = vectors.from_bytes(
                request.query_vector.data, count=1, dimension=DIMENSION, dtype=vectors.FLOAT32
            )
        else:
            vector = embed_words(request.query)
        query = Query(vector, asked.terms, self.world.clock.wall(), request.limit)
        hits = await search(self.world.lineage(tenant_id, rung), query)
        return retrieval_pb2.SearchResponse(
            results=scored_memories(hits, LADDER), version=version, model_fingerprint=CARD.fingerprint
        )

    def _new_anticipator(self) -> Anticipator:
        made = PredictorSet.of(self._settings, self.world.clock)
        return Anticipator(self._settings, made.predictors, self.world.clock, SilentObserver(), made.learners)
