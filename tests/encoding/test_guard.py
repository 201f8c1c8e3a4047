from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from precall.engine.encoding.card import ModelCard
from precall.engine.encoding.encoder import EncodedBatch, TextRole, TokenizedText
from precall.engine.encoding.guard import GoldenPair, NumericsGuard
from precall.engine.encoding.loading import LoadedEncoder
from precall.engine.encoding.minilm import GOLDEN_PAIRS
from precall.engine.encoding.onnx_encoder import OnnxEncoder
from precall.engine.errors import ModelUnavailable, NumericsError

Spoil = Callable[[EncodedBatch, Sequence[TokenizedText], int], EncodedBatch]


class SpoiledEncoder:
    """A sound encoder whose answers pass through ``spoil(encoded, texts, call_number)``."""

    def __init__(self, encoder: OnnxEncoder, spoil: Spoil) -> None:
        self._encoder = encoder
        self._spoil = spoil
        self._calls = 0

    @property
    def card(self) -> ModelCard:
        return self._encoder.card

    def tokenize(self, text: str, role: TextRole, *, truncate: bool) -> TokenizedText:
        return self._encoder.tokenize(text, role, truncate=truncate)

    def encode(self, texts: Sequence[TokenizedText]) -> EncodedBatch:
        self._calls += 1
        return self._spoil(self._encoder.encode(texts), texts, self._calls)

    def close(self) -> None: ...


def turned(encoded: EncodedBatch) -> EncodedBatch:
    return EncodedBatch(np.roll(encoded.vectors, 1, axis=1), encoded.errors)


def test_the_default_encoder_passes(guard: NumericsGuard) -> None:
    guard.check()
    guard.probe()


def test_a_batch_that_differs_from_single_is_found(loaded: LoadedEncoder) -> None:
    guard = NumericsGuard(
        SpoiledEncoder(
            loaded.encoder, lambda encoded, texts, _: turned(encoded) if len(texts) > 1 else encoded
        )
    )
    with pytest.raises(NumericsError) as caught:
        guard.check()
    assert caught.value.metadata["check"] == "batch_equals_single"


def test_a_repeat_that_differs_is_found(loaded: LoadedEncoder) -> None:
    batches = iter([False, True])
    guard = NumericsGuard(
        SpoiledEncoder(
            loaded.encoder,
            lambda encoded, texts, _: turned(encoded) if len(texts) > 1 and next(batches) else encoded,
        )
    )
    with pytest.raises(NumericsError) as caught:
        guard.check()
    assert caught.value.metadata["check"] == "repeat_equals_first"


def test_wrong_weights_are_found_by_the_golden_pairs(loaded: LoadedEncoder) -> None:
    wrong = [replace(pair, cosine=pair.cosine + 0.05) for pair in GOLDEN_PAIRS]
    with pytest.raises(NumericsError) as caught:
        NumericsGuard(loaded.encoder, wrong).check()
    assert caught.value.metadata["check"] == "golden_pairs"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0, 0.5])
def test_a_vector_that_is_no_unit_vector_is_found(loaded: LoadedEncoder, value: float) -> None:
    guard = NumericsGuard(
        SpoiledEncoder(loaded.encoder, lambda encoded, *_: EncodedBatch(encoded.vectors * np.float32(value)))
    )
    with pytest.raises(NumericsError, match="probe"):
        guard.probe()


def test_vectors_of_the_wrong_dimension_are_found(loaded: LoadedEncoder) -> None:
    guard = NumericsGuard(
        SpoiledEncoder(loaded.encoder, lambda encoded, *_: EncodedBatch(encoded.vectors[:, :100]))
    )
    with pytest.raises(NumericsError, match="shape"):
        guard.probe()


def test_an_encoder_that_raises_is_unavailable(loaded: LoadedEncoder) -> None:
    def fail(*_: object) -> EncodedBatch:
        raise RuntimeError("device lost")

    with pytest.raises(ModelUnavailable, match="device lost"):
        NumericsGuard(SpoiledEncoder(loaded.encoder, fail), [GoldenPair("a", "b", 0.0)]).check()
