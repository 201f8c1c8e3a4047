"""The life of a read: from a query to a block for the prompt, whatever the network does."""

import asyncio
import logging
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.client import convert
from precall.client.background import start_background
from precall.client.circuit import Circuit
from precall.client.clock import Clock
from precall.client.encoder_supply import EncoderSupply
from precall.client.errors import (
    DeadlineExceeded,
    FingerprintMismatch,
    InvalidInput,
    ModelChanged,
    PermissionDenied,
    PrecallError,
    Unauthenticated,
    Unavailable,
)
from precall.client.filter import filter_to_wire
from precall.client.lookup import FoundItem
from precall.client.methods import SEARCH
from precall.client.outcome import Outcome, relevant_items
from precall.client.question import Question
from precall.client.read import Read, ReadDecision, ReadItem, ReadSource, SearchResult
from precall.client.subscription import Subscription
from precall.client.transport import Transport
from precall.proto import common_pb2, retrieval_pb2
from precall.scoring.query_terms import QueryTerms
from precall.scoring.ranking import RankingWeights

_log = logging.getLogger(__name__)

_WEIGHTS: Final = RankingWeights()
"""The server's default: the coverages it pushes are stated in these."""
_PROBE_DEADLINE_SECONDS: Final = 2.0
_MAY_SERVE: Final = (ReadDecision.COMPLETE, ReadDecision.SURE)


@dataclass(frozen=True, slots=True)
class Encoded:
    """A query's two forms. ``vector`` is None when no local encoder could make it."""

    vector: NDArray[np.float32] | None
    model_fingerprint: str
    terms: QueryTerms
    truncated: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Held:
    """What the cache has to say at one moment; ``found`` is empty when its lease ran out."""

    decision: ReadDecision
    found: tuple[FoundItem, ...]
    version: int
    staleness_seconds: float


