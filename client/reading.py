"""The life of a read: from a query to a block for the prompt, whatever the network does."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from precall.client import convert
from precall.client.clock import Clock
from precall.client.errors import (
    DeadlineExceeded,
    InvalidInput,
    PermissionDenied,
    PrecallError,
    Unauthenticated,
)
from precall.client.live_checks import LiveChecks, Served, Verdict
from precall.client.lookup import FoundItem
from precall.client.outcome import Outcome, join
from precall.client.query_encoding import Encoded, QueryEncoding
from precall.client.question import Question
from precall.client.read import Read, ReadDecision, ReadItem, ReadSource, SearchResult
from precall.client.read_times import ReadStage, ReadTimes
from precall.client.server_search import ServerSearch
from precall.client.subscription import Subscription
from precall.scoring.ranking import RankingWeights

_WEIGHTS: Final = RankingWeights()
"""The server's default: the coverages it pushes are stated in these."""
_MAY_SERVE: Final = (ReadDecision.COMPLETE, ReadDecision.SURE)

OnReported = Callable[[Read, Verdict | None], None]
"""Told of each read once: of one that is checked when its check has ended, with what that found."""


@dataclass(frozen=True, slots=True)
class Held:
    """What the cache has to say at one moment; ``found`` is empty when its lease ran out.

    ``judged``: it may be served by a judgement, which can err, not because everything is held; so it may be
    checked. ``demoted``: it was that, but checks found too many such answers wrong: it counts as borderline.
    """

    decision: ReadDecision
    found: tuple[FoundItem, ...]
    version: int
    staleness_seconds: float
    judged: bool = False
    demoted: bool = False


class Reader:
    """Answers the reads of one session.

    Nothing from the cache is served without a look-up made at that moment: what was invalidated while the
    server was waited for is not shown.
    """

    def __init__(
        self,
        subscription: Subscription,
        encoding: QueryEncoding,
        server: ServerSearch,
        checks: LiveChecks,
        clock: Clock,
        *,
        reported: OnReported,
    ) -> None:
        self._subscription = subscription
        self._encoding = encoding
        self._server = server
        self._checks = checks
        self._clock = clock
        self._reported = reported
        self._checking: set[asyncio.Task[Verdict | None]] = set()

    async def read(self, question: Question) -> Read:
        """Never raises for an outage. Raises InvalidInput when the server says that the request is wrong."""
        times = ReadTimes(self._clock.elapsed)
        with times.measure(ReadStage.ENCODE):
            encoded = await self._encoding.encode(question.query)
        with times.measure(ReadStage.LOOKUP):
            held = self._look_up(question, encoded)
        if held.decision in _MAY_SERVE:
            outcome = self._from_cache(held, encoded)
        else:
            outcome = await self._ask(question, encoded, held, times)
        read = outcome.relevant(question.min_relevance).render(
            budget_tokens=question.budget_tokens, times=times
        )
        if held.judged and self._server.reachable and self._checks.take_turn():
            self._check_soon(question, _served(outcome.items, question, held), read)
        else:
            self._reported(read, None)
        return read

    async def close(self) -> None:
        """End the checks that run; their reads are reported as not checked."""
        for check in self._checking:
            check.cancel()
        await asyncio.gather(*self._checking, return_exceptions=True)

    def _look_up(self, question: Question, encoded: Encoded) -> Held:
        """What may be served of the cache now, and the decision about it."""
        subscription, cache = self._subscription, self._subscription.cache
        if not subscription.servable:
            return Held(ReadDecision.STALE, (), 0, 0.0)
        same_space = encoded.model_fingerprint == subscription.held_fingerprint
        lookup = cache.lookup(
            encoded.vector if same_space else None,
            encoded.terms,
            question=question.query,
            limit=question.limit,
            now=subscription.server_now,
            elapsed=self._clock.elapsed(),
            weights=_WEIGHTS,
            approximation=encoded.approximation,
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
        near_complete = decision is ReadDecision.COMPLETE and encoded.approximation is not None
        judged = decision is ReadDecision.SURE or near_complete
        strict = self._checks.strictness.strict
        return Held(
            ReadDecision.BORDERLINE if judged and strict else decision,
            lookup.found,
            cache.version,
            subscription.staleness_seconds,
            judged=judged and not strict,
            demoted=judged and strict,
        )

    async def _ask(self, question: Question, encoded: Encoded, held: Held, times: ReadTimes) -> Outcome:
        """The server's answer if it comes in time, else what the cache holds by then."""
        end = times.started + question.deadline_seconds
        try:
            with times.measure(ReadStage.SERVER):
                result = await self._server.answer(question, encoded, end=end)
        except InvalidInput:
            raise
        except PrecallError as error:
            with times.measure(ReadStage.LOOKUP):
                return self._without_server(question, encoded, error)
        if held.demoted:  # its answer would have been served: both answers are here, so this is a check
            self._checks.compare(_served(self._items(held), question, held), result)
        answered = _from_server(result, held.decision, cut=encoded.truncated)
        if held.decision is not ReadDecision.BORDERLINE:
            return answered
        with times.measure(ReadStage.LOOKUP):
            return self._joined(question, encoded, answered)

    def _joined(self, question: Question, encoded: Encoded, answered: Outcome) -> Outcome:
        """The server's answer to a borderline read, and what the cache was told since it was made."""
        now = self._look_up(question, encoded)
        if now.decision not in (*_MAY_SERVE, ReadDecision.BORDERLINE) or now.version < answered.version:
            return answered
        return replace(
            answered,
            items=join(answered.items, self._items(now), since=answered.version, limit=question.limit),
            source=ReadSource.BOTH,
            version=now.version,
        )

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
        return Outcome(
            items=self._items(held),
            source=ReadSource.CACHE,
            decision=held.decision,
            version=held.version,
            staleness_seconds=held.staleness_seconds,
            truncated=encoded.truncated,
            reason=reason,
            degraded=degraded,
        )

    def _items(self, held: Held) -> tuple[ReadItem, ...]:
        now = convert.utc(self._subscription.server_now)
        return tuple(_item(found, now) for found in held.found)

    def _check_soon(self, question: Question, served: Served, read: Read) -> None:
        check = self._checks.start(
            served,
            lambda: self._server.check(question, min_version=served.version),
            lambda verdict: self._reported(read, verdict),
        )
        self._checking.add(check)
        check.add_done_callback(self._checking.discard)


def _served(items: tuple[ReadItem, ...], question: Question, held: Held) -> Served:
    return Served(items, question.limit, held.version)


def _from_server(result: SearchResult, decision: ReadDecision, *, cut: bool) -> Outcome:
    """``cut``: the query was, before its vector was made here."""
    return Outcome(
        items=tuple(result.items),
        source=ReadSource.SERVER,
        decision=decision,
        version=result.version,
        staleness_seconds=0.0,
        truncated=cut or result.truncated,
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
