"""Vectors and scores beside transformers, alone and in batches: for any device."""

import numpy as np

from precall.bench.gpu_contract_models import (
    POISONED_TOKEN,
    SAME_PAIR,
    SAME_TEXT,
    TOLERANCES,
    ContractModels,
    encode,
    least_cosine,
    most_difference,
)
from precall.bench.gpu_model import random_texts
from precall.bench.gpu_reference import TransformersQwen3
from precall.engine.encoding.guard import NumericsGuard, RerankerGuard
from precall.engine.encoding.qwen3 import Qwen3Encoder
from precall.engine.errors import NumericsError

QUERY = "what may dana never eat"
DOCUMENTS = ("peanuts", "a", "the kettle is broken again " * 12, "dana has a bad allergy", "fish " * 60)


def check_vectors_are_those_of_transformers(models: ContractModels, dtype: str) -> str:
    vectors = encode(models.encoder(dtype), models.mixed_texts()).vectors
    return least_cosine(vectors, models.exact_vectors(), TOLERANCES[dtype].cosine)


def check_batch_is_single_is_repeat(models: ContractModels, dtype: str) -> str:
    """Small batches too, which a GPU replays, and where texts could see their neighbours."""
    encoder = models.encoder(dtype)
    said = []
    for lengths in ([1, 3], [5, 1, 17, 60, 33, 2, 8], [200, 212, 90], [1] * 20, [16]):
        texts = random_texts(lengths, seed=len(lengths))
        singles = np.concatenate([encode(encoder, [text]).vectors for text in texts])
        batch = encode(encoder, texts).vectors
        said.append(least_cosine(batch, singles, SAME_TEXT))
        said.append(least_cosine(batch, encode(encoder, texts).vectors, SAME_TEXT))
        turned = encode(encoder, texts[::-1]).vectors[::-1]
        said.append(least_cosine(batch, turned, SAME_TEXT))
    texts = models.mixed_texts()
    singles = np.concatenate([encode(encoder, [text]).vectors for text in texts])
    said.append(least_cosine(encode(encoder, texts).vectors, singles, SAME_TEXT))
    return min(said)


def check_passes_back_to_back(models: ContractModels, dtype: str) -> str:
    """Many small passes, one copied to the device as soon as the one before it has answered."""
    cut = Qwen3Encoder(models.encoder_settings(dtype, pass_tokens=64))
    lengths = np.random.default_rng(3).integers(1, 64, 60).tolist()
    texts = random_texts(lengths, seed=5)
    return least_cosine(encode(cut, texts).vectors, encode(models.encoder(dtype), texts).vectors, SAME_TEXT)


def check_a_dimension_is_cut_then_normalised(models: ContractModels, dtype: str) -> str:
    short = Qwen3Encoder(models.encoder_settings(dtype, dimension=32))
    texts = models.mixed_texts()
    vectors = encode(short, texts).vectors
    expected = models.exact_vectors()[:, :32]
    lengths = np.linalg.norm(vectors, axis=1)
    assert vectors.shape == (len(texts), 32) and np.abs(lengths - 1.0).max() < 1e-5, lengths
    expected = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    return least_cosine(vectors, expected, TOLERANCES[dtype].cosine)


def check_not_a_number_fails_alone(models: ContractModels, dtype: str) -> str:
    broken = Qwen3Encoder(models.encoder_settings(dtype, model=models.poisoned))
    worst = []
    for lengths in ([8, 20, 9, 1], [300, 160, 150, 20]):  # the first batch is one that a GPU replays
        texts = random_texts(lengths, seed=11, vocabulary=POISONED_TOKEN)
        texts = [texts[0], np.concatenate([texts[1], [POISONED_TOKEN], texts[1]]), *texts[2:]]
        encoded = encode(broken, texts)
        assert list(encoded.errors) == [1] and isinstance(encoded.errors[1], NumericsError), encoded.errors
        assert not encoded.vectors[1].any()
        sound = encode(models.encoder(dtype), texts).vectors
        worst.append(least_cosine(encoded.vectors[[0, 2, 3]], sound[[0, 2, 3]], SAME_TEXT))
    return min(worst)


def check_scores_are_those_of_transformers(models: ContractModels, dtype: str) -> str:
    reranker = models.reranker(dtype)
    pairs = [reranker.tokenize(QUERY, document, truncate=True) for document in DOCUMENTS]
    reference = TransformersQwen3(models.reranking, models.placement("float32"), reranker=True)
    answers = [vocabulary_id(models, token) for token in ("no", "yes")]
    expected = reference.yes_probabilities([pair.token_ids for pair in pairs], answers)
    batch = reranker.score(pairs)
    assert batch.errors == {}, batch.errors
    singles = np.concatenate([reranker.score([pair]).scores for pair in pairs])
    most_difference(batch.scores, singles, SAME_PAIR[dtype])
    most_difference(batch.scores, reranker.score(pairs).scores, SAME_PAIR[dtype])
    assert np.ptp(expected) > 0.05, f"the pairs are too much alike to tell anything: {expected}"
    return most_difference(batch.scores, expected, TOLERANCES[dtype].score)


def check_the_guards_pass(models: ContractModels, dtype: str) -> str:
    NumericsGuard(models.encoder(dtype)).check()
    RerankerGuard(models.reranker(dtype)).check()
    return "the checks that a server makes at its start"


def vocabulary_id(models: ContractModels, token: str) -> int:
    from tokenizers import Tokenizer

    number = Tokenizer.from_file(str(models.reranking / "tokenizer.json")).token_to_id(token)
    assert number is not None
    return int(number)
