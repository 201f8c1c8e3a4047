"""The contract of an encoder, on the real ``AsyncLLM``. One engine serves all tests; the last one ends it."""

import asyncio
import multiprocessing
import os
import signal
import threading

import numpy as np
import pytest
from numpy.typing import NDArray

from precall.engine.batching.batcher import Batcher
from precall.engine.batching.work import WorkClass
from precall.engine.encoding.encoder import Encoder, TextRole, TokenizedText
from precall.engine.encoding.guard import MINIMUM_AGREEMENT, NumericsGuard
from precall.engine.errors import InvalidInput, ModelUnavailable, NumericsError, TextTooLong
from tests.vllm.conftest import LIMIT, POISON, EncoderPair, skip_module_without_vllm

skip_module_without_vllm()

WORDS = (
    "the",
    "plan",
    "for",
    "a",
    "trip",
    "to",
    "Pune",
    "was",
    "changed",
    "by",
    "Dana",
    "and",
    "her",
    "brother",
)


def text_of(words: int) -> str:
    return " ".join(WORDS[(words * 7 + position) % len(WORDS)] for position in range(words))


def tokenized(encoder: Encoder, *texts: str, role: TextRole = TextRole.DOCUMENT) -> list[TokenizedText]:
    return [encoder.tokenize(text, role, truncate=False) for text in texts]


def text_of_tokens(encoder: Encoder, tokens: int) -> str:
    """A document of exactly so many tokens, the closing one counted."""
    text = " a" * (tokens - 1)
    assert encoder.tokenize(text, TextRole.DOCUMENT, truncate=True).usage.given == tokens
    return text


def agreement(first: NDArray[np.float32], second: NDArray[np.float32]) -> float:
    return float(np.einsum("ij,ij->i", first, second).min())


def test_card_and_tokens_are_those_of_the_torch_path(encoders: EncoderPair) -> None:
    assert encoders.vllm.card == encoders.torch.card
    assert encoders.vllm.card.fingerprint == encoders.torch.card.fingerprint
    for role in TextRole:
        ours = encoders.vllm.tokenize("When did she move?", role, truncate=False)
        theirs = encoders.torch.tokenize("When did she move?", role, truncate=False)
        assert ours.token_ids.tolist() == theirs.token_ids.tolist() and ours.usage == theirs.usage


def test_vectors_are_those_of_the_torch_path_in_every_mix_of_lengths(encoders: EncoderPair) -> None:
    lengths = [1, 2, 5, 17, 31, 33, 60, 64, 120, 190, 200, 400]
    order = np.random.default_rng(7).permutation(len(lengths)).tolist()
    texts = tokenized(encoders.torch, *(text_of(lengths[position]) for position in order))
    batch = encoders.vllm.encode(texts)
    singles = np.concatenate([encoders.vllm.encode([text]).vectors for text in texts])
    expected = encoders.torch.encode(texts)
    assert not batch.errors and not expected.errors
    assert batch.vectors.dtype == np.float32 and batch.vectors.shape == (len(texts), 48)
    assert agreement(batch.vectors, expected.vectors) >= MINIMUM_AGREEMENT
    assert agreement(singles, batch.vectors) >= MINIMUM_AGREEMENT
    assert agreement(encoders.vllm.encode(texts).vectors, batch.vectors) >= MINIMUM_AGREEMENT


def test_a_prompted_query_is_that_of_the_torch_path(encoders: EncoderPair) -> None:
    query = tokenized(encoders.vllm, "When did she move to Pune?", role=TextRole.QUERY)
    assert agreement(encoders.vllm.encode(query).vectors, encoders.torch.encode(query).vectors) > 0.9999


def test_the_numerics_guard_passes(encoders: EncoderPair) -> None:
    NumericsGuard(encoders.vllm).check()


def test_a_batch_far_over_one_pass_comes_back_in_order(encoders: EncoderPair) -> None:
    texts = tokenized(encoders.vllm, *(text_of(1 + number % 40) + f" {number}" for number in range(200)))
    encoded = encoders.vllm.encode(texts)
    assert not encoded.errors
    assert agreement(encoded.vectors, encoders.torch.encode(texts).vectors) >= MINIMUM_AGREEMENT


