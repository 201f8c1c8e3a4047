"""What a request may ask of Qwen3Encoder for itself: an instruction, a dimension, odd texts."""

from pathlib import Path

import numpy as np
import pytest

from precall.engine.batching.outcome import EmbeddingOutcome
from precall.engine.encoding.encoder import TextRole
from precall.engine.encoding.qwen3 import Qwen3Encoder
from precall.engine.encoding.qwen3_settings import Qwen3EncoderSettings
from precall.engine.errors import InvalidInput, TextTooLong
from tests.fakes.tiny_qwen3 import TinyQwen3

TEXTS = ["Dana is allergic to peanuts.", "दाना को मूंगफली से एलर्जी है।", "a <|endoftext|> in the middle", "x"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return TinyQwen3().save(tmp_path_factory.mktemp("tiny-qwen3-embedding"))


@pytest.fixture(scope="module")
def encoder(folder: Path) -> Qwen3Encoder:
    return loaded(folder)


def loaded(folder: Path, **changes: object) -> Qwen3Encoder:
    return Qwen3Encoder(Qwen3EncoderSettings(model=folder, device="cpu", **({"max_tokens": 640} | changes)))


@pytest.mark.parametrize("dimension", [32, 33, 48, 63])
def test_a_vector_cut_afterwards_is_that_of_a_model_loaded_at_the_dimension(
    folder, encoder, dimension: int
) -> None:
    """And its card, and so its fingerprint, is that model's: the two may stand in one index."""
    short = loaded(folder, dimension=dimension)
    assert encoder.card.cut_to(dimension) == short.card
    texts = [encoder.tokenize(text, TextRole.QUERY, truncate=False) for text in TEXTS]
    whole, expected = encoder.encode(texts).vectors, short.encode(texts).vectors
    cut = [EmbeddingOutcome(row, None, None).cut_to(dimension).require_vector() for row in whole]
    assert np.einsum("ij,ij->i", np.stack(cut), expected).min() >= 0.999999
    assert np.allclose(np.linalg.norm(cut, axis=1), 1.0, atol=1e-6)


def test_an_instruction_of_a_request_equals_one_of_the_settings(folder, encoder) -> None:
    told = loaded(folder, instruction="Find songs")
    for text in TEXTS:
        ours = encoder.tokenize(text, TextRole.QUERY, truncate=False, instruction="Find songs")
        assert np.array_equal(ours.token_ids, told.tokenize(text, TextRole.QUERY, truncate=False).token_ids)


@pytest.mark.parametrize(
    ("role", "instruction", "error", "advice"),
    [
        (TextRole.DOCUMENT, "Find songs", InvalidInput, "role to QUERY"),
        (TextRole.QUERY, "", InvalidInput, "blank"),
        (TextRole.QUERY, " \t\n", InvalidInput, "blank"),
        (TextRole.QUERY, "x" * 2_001, TextTooLong, "shorten it"),
        (TextRole.QUERY, "lone \ud800", InvalidInput, "Unicode"),
    ],
)
def test_an_instruction_that_makes_no_sense_is_refused(
    encoder, role: TextRole, instruction: str, error: type[InvalidInput], advice: str
) -> None:
    with pytest.raises(error, match=advice):
        encoder.tokenize("text", role, truncate=True, instruction=instruction)


def test_truncation_cuts_the_text_and_never_all_of_it(folder) -> None:
    """A vector of the instruction alone would answer every query alike."""
    small = loaded(folder, max_tokens=24)
    cut = small.tokenize("word " * 50, TextRole.QUERY, truncate=True, instruction="Find songs")
    assert cut.usage.truncated and cut.usage.used == 24
    with pytest.raises(TextTooLong, match="instruction alone leaves no room"):
        small.tokenize("word", TextRole.QUERY, truncate=True, instruction="songs " * 30)


@pytest.mark.parametrize("text", ["\x00", "a\x00b", "\u200b", "\ufffe", "\U0010ffff", "\u0301"])
def test_odd_characters_are_text(encoder, text: str) -> None:
    tokenized = encoder.tokenize(text, TextRole.DOCUMENT, truncate=False)
    assert np.isclose(np.linalg.norm(encoder.encode([tokenized]).vectors[0]), 1.0, atol=1e-5)
