"""The committed table of measurements: a row a figure, keyed by commit and machine."""

import csv
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from precall.bench.machine import describe_machine

COLUMNS: Final = (
    "date", "commit", "machine", "benchmark", "case", "metric", "value", "unit", "peer", "ratio",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Measurement:
    """One figure. ``peer``: what it is compared with, or empty. ``ratio``: how many times better ours is."""

    benchmark: str
    case: str
    metric: str
    value: float
    unit: str
    peer: str = ""
    ratio: float | None = None


def append_results(path: Path, measurements: Sequence[Measurement]) -> None:
    """Add rows at the end of a CSV file; a new file gets its head.

    Raises ValueError, and writes nothing, when the file has other columns.
    """
    begun = path.exists() and path.stat().st_size > 0
    if begun:
        with path.open(newline="", encoding="utf-8") as file:
            columns = tuple(next(csv.reader(file)))
        if columns != COLUMNS:
            raise ValueError(f"{path} has the columns {', '.join(columns)}: name another file")
    date, commit, machine = datetime.now(UTC).date().isoformat(), current_commit(), machine_name()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        if not begun:
            writer.writerow(COLUMNS)
        for each in measurements:
            ratio = "" if each.ratio is None else f"{each.ratio:.4g}"
            figures = (each.metric, f"{each.value:.4g}", each.unit, each.peer, ratio)
            writer.writerow((date, commit, machine, each.benchmark, each.case, *figures))


def machine_name() -> str:
    """The processor's model and how many cores of it there are."""
    facts = describe_machine()
    return f"{facts['processor']}, {facts['cores']} cores"


def current_commit() -> str:
    """The short hash of HEAD, with ``+`` when tracked files differ from it; empty outside a repository."""
    here = Path(__file__).resolve().parent
    try:
        commit = subprocess.run(
            ["git", "describe", "--always", "--abbrev=10", "--exclude=*", "--dirty=+"],
            cwd=here,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return commit.stdout.strip()


def print_measurements(measurements: Sequence[Measurement]) -> None:
    """The same rows for a reader at a terminal."""
    for each in measurements:
        against = "" if each.ratio is None else f"   {each.ratio:.2f} x {each.peer}"
        print(
            f"{each.benchmark:<8} {each.case:<26} {each.metric:<20} {each.value:>10.4g} {each.unit}{against}"
        )
