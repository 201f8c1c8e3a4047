"""Takes pairs of many callers to the one reranker, in turns."""

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

from precall.engine.batching.class_turns import Asker, ClassTurns
from precall.engine.batching.pace import Pace
from precall.engine.batching.work import WorkClass
from precall.engine.encoding.encoder import TokenizedText, TokenUsage
from precall.engine.encoding.guard import PROBE_TEXT
from precall.engine.encoding.instruction import require_task
from precall.engine.encoding.packing_texts import cut_passes
from precall.engine.encoding.reranker import Reranker, RerankerCard
from precall.engine.errors import ConfigurationError, Draining, InvalidInput, Overloaded, PrecallError
from precall.engine.memory.memory import MAX_TEXT_CHARACTERS
from precall.engine.retrieval.pair_reading import PairingOptions, PairReading
from precall.engine.retrieval.reranker_device import RerankerDevice, RerankerPass
from precall.engine.retrieval.worker_thread import WorkerThread
from precall.scoring.query_terms import QueryTerms


@dataclass(frozen=True)
class RerankingSettings:
    max_waiting_characters: int = 8_000_000
    """Characters of one class that may wait, the query counted with every document; of one tenant half of
    them, so that a request over half is refused whole.
    """

    max_text_characters: int = MAX_TEXT_CHARACTERS
    """A longer query or document is refused before the tokenizer sees it, truncation allowed or not."""

    pass_tokens: int = 4_096
    """After so many tokens a long request lets the others have a turn."""

    class_weights: Mapping[WorkClass, float] = field(
        default_factory=lambda: MappingProxyType({WorkClass.CONVERSATION: 16.0, WorkClass.INGEST: 1.0})
    )
    """Shares of the device's characters when several classes have pairs waiting; 1 for one not named."""

    probe_seconds: float = 30.0
    """If neither a probe nor any other pass was answered by then, the device is dead. A pass of the longest
    pair takes a processor tens of seconds.
    """

    close_seconds: float = 10.0
    """How long ``close`` waits for the pass that computes; one that takes longer is left to itself."""

    def __post_init__(self) -> None:
        for name in ("max_waiting_characters", "max_text_characters", "pass_tokens"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"reranking.{name} must be at least 1, not {getattr(self, name)}")
        for name in ("probe_seconds", "close_seconds"):
            if not getattr(self, name) > 0.0:
                raise ConfigurationError(f"reranking.{name} must be above 0, not {getattr(self, name)}")
        if not all(weight > 0.0 for weight in self.class_weights.values()):
            raise ConfigurationError("reranking.class_weights must all be above 0")

    @property
    def max_tenant_characters(self) -> int:
        """Rounded up."""
        return -(-self.max_waiting_characters // 2)


@dataclass(frozen=True, slots=True)
class RerankedDocument:
    """``score`` is in [0, 1], or None and ``error`` says why; ``usage`` counts the whole prompt."""

    score: float | None = None
    error: PrecallError | None = None
    usage: TokenUsage | None = None


@dataclass(frozen=True, slots=True)
class Reranking:
    """``documents`` in the order in which they came. Seconds are those of the whole request."""

    documents: Sequence[RerankedDocument]
    tokenize_seconds: float
    queue_seconds: float
    device_seconds: float


class RerankQueue:
    """Made and used on one event loop. It owns no reranker; ``close`` it before that is closed.

    Tokenizing and passes are each done in turns (`ClassTurns`), so neither another tenant's flood nor, for a
    search, one of plain reranking keeps anybody waiting for more than a slice or a pass of each tenant.

    Invariant: ``waiting_characters`` is the sum over the requests in progress, and 0 when there is none.
    """

    def __init__(
        self,
        reranker: Reranker,
        settings: RerankingSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``clock`` (seconds) is what deadlines are measured on."""
        self._reranker = reranker
        self._settings = settings if settings is not None else RerankingSettings()
        self._clock = clock
        self._waiting: Counter[Asker] = Counter()
        self._pace = Pace()
        # A thread each: tokenising never keeps the device waiting.
        self._tokenizer = WorkerThread("precall-pair-tokenizer")
        self._tokenizer_turns = ClassTurns(self._settings.class_weights)
        self._device = RerankerDevice(reranker, clock, probe_seconds=self._settings.probe_seconds)
        self._device_turns = ClassTurns(self._settings.class_weights)

    @property
    def card(self) -> RerankerCard:
        return self._reranker.card

    def search_share(self, asked: QueryTerms) -> float:
        """As ``Reranker.search_share``."""
        return self._reranker.search_share(asked)

    @property
    def waiting_characters(self) -> int:
        return self._waiting.total()

    @property
    def fault(self) -> PrecallError | None:
        """As ``RerankerDevice.fault``."""
        return self._device.fault

    def listen(self, listener: Callable[[], object]) -> None:
        """Call ``listener``, on the event loop, whenever ``fault`` appears or goes."""
        self._device.listen(listener)

    async def probe(self) -> None:
        """As ``RerankerDevice.probe``; it waits for no turn, and more may wait than otherwise may."""
        await self._device.probe()

    def refuse_waiting(self) -> None:
        """Answer with Draining what waits for a turn, and take nothing more; ``close`` follows."""
        self._tokenizer_turns.refuse(_draining)
        self._device_turns.refuse(_draining)

    async def close(self) -> None:
        """Refuse what waits and end the threads after what they have in hand, or ``close_seconds`` later.

        Twice is as once.
        """
        self.refuse_waiting()
        await self._tokenizer.finish(self._settings.close_seconds)
        await self._device.close(self._settings.close_seconds)

    async def rerank(
        self,
        query: str,
        documents: Sequence[str],
        *,
        tenant: str,
        work_class: WorkClass,
        instruction: str | None = None,
        truncate: bool = False,
        deadline: float | None = None,
        term_weights: Mapping[str, float] | None = None,
    ) -> Reranking:
        """A score a document. Cancelling the caller drops the passes that have not begun.

        ``term_weights``: as ``Reranker.tokenize`` takes them.

        A document that is wrong or hit by a failure has its own error. Raised for the request as a whole:
        before any work ``Overloaded``, ``InvalidInput`` (there is never room for so much; a blank
        instruction, a deadline that is no number), ``TextTooLong`` (the query or the instruction) and what
        the model says to an instruction that it does not take; then what is wrong with the query, whichever
        the document; ``DeadlineExceeded`` and ``Draining``.
        """
        if deadline is not None and math.isnan(deadline):
            raise InvalidInput("the deadline is not a number: leave it unset, or set it in seconds")
        if instruction is not None:
            require_task(instruction)
            self._reranker.tokenize(PROBE_TEXT, PROBE_TEXT, truncate=True, instruction=instruction)
        reading = PairReading(
            self._reranker,
            query,
            documents,
            PairingOptions(instruction, truncate, term_weights, deadline),
            max_text_characters=self._settings.max_text_characters,
            clock=self._clock,
        )
        asker = Asker(tenant, work_class)
        characters = reading.characters
        self._admit(asker, characters)
        try:
            begin = self._clock()
            prepared = await self._read(asker, reading)
            tokenize_seconds = self._clock() - begin
            return await self._score(asker, reading, prepared, deadline, tokenize_seconds)
        finally:
            self._waiting[asker] -= characters
            if not self._waiting[asker]:
                del self._waiting[asker]

    async def _read(self, asker: Asker, reading: PairReading) -> list[TokenizedText | PrecallError]:
        prepared: list[TokenizedText | PrecallError] = []
        try:
            for part in reading.slices():
                async with self._tokenizer_turns.turn(asker, part.characters):
                    prepared += await self._tokenizer.run(partial(reading.read, part))
        finally:
            reading.abandon()  # the caller may have gone, and the thread have a slice in hand
        return prepared

    async def _score(
        self,
        asker: Asker,
        reading: PairReading,
        prepared: Sequence[TokenizedText | PrecallError],
        deadline: float | None,
        tokenize_seconds: float,
    ) -> Reranking:
        answers = [
            RerankedDocument(error=item if isinstance(item, PrecallError) else None) for item in prepared
        ]
        positions = [at for at, item in enumerate(prepared) if isinstance(item, TokenizedText)]
        pairs = [item for item in prepared if isinstance(item, TokenizedText)]
        queue_seconds = device_seconds = 0.0
        passes = cut_passes([len(pair.token_ids) for pair in pairs], self._settings.pass_tokens)
        for rows in passes if pairs else ():
            part = [pairs[row] for row in rows]
            characters = sum(reading.characters_of(positions[row]) for row in rows)
            queued_at = self._clock()
            async with self._device_turns.turn(asker, characters):
                queue_seconds += self._clock() - queued_at
                done = await self._device.score(part, deadline)
            self._pace.observe(characters, done.device_seconds)
            queue_seconds += done.queue_seconds
            device_seconds += done.device_seconds
            for number, row in enumerate(rows):
                answers[positions[row]] = _answer(done, number, pairs[row].usage)
        return Reranking(answers, tokenize_seconds, queue_seconds, device_seconds)

    def _admit(self, asker: Asker, characters: int) -> None:
        most, of_tenant = self._settings.max_waiting_characters, self._settings.max_tenant_characters
        if characters > of_tenant:
            raise InvalidInput(
                f"the documents have {characters} characters, the query counted with each, and at most "
                f"{of_tenant} are reranked at a time: send fewer documents in a request"
            )
        waiting = sum(each for other, each in self._waiting.items() if other.work_class is asker.work_class)
        self._require_room("wait for the reranker", waiting, characters, most)
        self._require_room("of yours wait for the reranker", self._waiting[asker], characters, of_tenant)
        self._waiting[asker] += characters

    def _require_room(self, what: str, waiting: int, characters: int, limit: int) -> None:
        excess = waiting + characters - limit
        if excess > 0:
            retry_after = self._pace.seconds_for(excess)
            raise Overloaded(
                f"{waiting} characters {what}, of {limit} that may: send the request again in "
                f"{retry_after:.1f} s",
                retry_after_seconds=retry_after,
            )


def _answer(done: RerankerPass, number: int, usage: TokenUsage) -> RerankedDocument:
    if done.batch is None:
        return RerankedDocument(error=done.failure, usage=usage)
    error = done.batch.errors.get(number)
    score = float(done.batch.scores[number]) if error is None else None
    return RerankedDocument(score, error, usage)


def _draining() -> Draining:
    return Draining("the server is shutting down: send the request to another one, or again in a moment")