class Reader:
    """Answers the reads of one session.

    Nothing from the cache is served without a look-up made at that moment: what was invalidated while the
    server was waited for is not shown.
    """

    def __init__(
        self,
        subscription: Subscription,
        scope: common_pb2.Scope,
        *,
        transport: Transport,
        encoders: EncoderSupply,
        circuit: Circuit,
        clock: Clock,
    ) -> None:
        self._subscription = subscription
        self._scope = scope
        self._transport = transport
        self._encoders = encoders
        self._circuit = circuit
        self._clock = clock
        self._probes: set[asyncio.Task[None]] = set()

    async def read(self, question: Question) -> Read:
        """Never raises for an outage. Raises InvalidInput when the server says that the request is wrong."""
        started = self._clock.elapsed()
        encoded = await self._encode(question.query)
        held = self._look_up(question, encoded)
        if held.decision in _MAY_SERVE:
            outcome = self._from_cache(held, encoded)
        else:
            try:
                result = await self._ask(question, encoded, started)
                outcome = _from_server(result, held.decision)
            except InvalidInput:
                raise
            except PrecallError as error:
                outcome = self._without_server(question, encoded, error)
        return outcome.relevant(question.min_relevance).render(
            budget_tokens=question.budget_tokens,
            encode_seconds=encoded.seconds,
            elapsed_seconds=lambda: self._clock.elapsed() - started,
        )

    async def search(
        self, question: Question, *, mode: str, as_of: datetime | None, truncate: bool
    ) -> SearchResult:
        """The server's own answer, the query embedded there. Raises on failure."""
        request = self._request(question, mode=mode, truncate=truncate)
        if as_of is not None:
            request.as_of.CopyFrom(convert.moment_to_wire(as_of, name="as_of"))
        response = await self._transport.call(SEARCH, request, deadline_seconds=question.deadline_seconds)
        result = convert.search_from_wire(response, now=self._now())
        return replace(result, items=relevant_items(result.items, question.min_relevance))

    async def close(self) -> None:
        for probe in self._probes:
            probe.cancel()
        await asyncio.gather(*self._probes, return_exceptions=True)

    async def _encode(self, query: str) -> Encoded:
        started = self._clock.elapsed()
        query_terms = QueryTerms.of(query)
        encoder = self._encoders.encoder
        if encoder is None or not self._is_of_use(encoder.model_fingerprint):
            return Encoded(None, "", query_terms, False, 0.0)
        try:
            made = await encoder.encode(query)
        except Exception:
            # Whatever an encoder throws, the server can still embed the query itself.
            _log.exception("the local encoder failed; the server is asked instead")
            return Encoded(None, "", query_terms, False, self._clock.elapsed() - started)
        return Encoded(
            made.vector,
            encoder.model_fingerprint,
            query_terms,
            made.truncated,
            self._clock.elapsed() - started,
        )

    def _is_of_use(self, model_fingerprint: str) -> bool:
        """Whether vectors of this model can be compared with those held, or with the server's."""
        held = self._subscription.held_fingerprint
        return model_fingerprint == held or self._fits_the_server(model_fingerprint)

    def _fits_the_server(self, model_fingerprint: str) -> bool:
        """As far as is known: before the first connection every model may be the one."""
        return self._subscription.server_fingerprint in ("", model_fingerprint)

    def _look_up(self, question: Question, encoded: Encoded) -> Held:
        """What may be served of the cache now, and the decision about it."""
        subscription, cache = self._subscription, self._subscription.cache
        if not subscription.servable:
            return Held(ReadDecision.STALE, (), 0, 0.0)
        same_space = encoded.model_fingerprint == subscription.held_fingerprint
        lookup = cache.lookup(
            encoded.vector if same_space else None,
            encoded.terms,
            limit=question.limit,
            now=subscription.server_now,
            elapsed=self._clock.elapsed(),
            weights=_WEIGHTS,
        )
        subscription.refresh()
        if not subscription.in_step or (cache.settled and not cache.current):
            decision = ReadDecision.STALE
        elif cache.version < question.min_version:
            decision = ReadDecision.BEHIND
        elif encoded.vector is None or not same_space:
            decision = ReadDecision.UNENCODED
        else:
            decision = ReadDecision(lookup.decision.value)
        return Held(decision, lookup.found, cache.version, subscription.staleness_seconds)

    async def _ask(self, question: Question, encoded: Encoded, started: float) -> SearchResult:
        """The server's answer within the read's deadline, or the error that says why there is none."""
        if question.deadline_seconds == 0:
            raise DeadlineExceeded("the read does not wait for the server")
        connected = self._subscription.connected
        if self._circuit.is_open(connected=connected):
            self._probe_soon(question)
            raise Unavailable("the server did not answer lately, it is tried in the background")
        request = self._request(question)
        if encoded.vector is not None and self._fits_the_server(encoded.model_fingerprint):
            request.query_vector.CopyFrom(convert.vector_to_wire(encoded.vector, encoded.model_fingerprint))
        try:
            return await self._search(request, question, started, retry=connected)
        except (FingerprintMismatch, ModelChanged):  # another model by now: let the server embed the query
            request.ClearField("query_vector")
            return await self._search(request, question, started, retry=connected)

    async def _search(
        self, request: retrieval_pb2.SearchRequest, question: Question, started: float, *, retry: bool
    ) -> SearchResult:
        remaining = started + question.deadline_seconds - self._clock.elapsed()
        try:
            response = await self._transport.call(
                SEARCH, request, deadline_seconds=max(remaining, 0.0), retry=retry
            )
        except PrecallError as error:
            self._circuit.note_failure(error)
            raise
        self._circuit.note_success()
        return convert.search_from_wire(response, now=self._now())

    def _without_server(self, question: Question, encoded: Encoded, error: PrecallError) -> Outcome:
        """What the cache holds by now, called what it is."""
        held = self._look_up(question, encoded)
        if isinstance(error, Unauthenticated | PermissionDenied):  # a key that is no longer good sees nothing
            held = Held(held.decision, (), 0, 0.0)
        late = isinstance(error, DeadlineExceeded)
        if held.decision in _MAY_SERVE or (held.decision is ReadDecision.BORDERLINE and late):
            return self._from_cache(held, encoded, reason=_reason(error))
        return self._from_cache(held, encoded, reason=_reason(error), degraded=True)

    def _from_cache(
        self, held: Held, encoded: Encoded, *, reason: str = "", degraded: bool = False
    ) -> Outcome:
        now = self._now()
        return Outcome(
            items=tuple(_item(found, now) for found in held.found),
            source=ReadSource.CACHE,
            decision=held.decision,
            version=held.version,
            staleness_seconds=held.staleness_seconds,
            truncated=encoded.truncated,
            reason=reason,
            degraded=degraded,
        )

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

    def _now(self) -> datetime:
        return convert.utc(self._subscription.server_now)


def _from_server(result: SearchResult, decision: ReadDecision) -> Outcome:
    return Outcome(
        items=tuple(result.items),
        source=ReadSource.SERVER,
        decision=decision,
        version=result.version,
        staleness_seconds=0.0,
        truncated=result.truncated,
    )


def _item(found: FoundItem, now: datetime) -> ReadItem:
    memory = convert.memory_from_wire(found.item.memory)
    return ReadItem(
        memory=memory,
        score=convert.score_from_ranked(found.ranked),
        rung=found.item.rung,
        age=convert.age(memory, now),
        predictor=found.item.predictor,
    )


def _reason(error: PrecallError) -> str:
    return f"{error.reason}: {error.message}"
