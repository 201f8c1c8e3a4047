import numpy as np
import pytest

from precall.scoring.vectors import FLOAT16, from_bytes, to_bytes, unit, widened


def test_bytes_round_trip() -> None:
    vectors = np.arange(6, dtype=np.float16).reshape(2, 3)
    assert (from_bytes(to_bytes(vectors, FLOAT16), count=2, dimension=3, dtype=FLOAT16) == vectors).all()


def test_a_wrong_length_names_both_lengths() -> None:
    with pytest.raises(ValueError, match="12 bytes, got 5"):
        from_bytes(b"12345", count=2, dimension=3, dtype=FLOAT16)


@pytest.mark.parametrize("values", [[0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0]])
def test_what_has_no_direction_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="zero or holds NaN"):
        unit(np.array(values))


def test_every_finite_float16_is_widened_exactly() -> None:
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)].reshape(-1, 8)
    assert np.array_equal(widened(finite).view(np.uint32), finite.astype(np.float32).view(np.uint32))
    assert widened(finite[::2, :4]).tolist() == finite[::2, :4].tolist()
    assert (np.abs(widened(every[~np.isfinite(every)])) >= 65_536).all()


def test_float32_is_not_copied() -> None:
    rows = np.ones((2, 3), np.float32)
    assert widened(rows) is rows
