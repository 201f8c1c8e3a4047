"""Draw how many reads a cache answers as it may hold more, and how many of them wrong."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from precall.bench.latency_plot import GRID, INK, LINE, MUTED

COLORS: Final = {"spoken": "#1f77b4", "typed": "#e08a1e"}
_SPARE_COLOR: Final = "#2a9d8f"


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One run. Shares of all its reads."""

    items_held: int
    hit_rate: float
    wrong_serve_rate: float


def plot_hit_curve(path: Path, curves: Mapping[str, Sequence[CurvePoint]]) -> None:
    """Write a PNG: for each name a line of hit rates, and a broken one of wrong serves.

    The x axis (items held) is logarithmic. Raises ValueError where there is no point at all.
    """
    if not any(curves.values()):
        raise ValueError("there is no point to plot")

    # The object interface needs no display and leaves pyplot's global state alone.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    figure = Figure(figsize=(9, 5.4), dpi=150, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_xscale("log", base=2)
    axes.set_ylim(0, 1.05)
    items = sorted({point.items_held for points in curves.values() for point in points})
    axes.xaxis.set_major_locator(FixedLocator([float(count) for count in items]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=MUTED, length=0, labelsize=9)
    axes.set_xlabel("items that a session may hold (log)", color=MUTED, fontsize=10)
    axes.set_ylabel("share of all reads", color=MUTED, fontsize=10)
    for name, points in curves.items():
        ordered = sorted(points, key=lambda point: point.items_held)
        held = [point.items_held for point in ordered]
        color = COLORS.get(name, _SPARE_COLOR)
        axes.plot(held, [point.hit_rate for point in ordered], "o-", color=color, label=f"{name}: hits")
        wrong = [point.wrong_serve_rate for point in ordered]
        axes.plot(held, wrong, "s--", color=LINE, markerfacecolor=color, label=f"{name}: wrong serves")
        for point in ordered:
            axes.annotate(
                f"{point.hit_rate:.0%}",
                (point.items_held, point.hit_rate),
                xytext=(0, 8),
                textcoords="offset points",
                ha="center",
                fontsize=9.5,
                fontweight="bold",
                color=INK,
            )
    axes.set_title("What the cache answers", loc="left", fontsize=13, fontweight="bold", color=INK, pad=14)
    axes.legend(loc="center right", frameon=True, framealpha=0.92, edgecolor="none", fontsize=9)
    figure.savefig(path, format="png")
