import numpy as np
import pytest

from precall.engine.index.codes import CodeIndex
from precall.engine.index.quantizer import train
from tests.fakes.memories import clustered


@pytest.mark.parametrize("count", [100, 2_000])
def test_one_outlier_does_not_cost_the_others_their_resolution(count: int) -> None:
    vectors = clustered(count, 64, seed=1)
    clean = train(vectors)
    spoiled = train(np.concatenate([vectors, np.eye(64, dtype=np.float32)[:1]]))
    assert (spoiled.span <= clean.span * 1.4).all()
    index = CodeIndex(spoiled)
    index.add(vectors)
    errors = index.nearest(vectors[0], 1).errors
    assert float(np.median(errors)) < 0.02


def test_constant_dimensions_and_a_single_vector_can_be_trained_on() -> None:
    vector = np.eye(8, dtype=np.float32)[:1]
    index = CodeIndex(train(vector))
    index.add(vector)
    found = index.nearest(vector[0], 5)
    assert found.slots.tolist() == [0]
    assert float(found.cosines[0]) == pytest.approx(1.0, abs=1e-5)


def test_the_stated_error_bounds_the_real_one() -> None:
    vectors = np.concatenate([clustered(500, 64, seed=2), np.eye(64, dtype=np.float32)])
    index = CodeIndex(train(vectors[:500]))
    index.add(vectors)
    for query in clustered(30, 64, seed=3):
        found = index.nearest(query, len(vectors))
        exact = vectors @ query
        assert (np.abs(found.cosines - exact[found.slots]) <= found.errors[found.slots] + 1e-6).all()
        least, most = index.nearest(query, 20).bounds()
        relevant = np.clip(exact, 0, 1)
        assert (least <= relevant + 1e-6).all() and (relevant <= most + 1e-6).all()


def test_the_last_row_moves_into_the_hole() -> None:
    vectors = clustered(10, 64, seed=4)
    index = CodeIndex(train(vectors))
    index.add(vectors)
    index.remove(3)
    index.check_integrity(np.concatenate([vectors[:3], vectors[9:], vectors[4:9]]))
    index.remove(8)
    index.check_integrity(np.concatenate([vectors[:3], vectors[9:], vectors[4:8]]))
