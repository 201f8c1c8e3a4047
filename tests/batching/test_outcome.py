"""Cutting a vector, and what a request's stages add up to."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precall.engine.batching.outcome import SHORTEST_PREFIX, EmbeddingOutcome, EmbeddingTimes
from precall.engine.encoding.encoder import TokenUsage
from precall.engine.errors import InvalidInput, NumericsError


def outcome_of(vector: np.ndarray) -> EmbeddingOutcome:
    unit = (vector / np.linalg.norm(vector)).astype(np.float32)
    return EmbeddingOutcome(unit, None, TokenUsage(3, 3), 0.1, 0.2, 0.3)


@given(st.integers(0, 2**32), st.integers(1, 64), st.integers(65, 128))
def test_a_cut_vector_is_a_unit_vector_that_points_where_the_prefix_does(
    seed: int, dimension: int, whole: int
) -> None:
    outcome = outcome_of(np.random.default_rng(seed).standard_normal(whole))
    cut = outcome.cut_to(dimension)
    vector = cut.require_vector()
    assert vector.shape == (dimension,) and vector.dtype == np.float32 and not vector.flags.writeable
    assert abs(float(np.linalg.norm(vector)) - 1.0) < 1e-5
    prefix = outcome.require_vector()[:dimension]
    assert float(prefix @ vector) == pytest.approx(float(np.linalg.norm(prefix)), rel=1e-5)
    assert (cut.usage, cut.tokenize_seconds, cut.queue_seconds, cut.device_seconds) == (
        *(outcome.usage, outcome.tokenize_seconds),
        *(outcome.queue_seconds, outcome.device_seconds),
    )


@pytest.mark.parametrize("share", [0.0, 1e-30, SHORTEST_PREFIX / 2])
def test_a_prefix_of_nothing_is_an_error(share: float) -> None:
    cut = outcome_of(np.array([share, 0.0, 1.0, 0.0])).cut_to(2)
    assert cut.vector is None and isinstance(cut.error, NumericsError)
    assert "larger dimension" in cut.error.message and cut.usage == TokenUsage(3, 3)


def test_a_failed_text_and_an_uncut_vector_stay_what_they_are() -> None:
    failed = EmbeddingOutcome(None, InvalidInput("empty"), None)
    assert failed.cut_to(2) is failed
    whole = outcome_of(np.ones(4))
    assert whole.cut_to(4) is whole


def test_texts_are_read_one_after_the_other_and_wait_and_run_together() -> None:
    outcomes = [
        EmbeddingOutcome(None, None, None, 1.0, 2.0, 5.0),
        EmbeddingOutcome(None, None, None, 3.0, 4.0, 1.0),
    ]
    assert EmbeddingTimes.of(outcomes) == EmbeddingTimes(4.0, 4.0, 5.0)
    assert EmbeddingTimes.of([]) == EmbeddingTimes(0.0, 0.0, 0.0)
