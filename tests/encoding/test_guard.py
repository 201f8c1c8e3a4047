from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from precall.engine.encoding.card import ModelCard, Pooling
from precall.engine.encoding.encoder import EncodedBatch, TextRole, TokenizedText, TokenUsage
from precall.engine.encoding.guard import LONGEST_CHECKED_WORDS, GoldenPair, NumericsGuard, RerankerGuard
from precall.engine.encoding.loading import LoadedEncoder
from precall.engine.encoding.minilm import GOLDEN_PAIRS
from precall.engine.encoding.onnx_encoder import OnnxEncoder
from precall.engine.encoding.reranker import RerankedBatch, RerankerCard
from precall.engine.errors import ModelUnavailable, NumericsError, PrecallError

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

    def tokenize(
        self, text: str, role: TextRole, *, truncate: bool, instruction: str | None = None
    ) -> TokenizedText:
        return self._encoder.tokenize(text, role, truncate=truncate, instruction=instruction)

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


class WordyEncoder:
    """Takes so many words that checking half of them would take minutes; remembers the longest text."""

    card = ModelCard("wordy", "1", "0" * 64, dimension=2, max_tokens=32_768, pooling=Pooling.MEAN)
    longest = 0

    def tokenize(
        self, text: str, role: TextRole, *, truncate: bool, instruction: str | None = None
    ) -> TokenizedText:
        words = len(text.split())
        self.longest = max(self.longest, words)
        return TokenizedText(np.zeros(words, np.int64), TokenUsage(words, words))

    def encode(self, texts: Sequence[TokenizedText]) -> EncodedBatch:
        return EncodedBatch(np.tile(np.array([0.6, 0.8], np.float32), (len(texts), 1)))

    def close(self) -> None: ...


def test_a_model_of_long_texts_is_not_checked_at_half_its_length() -> None:
    encoder = WordyEncoder()
    NumericsGuard(encoder).check()
    assert encoder.longest == LONGEST_CHECKED_WORDS


class SpoiledReranker:
    """Scores by length, and then by ``spoil(scores, call_number)``."""

    card = RerankerCard("spoiled", "1", "0" * 64, 100, "{instruction}{query}{document}", "find")

    def __init__(self, spoil: Callable[[np.ndarray, int], np.ndarray]) -> None:
        self._spoil = spoil
        self._calls = 0
        self.errors: dict[int, PrecallError] = {}

    def tokenize(
        self, query: str, document: str, *, truncate: bool, instruction: str | None = None
    ) -> TokenizedText:
        return TokenizedText(np.zeros(len(document), np.int64), TokenUsage(len(document), len(document)))

    def score(self, pairs: Sequence[TokenizedText]) -> RerankedBatch:
        self._calls += 1
        scores = np.array([1 / len(pair.token_ids) for pair in pairs], np.float32)
        return RerankedBatch(self._spoil(scores, self._calls), self.errors)

    def close(self) -> None: ...


def test_a_sound_reranker_passes() -> None:
    RerankerGuard(SpoiledReranker(lambda scores, _: scores)).check()


def test_a_rerankers_batch_that_differs_from_single_is_found() -> None:
    reranker = SpoiledReranker(lambda scores, _: scores + 0.02 * (len(scores) > 1))
    with pytest.raises(NumericsError) as caught:
        RerankerGuard(reranker).check()
    assert caught.value.metadata["check"] == "batch_equals_single"


def test_a_rerankers_repeat_that_differs_or_is_no_number_is_found() -> None:
    for wrong in (0.02, float("nan")):
        reranker = SpoiledReranker(
            lambda scores, call, wrong=wrong: scores + np.float32(wrong if call == 5 else 0)
        )
        with pytest.raises(NumericsError) as caught:
            RerankerGuard(reranker).check()
        assert caught.value.metadata["check"] == "repeat_equals_first"


def test_a_pair_that_a_reranker_could_not_score_is_what_the_guard_raises() -> None:
    reranker = SpoiledReranker(lambda scores, _: scores)
    reranker.errors = {0: ModelUnavailable("device lost")}
    with pytest.raises(ModelUnavailable, match="device lost"):
        RerankerGuard(reranker).check()
