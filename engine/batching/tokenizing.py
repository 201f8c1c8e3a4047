"""From a caller's texts to what the queue takes: read beside the device, and dropped with their caller."""

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from precall.engine.batching.admission import require_bounded
from precall.engine.batching.settings import BatchingSettings
from precall.engine.encoding.encoder import Encoder, TextRole, TokenizedText
from precall.engine.errors import DeadlineExceeded, InvalidInput, PrecallError

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reading:
    """How the texts of one request are to be read. ``deadline``: on the batcher's clock; None: none."""

    role: TextRole
    truncate: bool = False
    instruction: str | None = None
    deadline: float | None = None

    def __post_init__(self) -> None:
        """Raises ``InvalidInput``: nothing is ever before or after a deadline that is no number."""
        if self.deadline is not None and math.isnan(self.deadline):
            raise InvalidInput("the deadline is not a number: leave it unset, or set it in seconds")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A text after the tokenizer: ``text`` or ``error``."""

    text: TokenizedText | None
    error: PrecallError | None
    seconds: float


class Tokenizing:
    """Reads few short texts on the event loop and the others on two threads."""

    def __init__(self, encoder: Encoder, settings: BatchingSettings, clock: Callable[[], float]) -> None:
        self._encoder = encoder
        self._settings = settings
        self._clock = clock
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="precall-tokenizer")

    async def prepare(self, texts: Sequence[str], reading: Reading) -> list[Prepared]:
        """One a text, in order. When the caller is cancelled, no thread goes on for it beyond its text."""
        each = len(reading.instruction or "")
        few = len(texts) <= self._settings.inline_texts
        if few and sum(len(text) + each for text in texts) <= self._settings.inline_characters:
            return self._read(texts, reading)
        abandoned = threading.Event()
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._threads, self._read, texts, reading, abandoned
            )
        except asyncio.CancelledError:
            abandoned.set()
            raise

    def close(self) -> None:
        self._threads.shutdown(wait=False)

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
        return self._encoder.tokenize(
            text, reading.role, truncate=reading.truncate, instruction=reading.instruction
        )
