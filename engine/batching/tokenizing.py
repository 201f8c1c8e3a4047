"""From a caller's texts to what the queue takes: read beside the device, and dropped with their caller."""

import itertools
import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from precall.engine.batching.admission import fewest_tokens, require_bounded, require_countable
from precall.engine.batching.class_turns import Asker, ClassTurns
from precall.engine.batching.reading_threads import ReadingThreads
from precall.engine.batching.settings import BatchingSettings
from precall.engine.batching.waiting_room import WaitingRoom
from precall.engine.batching.work import WorkClass
from precall.engine.encoding.encoder import Encoder, TextRole, TokenizedText
from precall.engine.errors import DeadlineExceeded, InvalidInput, PrecallError

_logger = logging.getLogger(__name__)

_PART_CHARACTERS: Final = 50_000
"""What is read of a request in one turn, if its next text is not longer: 0.1 s."""

_INLINE_COUNT_CHARACTERS: Final = 100_000
"""The words of no more than so many characters are counted on the event loop: 1 ms."""

_ASSUMED_CHARACTERS_A_SECOND: Final = 500_000.0


@dataclass(frozen=True, slots=True)
class Reading:
    """How the texts of one request are to be read, and for whom. ``deadline``: on the batcher's clock; None:
    none.
    """

    role: TextRole
    truncate: bool = False
    instruction: str | None = None
    deadline: float | None = None
    tenant: str = ""
    work_class: WorkClass = WorkClass.CONVERSATION

    def __post_init__(self) -> None:
        """Raises ``InvalidInput``: nothing is ever before or after a deadline that is no number."""
        if self.deadline is not None and math.isnan(self.deadline):
            raise InvalidInput("the deadline is not a number: leave it unset, or set it in seconds")

    @property
    def asker(self) -> Asker:
        return Asker(self.tenant, self.work_class)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A text after the tokenizer: ``text`` or ``error``."""

    text: TokenizedText | None
    error: PrecallError | None
    seconds: float


class Tokenizing:
    """Reads few short texts on the event loop and the others on threads: two for conversations, two for the
    rest. There a request is read in parts, and classes and tenants have fair turns (`ClassTurns`), so that
    nobody waits for all of another's texts.
    """

    def __init__(self, encoder: Encoder, settings: BatchingSettings, clock: Callable[[], float]) -> None:
        self._encoder = encoder
        self._settings = settings
        self._clock = clock
        urgent, patient = ReadingThreads("urgent"), ReadingThreads("patient")
        self._threads = {
            work_class: urgent if work_class is WorkClass.CONVERSATION else patient
            for work_class in WorkClass
        }
        self._turns = {
            threads: ClassTurns(settings.class_weights, places=threads.COUNT) for threads in (urgent, patient)
        }
        self._room = WaitingRoom(
            "characters",
            limit=settings.max_waiting_characters,
            tenant_limit=settings.tenant_waiting_characters,
            assumed_pace=_ASSUMED_CHARACTERS_A_SECOND,
        )

    @property
    def waiting_characters(self) -> int:
        """Characters that wait for a thread, or are on one."""
        return self._room.waiting

    def start(self) -> None:
        """Start the threads, so that none is missing when it is needed. Raises ``ModelUnavailable``."""
        for threads in self._turns:
            threads.start()

    async def prepare(
        self,
        texts: Sequence[str],
        reading: Reading,
        require_room: Callable[[int], object] = lambda fewest_tokens: None,
    ) -> list[Prepared]:
        """One a text, in order. When the caller is cancelled, no thread goes on for it beyond its text.

        ``require_room`` hears, before anything is read, how many tokens there will be at the least, and may
        raise. Raises ``Overloaded`` or ``InvalidInput`` for more characters than may wait.
        """
        each = len(reading.instruction or "")
        characters = sum(self._size(text, each) for text in texts)
        few = len(texts) <= self._settings.inline_texts
        if few and characters <= self._settings.inline_characters:
            require_room(self._fewest_tokens(texts, reading))
            return self._read(texts, reading)
        self._room.require(reading.work_class, {reading.tenant: characters})
        self._room.enter(reading.work_class, reading.tenant, characters)
        abandoned = threading.Event()
        try:
            require_room(await self._count(texts, reading, characters))
            prepared: list[Prepared] = []
            for part in self._parts(texts, each):
                prepared += await self._read_part(part, reading, abandoned)
            return prepared
        finally:
            abandoned.set()  # whoever is cancelled needs no more; of all others everything has been read
            self._room.leave(reading.work_class, reading.tenant, characters)

    def close(self) -> None:
        for threads in self._turns:
            threads.close()

    def _size(self, text: str, each: int) -> int:
        """Characters to read: none of a text that is refused for its length."""
        characters = len(text) + each
        return characters if characters <= self._settings.max_text_characters else 0

    async def _count(self, texts: Sequence[str], reading: Reading, characters: int) -> int:
        if characters <= _INLINE_COUNT_CHARACTERS:
            return self._fewest_tokens(texts, reading)
        threads = self._threads[reading.work_class]
        async with self._turns[threads].turn(reading.asker, 0.0):
            return await threads.run(lambda: self._fewest_tokens(texts, reading))

    def _fewest_tokens(self, texts: Sequence[str], reading: Reading) -> int:
        return fewest_tokens(
            texts,
            self._encoder.card.max_tokens,
            truncate=reading.truncate,
            max_characters=self._settings.max_text_characters,
            enough=self._settings.tenant_waiting_tokens,
        )

    def _parts(self, texts: Sequence[str], each: int) -> list[Sequence[str]]:
        """The texts, cut where the next one would take a part over ``_PART_CHARACTERS``."""
        sizes = [self._size(text, each) for text in texts]
        cuts, part = [0], 0
        for position, size in enumerate(sizes):
            if part and part + size > _PART_CHARACTERS:
                cuts.append(position)
                part = 0
            part += size
        return [texts[begin:end] for begin, end in itertools.pairwise([*cuts, len(texts)])]

    async def _read_part(
        self, part: Sequence[str], reading: Reading, abandoned: threading.Event
    ) -> list[Prepared]:
        characters = sum(self._size(text, len(reading.instruction or "")) for text in part)
        threads = self._threads[reading.work_class]
        async with self._turns[threads].turn(reading.asker, characters):
            prepared = await threads.run(lambda: self._read(part, reading, abandoned))
        seconds = sum(item.seconds for item in prepared)
        self._room.observe(reading.work_class, characters, seconds)
        return prepared

    def _read(
        self, texts: Sequence[str], reading: Reading, abandoned: threading.Event | None = None
    ) -> list[Prepared]:
        prepared: list[Prepared] = []
        for text in texts:
            if abandoned is not None and abandoned.is_set():
                break  # nobody waits for the list
            begin = time.perf_counter()
            tokenized: TokenizedText | None = None
            fault: PrecallError | None = None
            try:
                tokenized = self._read_one(text, reading)
            except PrecallError as error:
                fault = error
            except Exception as error:  # of this text: the others of the request are not touched
                _logger.exception("the tokenizer failed on a text of %d characters", len(text))
                fault = InvalidInput(
                    f"the model's tokenizer cannot read the text ({type(error).__name__}): change it, "
                    "or leave it out"
                )
            prepared.append(Prepared(tokenized, fault, time.perf_counter() - begin))
        return prepared

    def _read_one(self, text: str, reading: Reading) -> TokenizedText:
        require_bounded(text, self._settings.max_text_characters, instruction=reading.instruction)
        if reading.deadline is not None and self._clock() >= reading.deadline:
            raise DeadlineExceeded(
                "the deadline passed before the text was read: allow more time or send less"
            )
        if not reading.truncate:
            require_countable(text, self._encoder.card.max_tokens)
        return self._encoder.tokenize(
            text, reading.role, truncate=reading.truncate, instruction=reading.instruction
        )
