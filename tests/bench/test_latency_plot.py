import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="needs the bench extra")

from precall.bench.latency_plot import INK, LINE, plot_latencies


def pixels_of(picture: np.ndarray, color: str) -> int:
    """How many pixels have exactly this colour, written as #rrggbb."""
    wanted = np.frombuffer(bytes.fromhex(color[1:]), dtype=np.uint8)
    return int((np.rint(picture[..., :3] * 255) == wanted).all(axis=-1).sum())


@pytest.mark.parametrize(
    "latencies",
    [
        {"cache": [1.0, 2.0, 3.0], "server": [45.0], "both": []},
        {"cache": [2.5]},
        {"cache": [0.002, 4_000.0], "elsewhere": [3.0]},
    ],
    ids=["sources", "one read", "six decades and an unknown source"],
)
def test_a_png_of_readable_size_is_written(tmp_path, latencies):
    import matplotlib.image

    path = tmp_path / "reads.png"
    plot_latencies(path, latencies, "Reads")
    picture = matplotlib.image.imread(path)
    assert picture.shape[0] > 600
    assert picture.shape[1] > 1000
    assert pixels_of(picture, INK) > 500
    assert pixels_of(picture, LINE) > 100


@pytest.mark.parametrize(
    ("latencies", "message"),
    [
        ({}, "no latency"),
        ({"cache": []}, "no latency"),
        ({"cache": [1.0, float("nan")]}, "finite and above 0"),
        ({"cache": [0.0]}, "finite and above 0"),
    ],
)
def test_what_cannot_be_drawn_is_refused_and_nothing_is_written(tmp_path, latencies, message):
    path = tmp_path / "reads.png"
    with pytest.raises(ValueError, match=message):
        plot_latencies(path, latencies, "Reads")
    assert not path.exists()
