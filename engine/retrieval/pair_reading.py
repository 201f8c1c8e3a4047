"""The documents of one request and its query, made into pairs a slice at a time."""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from precall.engine.encoding.encoder import TokenizedText
from precall.engine.encoding.guard import PROBE_TEXT
from precall.engine.encoding.reranker import Reranker
from precall.engine.errors import DeadlineExceeded, InvalidInput, PrecallError, TextTooLong

SLICE_CHARACTERS: Final = 50_000
"""Some 20 ms of a tokenizer: so long does a request keep the others from it."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PairingOptions:
    """How the pairs of one request are to be read; all but ``deadline`` as ``Reranker.tokenize`` takes them.

    ``deadline``: on the queue's clock, in seconds; None: none.
    """

    instruction: str | None = None
    truncate: bool = False
    term_weights: Mapping[str, float] | None = None
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class Slice:
    """Some documents that stand together; ``characters`` of their pairs."""

    documents: range
    characters: int


class PairReading:
    """Knows no thread: ``read`` blocks, ``abandon`` may be called beside it."""

    def __init__(
        self,
        reranker: Reranker,
        query: str,
        documents: Sequence[str],
        options: PairingOptions,
        *,
        max_text_characters: int,
        clock: Callable[[], float],
    ) -> None:
        """Raises TextTooLong for a query and an instruction that no document could be read with."""
        self._question = len(query) + len(options.instruction or "")
        if self._question > max_text_characters:
            raise TextTooLong(
                f"query and instruction have {self._question} characters, at most "
                f"{max_text_characters} are taken: shorten the query"
            )
        self._documents = documents
        self._options = options
        self._limit = max_text_characters
        self._clock = clock
        self._tokenize = partial(
            reranker.tokenize, query, instruction=options.instruction, term_weights=options.term_weights
        )
        self._is_question_sound = False
        self._abandoned = threading.Event()

    @property
    def characters(self) -> int:
        """Of all pairs, the query counted with every document; one that is not read counts nothing."""
        return sum(self.characters_of(position) for position in range(len(self._documents)))

    def characters_of(self, position: int) -> int:
        length = len(self._documents[position])
        return self._question + length if length <= self._limit else 0

    def slices(self) -> Iterator[Slice]:
        """All documents in order, each slice of at least one."""
        begin = characters = 0
        for position in range(len(self._documents)):
            added = self.characters_of(position)
            if position > begin and characters + added > SLICE_CHARACTERS:
                yield Slice(range(begin, position), characters)
                begin, characters = position, 0
            characters += added
        if begin < len(self._documents):
            yield Slice(range(begin, len(self._documents)), characters)

    def abandon(self) -> None:
        """Nobody waits for the pairs any more: read no further than the document in hand."""
        self._abandoned.set()

    def read(self, part: Slice) -> list[TokenizedText | PrecallError]:
        """A pair a document, or what is wrong with that document. Fewer once it is abandoned.

        Raises what is wrong with the query or the instruction, whichever the document, and DeadlineExceeded.
        """
        prepared: list[TokenizedText | PrecallError] = []
        for position in part.documents:
            if self._abandoned.is_set():
                break
            if self._options.deadline is not None and self._clock() >= self._options.deadline:
                raise DeadlineExceeded(
                    "the deadline passed before the documents were read: allow more time or send fewer"
                )
            prepared.append(self._read_one(self._documents[position]))
        return prepared

    def _read_one(self, document: str) -> TokenizedText | PrecallError:
        if len(document) > self._limit:
            return TextTooLong(
                f"the document has {len(document)} characters, at most {self._limit} are taken, truncated or "
                "not: split it"
            )
        try:
            return self._tokenize(document, truncate=self._options.truncate)
        except PrecallError as error:
            self._require_sound_question()
            return error
        except Exception as error:  # of this document: the others of the request are not touched
            _logger.exception("the reranker's tokenizer failed on a document of %d characters", len(document))
            return InvalidInput(
                f"the reranker's tokenizer cannot read the document ({type(error).__name__}): change it, "
                "or leave it out"
            )

    def _require_sound_question(self) -> None:
        """A fault that a good document has as well is the query's, and would be that of every document."""
        if not self._is_question_sound:
            self._tokenize(PROBE_TEXT, truncate=True)
            self._is_question_sound = True
