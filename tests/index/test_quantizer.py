import numpy as np
import pytest

from precall.engine.index.quantizer import train
from tests.fakes.memories import clustered


@pytest.mark.parametrize("count", [100, 2_000])
def test_one_outlier_does_not_cost_the_others_their_resolution(count: int) -> None:
    vectors = clustered(count, 64, seed=1)
    clean = train(vectors)
    spoiled = train(np.concatenate([vectors, np.eye(64, dtype=np.float32)[:1]]))
    assert (spoiled.span <= clean.span * 1.4).all()


def test_constant_dimensions_and_a_single_vector_can_be_trained_on() -> None:
    ranges = train(np.eye(8, dtype=np.float32)[:1])
    assert (ranges.span > 0).all()
    assert (ranges.minimum <= np.eye(8)[0] + 1e-6).all()
