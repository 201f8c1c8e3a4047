"""Qwen3Encoder beside transformers and sentence-transformers, on small models of random weights."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from precall.engine.encoding.encoder import TextRole, TokenizedText, TokenUsage
from precall.engine.encoding.guard import NumericsGuard
from precall.engine.encoding.qwen3 import Qwen3Encoder
from precall.engine.encoding.qwen3_prompts import WEB_SEARCH_INSTRUCTION
from precall.engine.encoding.qwen3_settings import Qwen3EncoderSettings
from precall.engine.errors import ConfigurationError, InvalidInput, NumericsError, TextTooLong
from tests.fakes.tiny_qwen3 import TinyQwen3, qwen_tokenizer_json

LIMIT = 640
TEXTS = [
    "Dana is allergic to peanuts.",
    "दाना को मूंगफली से एलर्जी है।",
    "मुझे अगले महीने Pune जाना है, book a train for me 🚆",
    "naïve café — “quoted” ﬁne",
    "  leading and trailing \n\n white space\t",
    "a literal <|endoftext|> in the middle",
    "x",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return TinyQwen3().save(tmp_path_factory.mktemp("tiny-qwen3-embedding"))


@pytest.fixture(scope="module")
def encoder(folder: Path) -> Qwen3Encoder:
    return Qwen3Encoder(cpu(folder, max_tokens=LIMIT))


@pytest.fixture(scope="module")
def reference(folder: Path):
    return Reference(folder)


class Reference:
    """The model as transformers runs it, one text a pass: no padding, no packing."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModel, AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self.model = AutoModel.from_pretrained(folder, local_files_only=True).eval()

    def state(self, token_ids: Sequence[int]) -> np.ndarray:
        import torch

        with torch.inference_mode():
            states = self.model(input_ids=torch.tensor([list(token_ids)])).last_hidden_state
        return states[0, -1].to(torch.float32).numpy()


def cpu(folder: Path, **changes) -> Qwen3EncoderSettings:
    return Qwen3EncoderSettings(model=folder, device="cpu", **changes)


def embed(encoder: Qwen3Encoder, texts: Sequence[str], role: TextRole = TextRole.DOCUMENT) -> np.ndarray:
    encoded = encoder.encode([encoder.tokenize(text, role, truncate=False) for text in texts])
    assert encoded.errors == {}
    return encoded.vectors


def of_length(length: int, seed: int = 0) -> TokenizedText:
    token_ids = np.random.default_rng((length, seed)).integers(0, 150_000, length)
    return TokenizedText(token_ids, TokenUsage(length, length))


def cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    second = second / np.linalg.norm(second, axis=1, keepdims=True)
    return np.einsum("ij,ij->i", first, second)


def test_token_ids_and_vectors_are_those_of_transformers(encoder, reference):
    for text in TEXTS:
        expected = reference.tokenizer(text).input_ids
        tokenized = encoder.tokenize(text, TextRole.DOCUMENT, truncate=False)
        assert tokenized.token_ids.tolist() == expected
        assert tokenized.usage == TokenUsage(len(expected), len(expected))
        vectors = encoder.encode([tokenized]).vectors
        assert cosines(vectors, reference.state(expected)[None])[0] >= 0.9999
        assert np.linalg.norm(vectors[0]) == pytest.approx(1.0, abs=1e-5)


def test_a_batch_of_every_length_is_transformers_text_by_text(encoder, reference):
    lengths = [600, 1, 17, 2, 3, 599, 5, 128, 64, 63, 65, 1, 300, 31, 32, 33]
    batch = [of_length(length, seed) for seed, length in enumerate(lengths)]
    expected = np.stack([reference.state(text.token_ids) for text in batch])
    assert cosines(encoder.encode(batch).vectors, expected).min() >= 0.9999


def test_order_batch_and_repetition_change_nothing(encoder):
    batch = [of_length(length) for length in (1, 600, 2, 40, 40, 7, 333, 16)]
    vectors = encoder.encode(batch).vectors
    singles = np.concatenate([encoder.encode([text]).vectors for text in batch])
    turned = encoder.encode(batch[::-1]).vectors[::-1]
    for other in (singles, turned, encoder.encode(batch).vectors):
        assert cosines(vectors, other).min() >= 0.9999