@pytest.mark.parametrize("tokens", [LIMIT - 1, LIMIT])
def test_a_text_up_to_the_limit_is_whole(encoders: EncoderPair, tokens: int) -> None:
    texts = tokenized(encoders.vllm, text_of_tokens(encoders.vllm, tokens), "short")
    encoded = encoders.vllm.encode(texts)
    assert not encoded.errors and not texts[0].usage.truncated
    assert agreement(encoded.vectors, encoders.torch.encode(texts).vectors) >= MINIMUM_AGREEMENT


@pytest.mark.parametrize("tokens", [LIMIT + 1, 10 * LIMIT])
def test_a_text_over_the_limit_is_refused_and_cut_only_when_asked(encoders: EncoderPair, tokens: int) -> None:
    text = text_of_tokens(encoders.vllm, tokens)
    with pytest.raises(TextTooLong) as caught:
        encoders.vllm.tokenize(text, TextRole.DOCUMENT, truncate=False)
    assert caught.value.metadata == {"tokens": str(tokens), "limit": str(LIMIT)}
    cut = encoders.vllm.tokenize(text, TextRole.DOCUMENT, truncate=True)
    assert (cut.usage.given, cut.usage.used) == (tokens, LIMIT)
    assert agreement(encoders.vllm.encode([cut]).vectors, encoders.torch.encode([cut]).vectors) > 0.9999


def test_nan_fails_its_own_text_and_leaves_no_trace(encoders: EncoderPair) -> None:
    sound = tokenized(encoders.vllm, "before", text_of(60), "after")
    short, long = tokenized(encoders.vllm, f"x {POISON} y", text_of(80) + POISON + text_of(80))
    expected = encoders.torch.encode(sound).vectors
    for _ in range(3):
        encoded = encoders.vllm.encode([sound[0], short, sound[1], long, sound[2]])
        assert sorted(encoded.errors) == [1, 3]
        assert all(isinstance(error, NumericsError) for error in encoded.errors.values())
        assert not encoded.vectors[[1, 3]].any()
        assert agreement(encoded.vectors[[0, 2, 4]], expected) >= MINIMUM_AGREEMENT
    again = encoders.vllm.encode(sound)
    assert not again.errors and agreement(again.vectors, expected) >= MINIMUM_AGREEMENT


@pytest.mark.parametrize("text", ["", "  \n", "\ud800"])
def test_a_text_with_nothing_to_embed_is_refused(encoders: EncoderPair, text: str) -> None:
    with pytest.raises(InvalidInput):
        encoders.vllm.tokenize(text, TextRole.DOCUMENT, truncate=False)


async def test_a_killed_engine_fails_its_batch_and_comes_back(encoders: EncoderPair) -> None:
    batcher = Batcher(encoders.vllm)
    await batcher.start()
    assert batcher.healthy
    async with asyncio.timeout(240):
        expected = await embed(batcher)
        (engine,) = (child for child in multiprocessing.active_children() if child.pid is not None)
        assert engine.pid is not None
        os.kill(engine.pid, signal.SIGKILL)
        with pytest.raises(ModelUnavailable):
            await embed(batcher)
        assert not batcher.healthy
        with pytest.raises(ModelUnavailable, match="being started again"):
            await batcher.probe()
        for thread in threading.enumerate():
            if thread.name == "precall-vllm-start":
                await asyncio.to_thread(thread.join)
        await batcher.probe()
        assert batcher.healthy
        assert float(await embed(batcher) @ expected) >= MINIMUM_AGREEMENT
        await batcher.close()


async def embed(batcher: Batcher) -> NDArray[np.float32]:
    return await batcher.embed_one(
        "Dana moved to Pune.", TextRole.DOCUMENT, tenant="acme", work_class=WorkClass.INGEST
    )


def test_closing_ends_every_process(encoders: EncoderPair) -> None:
    """Stands last: the engine is gone afterwards."""
    import psutil

    family = psutil.Process().children(recursive=True)
    engine = [process for process in family if "VLLM" in process.name()]
    assert engine
    encoders.vllm.close()
    assert not multiprocessing.active_children()
    _, alive = psutil.wait_procs(engine, timeout=10)
    assert not alive
    with pytest.raises(ModelUnavailable, match="closed"):
        encoders.vllm.encode(tokenized(encoders.vllm, "too late"))


def test_nothing_was_written_to_standard_output(encoders: EncoderPair) -> None:
    assert encoders.written.read_text() == ""
