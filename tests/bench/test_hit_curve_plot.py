import pytest

pytest.importorskip("matplotlib", reason="needs the bench extra")

from precall.bench.hit_curve_plot import CurvePoint, plot_hit_curve


def test_a_png_of_readable_size_is_written(tmp_path):
    import matplotlib.image

    path = tmp_path / "curve.png"
    spoken = [CurvePoint(256, 0.9, 0.01), CurvePoint(64, 0.5, 0.0)]
    plot_hit_curve(path, {"spoken": spoken, "typed": [CurvePoint(1024, 0.6, 0.01)]})
    picture = matplotlib.image.imread(path)
    assert picture.shape[0] > 600


def test_a_curve_without_points_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no point"):
        plot_hit_curve(tmp_path / "curve.png", {"spoken": []})