@pytest.mark.parametrize("pass_tokens", [1, 37, 5_000])
def test_where_passes_are_cut_changes_nothing(folder, encoder, pass_tokens):
    batch = [of_length(length) for length in (9, 30, 1, 64, 12, 100)]
    cut = Qwen3Encoder(cpu(folder, pass_tokens=pass_tokens))
    assert cosines(encoder.encode(batch).vectors, cut.encode(batch).vectors).min() >= 0.9999


def test_vectors_are_those_of_sentence_transformers(folder, encoder):
    library = pytest.importorskip("sentence_transformers")
    parts = pytest.importorskip("sentence_transformers.models")
    transformer = parts.Transformer(str(folder))
    peer = library.SentenceTransformer(
        modules=[transformer, parts.Pooling(64, pooling_mode="lasttoken"), parts.Normalize()], device="cpu"
    )
    texts = [*TEXTS, "memory " * 250]
    expected = peer.encode(texts, prompt=encoder.card.query_prompt.removesuffix("{text}"))
    assert cosines(embed(encoder, texts, TextRole.QUERY), expected).min() >= 0.9999


def test_only_queries_are_prompted(encoder, reference):
    text = "trip to Pune {text}"
    query = encoder.tokenize(text, TextRole.QUERY, truncate=False).token_ids
    other = encoder.tokenize(text, TextRole.QUERY, truncate=False, instruction="Find {text} songs").token_ids
    document = encoder.tokenize(text, TextRole.DOCUMENT, truncate=False).token_ids
    decode = reference.tokenizer.decode
    assert decode(query) == f"Instruct: {WEB_SEARCH_INSTRUCTION}\nQuery:{text}<|endoftext|>"
    assert decode(other) == f"Instruct: Find {{text}} songs\nQuery:{text}<|endoftext|>"
    assert decode(document) == f"{text}<|endoftext|>"


def test_the_instruction_is_a_setting_and_part_of_the_fingerprint(folder, encoder, reference):
    told = Qwen3Encoder(cpu(folder, max_tokens=LIMIT, instruction="Find what the caller said before"))
    tokenized = told.tokenize("Pune", TextRole.QUERY, truncate=False)
    expected = "Instruct: Find what the caller said before\nQuery:Pune<|endoftext|>"
    assert reference.tokenizer.decode(tokenized.token_ids) == expected
    assert told.card.fingerprint != encoder.card.fingerprint


def test_a_tokenizer_that_does_not_close_texts_is_helped(folder, encoder, tmp_path):
    for file in ("config.json", "model.safetensors"):
        (tmp_path / file).symlink_to(folder / file)
    (tmp_path / "tokenizer.json").write_text(qwen_tokenizer_json(closing=False), encoding="utf-8")
    helped = Qwen3Encoder(cpu(tmp_path, max_tokens=LIMIT))
    for text in TEXTS:
        expected = encoder.tokenize(text, TextRole.DOCUMENT, truncate=False).token_ids.tolist()
        assert helped.tokenize(text, TextRole.DOCUMENT, truncate=False).token_ids.tolist() == expected


def test_a_dimension_is_cut_before_it_is_normalised(folder, encoder, reference):
    short = Qwen3Encoder(cpu(folder, dimension=32))
    tokenized = [short.tokenize(text, TextRole.DOCUMENT, truncate=False) for text in TEXTS]
    vectors = short.encode(tokenized).vectors
    expected = np.stack([reference.state(text.token_ids)[:32] for text in tokenized])
    assert vectors.shape == (len(TEXTS), 32) and short.card.dimension == 32
    assert cosines(vectors, expected).min() >= 0.9999
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-5)
    assert short.card.matryoshka_dimensions == (32,)
    assert encoder.card.matryoshka_dimensions == tuple(range(32, 65))
    assert short.card.fingerprint != encoder.card.fingerprint


