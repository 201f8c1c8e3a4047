"""The published Qwen3-Embedding-0.6B against vectors that another implementation made of it.

Runs where the weights are: in the folder that PRECALL_QWEN3_DIR names, or in the hub's cache.
"""

import os
from pathlib import Path

import numpy as np
import pytest

from precall.engine.encoding.encoder import TextRole
from precall.engine.encoding.qwen3 import Qwen3Encoder
from precall.engine.encoding.qwen3_files import find_qwen3
from precall.engine.encoding.qwen3_settings import EMBEDDING_MODEL, Qwen3EncoderSettings
from precall.engine.errors import ModelUnavailable

TEXTS = ["What is Deep Learning?", "Deep Learning is...", "What is Deep Learning?"]
AGREEMENT = 0.999
"""What text-embeddings-inference asks of itself on these vectors."""


def read_snapshot(path: Path) -> np.ndarray:
    """Vectors of an insta snapshot: a header between ``---``, then lists of lists, a number a line."""
    rows: list[list[float]] = []
    for line in path.read_text(encoding="utf-8").split("---\n", 2)[2].splitlines():
        if line.startswith("- - "):
            rows.append([])
        rows[-1].append(float(line.split()[-1]))
    vectors = np.array(rows, dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def snapshots(shared_data: Path) -> Path:
    return shared_data / "tei_qwen3"


@pytest.fixture(scope="module")
def encoder() -> Qwen3Encoder:
    settings = Qwen3EncoderSettings(model=os.environ.get("PRECALL_QWEN3_DIR", EMBEDDING_MODEL))
    try:
        find_qwen3(settings)
    except ModelUnavailable as missing:
        pytest.skip(
            f"needs the weights of {EMBEDDING_MODEL} (PRECALL_QWEN3_DIR or hub cache): {missing.message}"
        )
    return Qwen3Encoder(settings)


def test_the_snapshots_are_understood(snapshots):
    vectors = read_snapshot(snapshots / "test_qwen3__qwen3_cpu_batch.snap")
    assert vectors.shape == (3, 1024)
    assert float(vectors[0] @ vectors[1]) == pytest.approx(0.9029, abs=1e-4)


@pytest.mark.parametrize("made_on", ["test_qwen3__qwen3_cpu", "test_flash_qwen3__qwen3"])
def test_vectors_are_those_of_the_published_weights(encoder, snapshots, made_on):
    tokenized = [encoder.tokenize(text, TextRole.DOCUMENT, truncate=False) for text in TEXTS]
    batch = encoder.encode(tokenized).vectors
    single = encoder.encode(tokenized[:1]).vectors
    expected = read_snapshot(snapshots / f"{made_on}_batch.snap")
    assert np.einsum("ij,ij->i", batch, expected).min() >= AGREEMENT
    assert (single @ read_snapshot(snapshots / f"{made_on}_single.snap").T).min() >= AGREEMENT
