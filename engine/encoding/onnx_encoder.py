"""An encoder on ONNX Runtime: the default one, and the same that clients run in their own process."""

import copy
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precall.engine.encoding.background import give_way
from precall.engine.encoding.card import ModelCard
from precall.engine.encoding.encoder import EncodedBatch, TextRole, TokenizedText, TokenUsage
from precall.engine.encoding.exported import ExportedEncoder
from precall.engine.encoding.instruction import require_no_instruction
from precall.engine.encoding.numerics import unit_rows
from precall.engine.encoding.onnx_library import open_session
from precall.engine.encoding.padded_texts import padded_feeds, padded_passes
from precall.engine.errors import ConfigurationError, InvalidInput, ModelUnavailable, TextTooLong

_MAX_DEFAULT_THREADS = 4


def default_threads() -> int:
    """Threads of one forward pass: every processor this process may use, four at the most."""
    processors = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return min(processors, _MAX_DEFAULT_THREADS)


class OnnxEncoder:
    """``Encoder`` over a graph from ``(input_ids, attention_mask)`` to unit vectors. Thread-safe."""

    def __init__(self, exported: ExportedEncoder, card: ModelCard, *, threads: int | None = None) -> None:
        """Load it. Raises ``ConfigurationError`` (``threads`` below 1), ``ModelUnavailable`` (bad files)."""
        if threads is not None and threads < 1:
            raise ConfigurationError(f"encoder threads must be at least 1, not {threads}")
        from tokenizers import Tokenizer

        self._exported = exported
        self._threads = threads if threads is not None else default_threads()
        self._background: ThreadPoolExecutor | None = None
        try:
            self._session = self._open_session()
            self._tokenizer = Tokenizer.from_file(str(exported.tokenizer))
        except Exception as error:
            raise ModelUnavailable(
                f"the exported encoder in {exported.folder} cannot be loaded ({type(error).__name__}): "
                "delete that folder, and the next start exports it again"
            ) from error
        self._card = card
        self._prompts = {TextRole.QUERY: card.query_prompt, TextRole.DOCUMENT: card.document_prompt}

    @property
    def card(self) -> ModelCard:
        return self._card

    def tokenize(
        self, text: str, role: TextRole, *, truncate: bool, instruction: str | None = None
    ) -> TokenizedText:
        """As ``Encoder.tokenize``; ``InvalidInput`` for a text in which there is nothing to embed."""
        require_no_instruction(instruction, self._card.name)
        if not text.strip():
            raise InvalidInput("the text is empty or only white space: leave it out of the request")
        prompt = self._prompts[role]
        try:
            # ``encode`` keeps Python's global lock to its end, 0.2 s for the longest text that the server
            # takes; ``encode_batch`` lets go of it. Nothing is cut beforehand: usage counts all that came.
            (encoding,) = self._tokenizer.encode_batch([prompt.replace("{text}", text)])
        except (UnicodeEncodeError, TypeError) as error:
            raise InvalidInput(
                "the text is not valid Unicode (it has a lone surrogate): decode it with errors='replace'"
            ) from error
        token_ids = np.array(encoding.ids, dtype=np.int64)
        if all(encoding.special_tokens_mask):
            raise InvalidInput(
                "the text has no character that the model knows (only invisible ones): leave it out"
            )
        given, limit = len(token_ids), self._card.max_tokens
        if given <= limit:
            return TokenizedText(token_ids, TokenUsage(given, given))
        if not truncate:
            raise TextTooLong(
                f"the text has {given} tokens and {self._card.name} takes {limit}: "
                "shorten or split it, or allow truncation",
                metadata={"tokens": str(given), "limit": str(limit)},
            )
        # The closing special token stays, as the model was trained to see it.
        kept = np.concatenate([token_ids[: limit - 1], token_ids[-1:]])
        return TokenizedText(kept, TokenUsage(given, limit))

    def encode(self, texts: Sequence[TokenizedText]) -> EncodedBatch:
        """As ``Encoder.encode``. Texts of like length go through the model together, so little is padding.

        Raises ``InvalidInput`` for an empty batch and ``ModelUnavailable`` when the runtime fails.
        """
        if not texts:
            raise InvalidInput("a batch needs at least one text")
        vectors = np.empty((len(texts), self._card.dimension), dtype=np.float32)
        for rows in padded_passes([len(text.token_ids) for text in texts]):
            vectors[rows] = self._forward([texts[row].token_ids for row in rows])
        return unit_rows(vectors)

    def for_background(self) -> "OnnxEncoder":
        """As ``HasBackground.for_background``: a session of its own, so the weights are in memory twice."""
        background = copy.copy(self)
        # The runtime's threads take the priority of the thread that opens the session. Only that one gives
        # way, and not whoever calls ``encode``: a caller may hold Python's lock while it is kept off the
        # processors, and then the event loop would wait with it.
        background._background = ThreadPoolExecutor(
            max_workers=1, thread_name_prefix="precall-background", initializer=give_way
        )
        try:
            background._session = background._background.submit(self._open_session).result()
        except Exception as error:
            background.close()
            raise ModelUnavailable(
                f"the model cannot be loaded a second time ({type(error).__name__}): is there enough memory?"
            ) from error
        return background

    def close(self) -> None:
        """The session goes with the last reference, after the passes that still run."""
        if self._background is not None:
            self._background.shutdown(wait=False)

    def _open_session(self) -> Any:
        return open_session(self._exported.graph, self._threads)

    def _run(self, feeds: Mapping[str, NDArray[np.int64]]) -> Any:
        if self._background is None:
            return self._session.run(["vectors"], feeds)
        return self._background.submit(self._session.run, ["vectors"], feeds).result()

    def _forward(self, token_ids: Sequence[NDArray[np.int64]]) -> NDArray[np.float32]:
        try:
            (vectors,) = self._run(padded_feeds(token_ids))
        except Exception as error:
            raise ModelUnavailable(
                f"the model's runtime failed on a batch of {len(token_ids)} texts ({type(error).__name__}); "
                "send it again, in smaller batches if this goes on"
            ) from error
        return np.asarray(vectors, dtype=np.float32)
