"""Takes pairs of many callers to the one reranker, in turns."""

import asyncio
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from precall.engine.encoding.encoder import TokenizedText, TokenUsage
from precall.engine.encoding.instruction import require_task
from precall.engine.encoding.packing_texts import cut_passes
from precall.engine.encoding.reranker import Reranker, RerankerCard
from precall.engine.errors import ConfigurationError, InvalidInput, Overloaded, PrecallError, TextTooLong
from precall.engine.memory.memory import MAX_TEXT_CHARACTERS
from precall.engine.retrieval.reranker_device import RerankerDevice, RerankerPass


@dataclass(frozen=True)
class RerankingSettings:
    max_waiting_characters: int = 4_000_000
    """Characters that may wait, the query counted with every document; a request over it is refused whole."""

    max_text_characters: int = MAX_TEXT_CHARACTERS
    """A longer query or document is refused before the tokenizer sees it, truncation allowed or not."""

    pass_tokens: int = 4_096
    """After so many tokens a long request lets the others have a turn."""

    probe_seconds: float = 30.0
    """If neither a probe nor any other pass was answered by then, the device is dead. A pass of the longest
    pair takes a processor tens of seconds.
    """

    def __post_init__(self) -> None:
        for name in ("max_waiting_characters", "max_text_characters", "pass_tokens"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"reranking.{name} must be at least 1, not {getattr(self, name)}")
        if not self.probe_seconds > 0.0:
            raise ConfigurationError(f"reranking.probe_seconds must be above 0, not {self.probe_seconds}")


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
    """Made and used on one event loop. It owns no reranker, and its threads end with it.

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
        self._waiting_characters = 0
        self._seconds_per_character = 0.0
        # One worker each: passes go first come, first served, and tokenising never keeps the device waiting.
        self._tokenizer = ThreadPoolExecutor(1, thread_name_prefix="precall-pair-tokenizer")
        self._device = RerankerDevice(reranker, clock, probe_seconds=self._settings.probe_seconds)

    @property
    def card(self) -> RerankerCard:
        return self._reranker.card

    @property
    def waiting_characters(self) -> int:
        return self._waiting_characters

    @property
    def fault(self) -> PrecallError | None:
        """As ``RerankerDevice.fault``."""
        return self._device.fault

    def listen(self, listener: Callable[[], object]) -> None:
        """Call ``listener``, on the event loop, whenever ``fault`` appears or goes."""
        self._device.listen(listener)

    async def probe(self) -> None:
        """As ``RerankerDevice.probe``; more may wait than otherwise may."""
        await self._device.probe()

    async def rerank(
        self,
        query: str,
        documents: Sequence[str],
        *,
        instruction: str | None = None,
        truncate: bool = False,
        deadline: float | None = None,
    ) -> Reranking:
        """A score a document. Cancelling the caller drops the passes that have not begun.

        A document that is wrong or hit by a failure has its own error. Raised for the request as a whole:
        before any work ``Overloaded``, ``InvalidInput`` (there is never room for so much; a blank
        instruction, a deadline that is no number) and ``TextTooLong`` (the query or the instruction);
        ``DeadlineExceeded``.
        """
        if deadline is not None and math.isnan(deadline):
            raise InvalidInput("the deadline is not a number: leave it unset, or set it in seconds")
        if instruction is not None:
            require_task(instruction)
        question = len(query) + len(instruction or "")
        if question > self._settings.max_text_characters:
            raise TextTooLong(
                f"query and instruction have {question} characters, at most "
                f"{self._settings.max_text_characters} are taken: shorten the query"
            )
        characters = sum(question + len(text) for text in documents if self._is_bounded(text))
        self._admit(characters)
        begin = self._clock()
        try:
            return await self._rerank(query, documents, instruction, truncate, deadline)
        finally:
            self._waiting_characters -= characters
            self._seconds_per_character = (self._clock() - begin) / max(characters, 1)

    async def _rerank(
        self,
        query: str,
        documents: Sequence[str],
        instruction: str | None,
        truncate: bool,
        deadline: float | None,
    ) -> Reranking:
        loop = asyncio.get_running_loop()
        begin = self._clock()
        abandoned = threading.Event()
        try:
            prepared = await loop.run_in_executor(
                self._tokenizer, self._tokenize, query, documents, instruction, truncate, abandoned
            )
        except asyncio.CancelledError:
            abandoned.set()  # the thread goes on no further than the document that it has in hand
            raise
        tokenize_seconds = self._clock() - begin
        answers = [
            RerankedDocument(error=item if isinstance(item, PrecallError) else None) for item in prepared
        ]
        positions = [at for at, item in enumerate(prepared) if isinstance(item, TokenizedText)]
        pairs = [item for item in prepared if isinstance(item, TokenizedText)]
        queue_seconds = device_seconds = 0.0
        passes = cut_passes([len(pair.token_ids) for pair in pairs], self._settings.pass_tokens)
        for rows in passes if pairs else ():
            part = [pairs[row] for row in rows]
            done = await self._device.score(part, deadline)
            queue_seconds += done.queue_seconds
            device_seconds += done.device_seconds
            for number, row in enumerate(rows):
                answers[positions[row]] = _answer(done, number, pairs[row].usage)
        return Reranking(answers, tokenize_seconds, queue_seconds, device_seconds)

    def _admit(self, characters: int) -> None:
        limit = self._settings.max_waiting_characters
        if characters > limit:
            raise InvalidInput(
                f"the documents have {characters} characters, the query counted with each, and at most "
                f"{limit} are reranked at a time: send fewer documents in a request"
            )
        if self._waiting_characters + characters > limit:
            raise Overloaded(
                f"{self._waiting_characters} characters wait for the reranker, of {limit} that may",
                retry_after_seconds=min(
                    max(self._waiting_characters * self._seconds_per_character, 0.1), 30.0
                ),
            )
        self._waiting_characters += characters

    def _is_bounded(self, text: str) -> bool:
        return len(text) <= self._settings.max_text_characters

    def _tokenize(
        self,
        query: str,
        documents: Sequence[str],
        instruction: str | None,
        truncate: bool,
        abandoned: threading.Event,
    ) -> list[TokenizedText | PrecallError]:
        prepared: list[TokenizedText | PrecallError] = []
        for document in documents:
            if abandoned.is_set():
                break  # nobody waits for the list
            try:
                if not self._is_bounded(document):
                    raise TextTooLong(
                        f"the document has {len(document)} characters, at most "
                        f"{self._settings.max_text_characters} are taken, truncated or not: split it"
                    )
                prepared.append(
                    self._reranker.tokenize(query, document, truncate=truncate, instruction=instruction)
                )
            except PrecallError as error:
                prepared.append(error)
        return prepared


def _answer(done: RerankerPass, number: int, usage: TokenUsage) -> RerankedDocument:
    if done.batch is None:
        return RerankedDocument(error=done.failure, usage=usage)
    error = done.batch.errors.get(number)
    score = float(done.batch.scores[number]) if error is None else None
    return RerankedDocument(score, error, usage)
