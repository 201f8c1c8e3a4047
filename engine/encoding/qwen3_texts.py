"""Texts as Qwen3-Embedding reads them, for whichever engine runs the model. Loads no torch."""

import numpy as np

from precall.engine.encoding.card import ModelCard, Pooling
from precall.engine.encoding.encoder import TextRole, TokenizedText, TokenUsage
from precall.engine.encoding.instruction import require_instructable
from precall.engine.encoding.qwen3_architecture import Qwen3Architecture
from precall.engine.encoding.qwen3_files import Qwen3Files, find_qwen3
from precall.engine.encoding.qwen3_prompts import instructed
from precall.engine.encoding.qwen3_settings import MINIMUM_DIMENSION, Qwen3EncoderSettings
from precall.engine.encoding.qwen3_tokenizer import Qwen3Tokenizer
from precall.engine.errors import ConfigurationError, InvalidInput, TextTooLong

LONGEST_TEXT = 32_768
"""Tokens that the models are published for, whatever room their position tables have."""


class Qwen3Texts:
    """A model's files, its card and its tokenizer: all of an encoder but the forward pass. Thread-safe."""

    def __init__(self, settings: Qwen3EncoderSettings) -> None:
        """Find and digest the model's files; the weights are not loaded.

        Raises ``ModelUnavailable`` (missing, damaged) or ``ConfigurationError`` (a dimension or a length that
        the model does not have).
        """
        self.files = find_qwen3(settings)
        self.architecture = Qwen3Architecture.read(self.files.config)
        self.card = qwen3_card(self.files, self.architecture, settings)
        self._instruction = settings.instruction
        self._tokenizer = Qwen3Tokenizer(self.files.tokenizer, self.architecture)

    def tokenize(
        self, text: str, role: TextRole, *, truncate: bool, instruction: str | None = None
    ) -> TokenizedText:
        """As ``Encoder.tokenize``.

        Raises ``InvalidInput`` also for a text in which there is nothing to embed, or broken Unicode.
        """
        if not text.strip():
            raise InvalidInput("the text is empty or only white space: leave it out of the request")
        task = self._instruction
        if instruction is not None:
            require_instructable(instruction, role)
            task = instruction
        prompted = text if role is TextRole.DOCUMENT else instructed(task, text)
        token_ids = self._tokenizer.closed(prompted)
        given, limit = len(token_ids), self.card.max_tokens
        if given > limit:
            metadata = {"tokens": str(given), "limit": str(limit)}
            if not truncate:
                raise TextTooLong(
                    f"the text has {given} tokens and {self.card.name} takes {limit}: "
                    "shorten or split it, or allow truncation",
                    metadata=metadata,
                )
            if role is TextRole.QUERY and len(self._tokenizer.closed(instructed(task, ""))) >= limit:
                raise TextTooLong(
                    f"the instruction alone leaves no room for a text within the {limit} tokens of "
                    f"{self.card.name}: shorten the instruction",
                    metadata=metadata,
                )
            # The closing token stays: its state is the vector.
            token_ids = [*token_ids[: limit - 1], token_ids[-1]]
        return TokenizedText(np.array(token_ids, dtype=np.int64), TokenUsage(given, len(token_ids)))


def qwen3_card(
    files: Qwen3Files, architecture: Qwen3Architecture, settings: Qwen3EncoderSettings
) -> ModelCard:
    """The card of these files under these settings, whichever engine runs them.

    Raises ``ConfigurationError`` for a dimension or a length that the model does not have.
    """
    dimension = settings.dimension if settings.dimension is not None else architecture.hidden
    if dimension > architecture.hidden:
        raise ConfigurationError(
            f"model dimension {dimension} is more than the {architecture.hidden} of {files.name}"
        )
    return ModelCard(
        name=files.name,
        revision=files.revision,
        weights_sha256=files.weights_sha256,
        dimension=dimension,
        max_tokens=token_limit(architecture, settings.max_tokens),
        pooling=Pooling.LAST_TOKEN,
        query_prompt=instructed(settings.instruction, "{text}"),
        matryoshka_dimensions=tuple(range(MINIMUM_DIMENSION, dimension + 1)),
    )


def token_limit(architecture: Qwen3Architecture, wanted: int | None) -> int:
    """Raises ``ConfigurationError`` if more is wanted than the model takes."""
    limit = min(architecture.max_positions, LONGEST_TEXT)
    if wanted is not None and wanted > limit:
        raise ConfigurationError(f"model max_tokens {wanted} is more than the {limit} that the model takes")
    return wanted if wanted is not None else limit
