import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from precall.engine.encoding.background import NICENESS
from precall.engine.encoding.encoder import TextRole, TokenizedText
from precall.engine.encoding.exported import ExportedEncoder
from precall.engine.encoding.loading import LoadedEncoder
from precall.engine.encoding.minilm import CARD
from precall.engine.encoding.onnx_encoder import OnnxEncoder
from precall.engine.encoding.padded_texts import padded_passes
from precall.engine.errors import (
    ConfigurationError,
    InvalidInput,
    ModelUnavailable,
    NotSupported,
    NumericsError,
    TextTooLong,
)

LIMIT = CARD.max_tokens
GOLDEN_VECTOR_HEAD = [-0.035927, -0.038884, -0.001974, 0.066746]


@pytest.fixture(scope="module")
def encoder(loaded: LoadedEncoder) -> OnnxEncoder:
    return loaded.encoder


def words(tokens: int) -> str:
    """A text of exactly ``tokens`` tokens, the two special ones included."""
    return " ".join(["memory"] * (tokens - 2))


def tokenized(encoder: OnnxEncoder, *texts: str) -> list[TokenizedText]:
    return [encoder.tokenize(text, TextRole.DOCUMENT, truncate=False) for text in texts]


class PoisonedSession:
    """Runs the real session, then spoils the rows whose first word is in ``poison``."""

    def __init__(self, encoder: OnnxEncoder, poison: dict[int, float]) -> None:
        self._session = encoder._session
        self._poison = poison

    def run(self, names: list[str], inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        (vectors,) = self._session.run(names, inputs)
        for row, first_word in enumerate(inputs["input_ids"][:, 1].tolist()):
            if first_word in self._poison:
                vectors[row] *= self._poison[first_word]
        return [vectors]


@pytest.mark.parametrize("tokens", [3, LIMIT - 1, LIMIT])
def test_a_text_up_to_the_limit_is_embedded(encoder: OnnxEncoder, tokens: int) -> None:
    (text,) = tokenized(encoder, words(tokens))
    assert (text.usage.given, text.usage.used, text.usage.truncated) == (tokens, tokens, False)
    encoded = encoder.encode([text])
    assert encoded.vectors.shape == (1, 384)
    assert not encoded.errors


@pytest.mark.parametrize("tokens", [LIMIT + 1, 10 * LIMIT])
def test_a_text_over_the_limit_is_refused_with_both_counts(encoder: OnnxEncoder, tokens: int) -> None:
    with pytest.raises(TextTooLong) as caught:
        tokenized(encoder, words(tokens))
    assert caught.value.metadata == {"tokens": str(tokens), "limit": str(LIMIT)}


@pytest.mark.parametrize("tokens", [LIMIT + 1, 10 * LIMIT])
def test_truncation_is_said_so_with_both_counts(encoder: OnnxEncoder, tokens: int) -> None:
    text = encoder.tokenize(words(tokens), TextRole.DOCUMENT, truncate=True)
    assert (text.usage.given, text.usage.used, text.usage.truncated) == (tokens, LIMIT, True)
    (whole,) = tokenized(encoder, words(LIMIT))
    assert np.array_equal(text.token_ids, whole.token_ids)
    assert not encoder.encode([text]).errors


@pytest.mark.parametrize("text", ["", " ", "\n\t ", "\u200b\u200b", "\x00\x01"])
def test_a_text_with_nothing_in_it_is_refused(encoder: OnnxEncoder, text: str) -> None:
    with pytest.raises(InvalidInput, match="leave it out"):
        tokenized(encoder, text)


def test_a_lone_surrogate_is_refused(encoder: OnnxEncoder) -> None:
    with pytest.raises(InvalidInput, match="surrogate"):
        tokenized(encoder, "half an emoji: \ud83d")


def test_an_empty_batch_is_refused(encoder: OnnxEncoder) -> None:
    with pytest.raises(InvalidInput):
        encoder.encode([])


def test_vectors_equal_those_of_sentence_transformers(encoder: OnnxEncoder, loaded: LoadedEncoder) -> None:
    """Golden values, from sentence-transformers 6.2 on torch 2.13: the first four of the vector."""
    (vector,) = encoder.encode(tokenized(encoder, "Dana is allergic to peanuts.")).vectors
    assert vector[:4] == pytest.approx(GOLDEN_VECTOR_HEAD, abs=1e-4)


def test_batch_equals_single_equals_repeat_in_a_mix_of_lengths(encoder: OnnxEncoder) -> None:
    texts = tokenized(
        encoder, *(f"{number} {words(2 + size)}" for number, size in enumerate([1, 200, 9, 40, 1, 90, 3]))
    )
    singles = np.concatenate([encoder.encode([text]).vectors for text in texts])
    batch = encoder.encode(texts).vectors
    assert np.einsum("ij,ij->i", singles, batch).min() >= 0.9999
    assert np.array_equal(batch, encoder.encode(texts).vectors)


def test_a_nan_row_fails_alone(encoder: OnnxEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = tokenized(encoder, "one apple", "two pears", "three plums", "four figs")
    clean = encoder.encode(texts).vectors
    two, three = int(texts[1].token_ids[1]), int(texts[2].token_ids[1])
    monkeypatch.setattr(encoder, "_session", PoisonedSession(encoder, {two: float("nan"), three: 0.0}))

    encoded = encoder.encode(texts)

    assert sorted(encoded.errors) == [1, 2]
    assert all(isinstance(error, NumericsError) for error in encoded.errors.values())
    assert not encoded.vectors[[1, 2]].any()
    assert np.allclose(encoded.vectors[[0, 3]], clean[[0, 3]], atol=1e-5)


def test_a_runtime_that_fails_is_a_typed_error(encoder: OnnxEncoder) -> None:
    (text,) = tokenized(encoder, "fine")
    out_of_vocabulary = TokenizedText(np.array([101, 10**6, 102]), text.usage)
    with pytest.raises(ModelUnavailable):
        encoder.encode([out_of_vocabulary])
    assert not encoder.encode([text]).errors


def test_threads_may_share_it(encoder: OnnxEncoder) -> None:
    texts = tokenized(encoder, *(f"{number} {words(number)}" for number in range(3, 19)))
    expected = encoder.encode(texts).vectors
    with ThreadPoolExecutor(4) as pool:
        got = np.concatenate(list(pool.map(lambda text: encoder.encode([text]).vectors, texts)))
    assert np.einsum("ij,ij->i", expected, got).min() >= 0.9999


def test_files_that_are_no_encoder_are_refused(
    loaded: LoadedEncoder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("broken")
    (folder / "encoder.onnx").write_bytes(b"not a graph")
    with pytest.raises(ModelUnavailable, match="delete that folder"):
        OnnxEncoder(ExportedEncoder(folder, ()), CARD)


def test_no_threads_is_a_setting_error(loaded: LoadedEncoder) -> None:
    with pytest.raises(ConfigurationError, match="at least 1, not 0"):
        OnnxEncoder(loaded.exported, CARD, threads=0)


@given(st.lists(st.integers(1, 300), min_size=1, max_size=60))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_passes_cover_every_row_once_within_the_budget(lengths: list[int]) -> None:
    passes = padded_passes(lengths)
    assert sorted(row for rows in passes for row in rows) == list(range(len(lengths)))
    for rows in passes:
        assert len(rows) == 1 or len(rows) * max(lengths[row] for row in rows) <= 512


def test_a_long_text_leaves_other_threads_their_turn(encoder: OnnxEncoder) -> None:
    """A tokenizer that keeps the global lock stalls the event loop, and with it every tenant's calls."""
    turns = 0
    done = threading.Event()

    def count() -> None:
        nonlocal turns
        while not done.wait(0.001):
            turns += 1

    other = threading.Thread(target=count)
    other.start()
    text = encoder.tokenize("\u6f22" * 100_000, TextRole.DOCUMENT, truncate=True)
    counted = turns
    done.set()
    other.join()
    assert (text.usage.given, text.usage.used) == (100_002, LIMIT)
    assert counted >= 5


@pytest.mark.parametrize("role", list(TextRole))
def test_it_takes_no_instruction_and_says_so(encoder: OnnxEncoder, role: TextRole) -> None:
    with pytest.raises(NotSupported, match="leave it unset"):
        encoder.tokenize("text", role, truncate=True, instruction="Find songs")


def test_the_background_worker_gives_the_same_vectors(encoder: OnnxEncoder) -> None:
    texts = tokenized(encoder, "Dana likes trains", words(LIMIT), "no peanuts")
    background = encoder.for_background()
    try:
        np.testing.assert_array_equal(background.encode(texts).vectors, encoder.encode(texts).vectors)
        assert background.card == encoder.card
    finally:
        background.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux knows the priority of a single thread")
def test_the_background_worker_gives_way_and_its_caller_does_not(encoder: OnnxEncoder) -> None:
    def priorities() -> dict[int, int]:
        found = {}
        for task in [int(path.name) for path in Path("/proc/self/task").iterdir()]:
            with suppress(ProcessLookupError):  # a thread of an earlier test has ended meanwhile
                found[task] = os.getpriority(os.PRIO_PROCESS, task)
        return found

    own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    before = priorities()
    background = encoder.for_background()
    try:
        background.encode(tokenized(encoder, "text"))
        added = {task: nice for task, nice in priorities().items() if task not in before}
        assert added and all(nice == min(own + NICENESS, 19) for nice in added.values())
        assert {task: nice for task, nice in priorities().items() if task in before}.items() <= before.items()
    finally:
        background.close()


_OUT_OF_MEMORY = """
import os, resource
import numpy as np
from precall.engine.batching.failed_pass import failed_pass
from precall.engine.encoding.loading import load_default_encoder

encoder = load_default_encoder().encoder
texts = [np.full(256, 5, np.int64)] * 256
encoder._forward(texts[:1])
used = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
resource.setrlimit(resource.RLIMIT_AS, (used + 150_000_000, -1))
try:
    encoder._forward(texts)
except Exception as error:
    print(failed_pass(error, "256 texts").metadata)
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
print(encoder._forward(texts[:1]).shape)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits a process's address space")
def test_too_little_memory_is_told_as_such_and_the_next_pass_works(loaded: LoadedEncoder) -> None:
    """The runtime's own error, in a process of its own, whose memory is limited."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", _OUT_OF_MEMORY], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.splitlines() == ["{'cause': 'out_of_memory'}", "(1, 384)"]
