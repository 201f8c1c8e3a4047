"""Searches that one session asks of the server."""

import asyncio
from dataclasses import replace
from datetime import datetime
from typing import Final

from precall.client import convert
from precall.client.background import start_background
from precall.client.circuit import Circuit
from precall.client.clock import Clock
from precall.client.errors import (
    DeadlineExceeded,
    FingerprintMismatch,
    ModelChanged,
    PrecallError,
    Unavailable,
)
from precall.client.filter import filter_to_wire
from precall.client.methods import SEARCH
from precall.client.outcome import relevant_items
from precall.client.query_encoding import Encoded, fits_the_server
from precall.client.question import Question
from precall.client.read import SearchResult
from precall.client.subscription import Subscription
from precall.client.transport import Transport
from precall.proto import common_pb2, retrieval_pb2

_PROBE_DEADLINE_SECONDS: Final = 2.0
_CHECK_DEADLINE_SECONDS: Final = 5.0


class ServerSearch:
    """``answer`` is for a read and keeps to its deadline, ``ask`` for a search and raises what went wrong."""

    def __init__(
        self,
        subscription: Subscription,
        scope: common_pb2.Scope,
        *,
        transport: Transport,
        circuit: Circuit,
        clock: Clock,
    ) -> None:
        self._subscription = subscription
        self._scope = scope
        self._transport = transport
        self._circuit = circuit
        self._clock = clock
        self._probes: set[asyncio.Task[None]] = set()

    @property
    def reachable(self) -> bool:
        """The stream stands, so nothing speaks against one more call."""
        return self._subscription.connected

    async def close(self) -> None:
        for probe in self._probes:
            probe.cancel()
        await asyncio.gather(*self._probes, return_exceptions=True)

    async def answer(self, question: Question, encoded: Encoded, *, end: float) -> SearchResult:
        """The server's answer before ``end`` (``Clock.elapsed``), or the error that says why there is none.

        encoded: its vector is sent along, unless it only comes near that of the model, or the server is known
        to compare another model's.
        """
        if question.deadline_seconds == 0:
            raise DeadlineExceeded("the read does not wait for the server")
        connected = self._subscription.connected
        if self._circuit.is_open(connected=connected):
            self._probe_soon(question)
            raise Unavailable("the server did not answer lately, it is tried in the background")
        remaining = end - self._clock.elapsed()
        if remaining <= 0:  # nothing that the server could be blamed for
            raise DeadlineExceeded("embedding the query took all the time that the read had")
        try:
            # Around the call's own deadline, which bounds the call and not what comes before and after it.
            async with asyncio.timeout(remaining):
                result = await self._answer(question, encoded, remaining, retry=connected)
        except TimeoutError:
            late = DeadlineExceeded("the server did not answer in time")
            self._circuit.note_failure(late)
            raise late from None
        except PrecallError as error:
            self._circuit.note_failure(error)
            raise
        self._circuit.note_success()
        return result

    async def ask(
        self, question: Question, *, mode: str, as_of: datetime | None, truncate: bool
    ) -> SearchResult:
        """The server's own answer, the query embedded there. Raises on failure."""
        request = self._request(question, mode=mode, truncate=truncate)
        if as_of is not None:
            request.as_of.CopyFrom(convert.moment_to_wire(as_of, name="as_of"))
        result = await self._search(request, deadline_seconds=question.deadline_seconds, retry=True)
        return replace(result, items=relevant_items(result.items, question.min_relevance))

    async def check(self, question: Question, *, min_version: int) -> SearchResult:
        """What the server says to a read's question by itself. Raises on failure.

        The query's vector is not sent along: that it is right is one of the things to be checked.
        """
        request = self._request(replace(question, min_version=min_version))
        return await self._search(request, deadline_seconds=_CHECK_DEADLINE_SECONDS, retry=False)

    async def _answer(
        self, question: Question, encoded: Encoded, remaining: float, *, retry: bool
    ) -> SearchResult:
        request = self._request(question)
        fits = fits_the_server(encoded.model_fingerprint, self._subscription)
        if encoded.vector is not None and encoded.approximation is None and fits:
            request.query_vector.CopyFrom(convert.vector_to_wire(encoded.vector, encoded.model_fingerprint))
        try:
            return await self._search(request, deadline_seconds=remaining, retry=retry)
        except (FingerprintMismatch, ModelChanged):  # another model by now: let the server embed the query
            request.ClearField("query_vector")
            return await self._search(request, deadline_seconds=remaining, retry=retry)

    async def _search(
        self, request: retrieval_pb2.SearchRequest, *, deadline_seconds: float, retry: bool
    ) -> SearchResult:
        response = await self._transport.call(SEARCH, request, deadline_seconds=deadline_seconds, retry=retry)
        return convert.search_from_wire(response, now=convert.utc(self._subscription.server_now))

    def _request(
        self, question: Question, *, mode: str = "fast", truncate: bool = True
    ) -> retrieval_pb2.SearchRequest:
        return retrieval_pb2.SearchRequest(
            scope=self._scope,
            query=question.query,
            mode=f"SEARCH_MODE_{mode.upper()}",
            limit=question.limit,
            min_version=question.min_version,
            truncate=truncate,
            filter=filter_to_wire(question.filter),
        )

    def _probe_soon(self, question: Question) -> None:
        if self._circuit.take_probe():
            probe = start_background(self._probe(self._request(question)), name="precall-probe")
            self._probes.add(probe)
            probe.add_done_callback(self._probes.discard)

    async def _probe(self, request: retrieval_pb2.SearchRequest) -> None:
        try:
            await self._transport.call(SEARCH, request, deadline_seconds=_PROBE_DEADLINE_SECONDS, retry=False)
        except (Unavailable, DeadlineExceeded) as error:
            self._circuit.note_failure(error)
        except PrecallError:
            self._circuit.note_success()  # a refusal is an answer
        else:
            self._circuit.note_success()