@pytest.mark.parametrize("length", [LIMIT - 1, LIMIT, LIMIT + 1, 10 * LIMIT])
def test_lengths_around_the_limit(encoder, length):
    text = "memory " * (length - 2) + "memory"  # one token a word, and the closing one
    if length <= LIMIT:
        tokenized = encoder.tokenize(text, TextRole.DOCUMENT, truncate=False)
        assert tokenized.usage == TokenUsage(length, length)
    else:
        with pytest.raises(TextTooLong) as refusal:
            encoder.tokenize(text, TextRole.DOCUMENT, truncate=False)
        assert refusal.value.metadata == {"tokens": str(length), "limit": str(LIMIT)}
        tokenized = encoder.tokenize(text, TextRole.DOCUMENT, truncate=True)
        assert tokenized.usage == TokenUsage(length, LIMIT) and tokenized.usage.truncated
    assert encoder.encode([tokenized]).errors == {}


def test_truncation_keeps_the_beginning_and_the_closing_token(encoder, reference):
    text = " ".join(f"word{number}" for number in range(LIMIT))
    expected = reference.tokenizer(text, truncation=True, max_length=LIMIT).input_ids
    tokenized = encoder.tokenize(text, TextRole.DOCUMENT, truncate=True)
    assert tokenized.token_ids.tolist() == expected


@pytest.mark.parametrize(
    ("text", "reason"), [("", "empty"), (" \n\t", "empty"), ("lone \ud83d", "surrogate")]
)
def test_texts_with_nothing_to_embed(encoder, text, reason):
    with pytest.raises(InvalidInput, match=reason):
        encoder.tokenize(text, TextRole.QUERY, truncate=True)


def test_an_empty_batch(encoder):
    with pytest.raises(InvalidInput, match="at least one text"):
        encoder.encode([])


def test_not_a_number_fails_its_own_row_alone(folder, tmp_path, encoder):
    from safetensors.torch import load_file, save_file

    for file in ("config.json", "tokenizer.json"):
        (tmp_path / file).symlink_to(folder / file)
    weights = load_file(folder / "model.safetensors")
    poison = encoder.tokenize("peanut", TextRole.DOCUMENT, truncate=False).token_ids[0]
    weights["embed_tokens.weight"][poison] = float("nan")
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    broken = Qwen3Encoder(cpu(tmp_path))
    texts = ["a walk", "peanut butter", "the long way home", "one peanut"]
    encoded = broken.encode([broken.tokenize(text, TextRole.DOCUMENT, truncate=False) for text in texts])
    assert list(encoded.errors) == [1]
    assert isinstance(encoded.errors[1], NumericsError) and not encoded.vectors[1].any()
    assert cosines(encoded.vectors[[0, 2, 3]], embed(encoder, texts)[[0, 2, 3]]).min() >= 0.9999


def test_published_bfloat16_stays_near_float32(folder, encoder):
    half = Qwen3Encoder(cpu(folder, dtype="bfloat16"))
    batch = [of_length(length) for length in (3, 50, 200)]
    vectors = half.encode(batch).vectors
    singles = np.concatenate([half.encode([text]).vectors for text in batch])
    assert vectors.dtype == np.float32
    assert cosines(vectors, encoder.encode(batch).vectors).min() >= 0.999
    assert cosines(vectors, singles).min() >= 0.9999


def test_the_numerics_guard_passes(encoder):
    NumericsGuard(encoder).check()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"dimension": 128}, "more than the 64"),
        ({"max_tokens": 40_000}, "more than the 32768"),
        ({"device": "cuda:31"}, "GPUs"),
        ({"device": "abacus"}, "auto, cpu or cuda"),
    ],
)
def test_settings_that_the_model_or_the_machine_cannot_meet(folder, changes, says):
    with pytest.raises(ConfigurationError, match=says):
        Qwen3Encoder(Qwen3EncoderSettings(**({"model": folder, "device": "cpu"} | changes)))


@pytest.mark.parametrize(
    "changes",
    [
        {"dimension": 31},
        {"max_tokens": 0},
        {"pass_tokens": -1},
        {"dtype": "int8"},
        {"instruction": " "},
        {"instruction": "Find {text}"},
    ],
)
def test_settings_that_make_no_sense(changes):
    with pytest.raises(ConfigurationError):
        Qwen3EncoderSettings(**changes)
