"""Qwen3-Embedding through torch, on a GPU or a processor."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from precall.engine.encoding.card import ModelCard, Pooling
from precall.engine.encoding.encoder import EncodedBatch, TextRole, TokenizedText, TokenUsage
from precall.engine.encoding.numerics import unit_rows
from precall.engine.encoding.qwen3_architecture import Qwen3Architecture
from precall.engine.encoding.qwen3_files import Qwen3Files, find_qwen3
from precall.engine.encoding.qwen3_model import Qwen3Model
from precall.engine.encoding.qwen3_settings import MINIMUM_DIMENSION, Qwen3EncoderSettings
from precall.engine.encoding.qwen3_tokenizer import Qwen3Tokenizer
from precall.engine.encoding.qwen3_weights import Qwen3Weights
from precall.engine.encoding.torch_attention import PackedTensors, choose_attention
from precall.engine.encoding.torch_device import Placement
from precall.engine.encoding.torch_runner import PackedRunner
from precall.engine.errors import ConfigurationError, InvalidInput, TextTooLong

LONGEST_TEXT = 32_768
"""Tokens that the models are published for, whatever room their position tables have."""


class Qwen3Encoder:
    """``Encoder`` over Qwen3-Embedding (0.6B, 4B, 8B): the normalised state of the closing token.

    Texts go through the model end to end, without padding, so neither their order nor a mix of lengths costs
    anything.
    """

    def __init__(self, settings: Qwen3EncoderSettings | None = None) -> None:
        """Find, digest and load the model; blocks for seconds to minutes.

        Raises ``ModelUnavailable`` (missing, damaged, too large) or ``ConfigurationError`` (a setting that
        the model or the machine cannot meet).
        """
        settings = settings if settings is not None else Qwen3EncoderSettings()
        placement = Placement.choose(settings.device, settings.dtype)
        files = find_qwen3(settings)
        architecture = Qwen3Architecture.read(files.config)
        self._card = qwen3_card(files, architecture, settings)
        self._instruction = settings.instruction
        self._tokenizer = Qwen3Tokenizer(files.tokenizer, architecture)
        weights = Qwen3Weights.load(files.shards, architecture, placement)
        self._model = Qwen3Model(architecture, weights, choose_attention(placement))
        self._runner = PackedRunner(self._unit_vectors, placement, pass_tokens=settings.pass_tokens)

    @property
    def card(self) -> ModelCard:
        return self._card

    def tokenize(
        self, text: str, role: TextRole, *, truncate: bool, instruction: str | None = None
    ) -> TokenizedText:
        """As ``Encoder.tokenize``; ``instruction`` replaces the card's for this query.

        Raises ``InvalidInput`` for a text in which there is nothing to embed, or which is broken Unicode.
        """
        if not text.strip():
            raise InvalidInput("the text is empty or only white space: leave it out of the request")
        task = instruction if instruction is not None else self._instruction
        prompted = text if role is TextRole.DOCUMENT else instructed(task, text)
        token_ids = self._tokenizer.closed(prompted)
        given, limit = len(token_ids), self._card.max_tokens
        if given > limit:
            if not truncate:
                raise TextTooLong(
                    f"the text has {given} tokens and {self._card.name} takes {limit}: "
                    "shorten or split it, or allow truncation",
                    metadata={"tokens": str(given), "limit": str(limit)},
                )
            # The closing token stays: its state is the vector.
            token_ids = [*token_ids[: limit - 1], token_ids[-1]]
        return TokenizedText(np.array(token_ids, dtype=np.int64), TokenUsage(given, len(token_ids)))

    def encode(self, texts: Sequence[TokenizedText]) -> EncodedBatch:
        """As ``Encoder.encode``. Raises ``InvalidInput`` (empty batch) or ``ModelUnavailable``."""
        return unit_rows(self._runner.run([text.token_ids for text in texts]))

    def close(self) -> None:
        """Nothing to do: the weights go with the last reference, after the passes that still run."""

    def _unit_vectors(self, batch: PackedTensors) -> Tensor:
        """Matryoshka: cut first, then normalise. The norm is taken in float32 whatever the weights are."""
        states = self._model.last_hidden(batch)[:, : self._card.dimension].to(torch.float32)
        return torch.nn.functional.normalize(states, dim=-1)


def instructed(instruction: str, query: str) -> str:
    """A query as the model was trained to see it: no space after the second colon."""
    return f"Instruct: {instruction}\nQuery:{query}"


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
        matryoshka_dimensions=_cuts(dimension),
    )


def token_limit(architecture: Qwen3Architecture, wanted: int | None) -> int:
    """Raises ``ConfigurationError`` if more is wanted than the model takes."""
    limit = min(architecture.max_positions, LONGEST_TEXT)
    if wanted is not None and wanted > limit:
        raise ConfigurationError(f"model max_tokens {wanted} is more than the {limit} that the model takes")
    return wanted if wanted is not None else limit


def _cuts(dimension: int) -> tuple[int, ...]:
    """Lengths that a vector of ``dimension`` may still be cut to: powers of two, and itself."""
    powers = [1 << bits for bits in range(dimension.bit_length())]
    return (*(power for power in powers if MINIMUM_DIMENSION <= power < dimension), dimension)
