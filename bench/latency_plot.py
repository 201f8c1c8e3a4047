"""Draw the distribution of read latencies so that one look tells how many were fast enough."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PERCENTILES = (50, 75, 95, 99)
ALL_READS = "all reads"
INK, MUTED, GRID, LINE = "#1c2430", "#6b7684", "#e6e9ed", "#c8372d"
# Fixed by source, so that two plots can be laid side by side; others take the spare colours in turn.
SOURCE_COLORS = {"cache": "#1f77b4", "server": "#e08a1e", "both": "#7b5ea7"}
SPARE_COLORS = ("#2a9d8f", "#8c6d31", "#d1639b", "#5d7a2a")


def plot_latencies(
    path: Path, latencies_ms_by_source: Mapping[str, Sequence[float]], title: str, line_ms: float = 15.0
) -> None:
    """Write a PNG: one cumulative curve a source and one over all reads, with its percentiles marked.

    The x axis is logarithmic, in milliseconds; ``line_ms`` is drawn as the promise. Sources without reads are
    left out. Raises ValueError where there is no read at all, or a latency is not a finite number above 0.
    """
    latencies = {
        source: np.sort(np.asarray(values, dtype=np.float64))
        for source, values in latencies_ms_by_source.items()
        if len(values)
    }
    if not latencies:
        raise ValueError("there is no latency to plot")
    everything = np.sort(np.concatenate(list(latencies.values())))
    if not np.isfinite(everything).all() or everything[0] <= 0:
        raise ValueError("latencies must be finite and above 0 ms")

    # The object interface needs no display and leaves pyplot's global state alone.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.4), dpi=150, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    _prepare(axes, everything, line_ms)
    if len(latencies) > 1:
        _draw_sources(axes, latencies)
    _draw_all(axes, everything)
    _draw_promise(axes, everything, line_ms)
    axes.set_title(title, loc="left", fontsize=13, fontweight="bold", color=INK, pad=14)
    legend = axes.legend(loc="upper left", frameon=True, framealpha=0.92, edgecolor="none", fontsize=9)
    for text in legend.get_texts():
        text.set_color(INK)
    figure.savefig(path, format="png")


def _prepare(axes: "Axes", everything: npt.NDArray[np.float64], line_ms: float) -> None:
    """Scales, limits, ticks and grid."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    low = min(everything[0], line_ms) / 1.6
    high = max(everything[-1], line_ms) * 2.2
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.set_ylim(0, 1.07)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if math.log10(high / low) < 4 else (1,)
    axes.xaxis.set_major_locator(FixedLocator([step * 10.0**decade for decade in decades for step in steps]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_major_locator(FixedLocator([0, 0.25, 0.5, 0.75, 0.95, 1]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=MUTED, length=0, labelsize=9)
    axes.set_xlabel("time of a read, its query's embedding included (ms, log)", color=MUTED, fontsize=10)
    axes.set_ylabel("reads answered within", color=MUTED, fontsize=10)
    for name, spine in axes.spines.items():
        spine.set_visible(name == "bottom")
        spine.set_color(GRID)


def _draw_sources(axes: "Axes", latencies: Mapping[str, npt.NDArray[np.float64]]) -> None:
    spare = iter(SPARE_COLORS * len(latencies))
    for source, values in latencies.items():
        axes.ecdf(
            values,
            color=SOURCE_COLORS.get(source) or next(spare),
            linewidth=1.6,
            alpha=0.85,
            label=f"{source} (n = {len(values):,}, median {np.median(values):.3g} ms)",
        )


def _draw_all(axes: "Axes", everything: npt.NDArray[np.float64]) -> None:
    """The curve that counts, its percentiles as dots with their values beside them."""
    axes.ecdf(everything, color=INK, linewidth=2.6, label=f"{ALL_READS} (n = {len(everything):,})")
    for percentile in PERCENTILES:
        # An observed latency and not a blend of two: the dot then lies on the curve.
        value = float(np.percentile(everything, percentile, method="inverted_cdf"))
        axes.plot(value, percentile / 100, "o", color=INK, markersize=6, markeredgecolor="white", zorder=5)
        axes.annotate(
            f"P{percentile}  {value:.3g} ms",
            (value, percentile / 100),
            xytext=(10, 6 if percentile == PERCENTILES[-1] else -5),
            textcoords="offset points",
            va="bottom" if percentile == PERCENTILES[-1] else "top",
            fontsize=9.5,
            fontweight="bold",
            color=INK,
            bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85},
            zorder=6,
        )


def _draw_promise(axes: "Axes", everything: npt.NDArray[np.float64], line_ms: float) -> None:
    within = float(np.mean(everything <= line_ms))
    axes.axvline(line_ms, color=LINE, linewidth=1.4, linestyle=(0, (5, 3)), zorder=3)
    axes.annotate(
        f"within {line_ms:g} ms: {within:.1%} of reads",
        (line_ms, 0.03),
        xytext=(6, 0),
        textcoords="offset points",
        fontsize=9.5,
        color=LINE,
        bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85},
    )
