"""`precall bench reads`: what an agent's reads cost and whether they are right, with the server a link away.

A real server process, a link that delays each direction by half the round trip, and conversations whose reads
are compared with the server's own answers: of users with a memory of their own (`Profile.PERSONAL`), or about
one large rung (`Profile.SHARED`).
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from rich.console import Console

from precall.bench.hit_curve_plot import CurvePoint, plot_hit_curve
from precall.bench.latency_plot import plot_latencies
from precall.bench.locomo import load_conversations
from precall.bench.machine import describe_machine
from precall.bench.personal_reads import measure_personal
from precall.bench.quality import VECTORS_FOLDER
from precall.bench.quality_vectors import VectorCache
from precall.bench.reads_report import PROMISE_MS, ReadsReport
from precall.bench.reads_run import Profile, ReadsOutcome, ReadsRun
from precall.bench.reads_table import print_report
from precall.bench.results import append_results
from precall.bench.shared_reads import measure_shared
from precall.bench.shared_rung import shared_rung
from precall.engine.encoding.loading import load_default_encoder


def main(
    data: Path,
    run: ReadsRun,
    *,
    json_path: Path | None = None,
    plot_path: Path | None = None,
    csv_path: Path | None = None,
    max_conversations: int | None = None,
    vectors: Path = VECTORS_FOLDER,
    console: Console | None = None,
) -> ReadsReport:
    """Run, print the table, write what was asked for.

    ``data``: a conversation or a folder of them; for SHARED the folder that holds locomo, scifact and xquad.
    ``vectors``: where SHARED keeps the memories' vectors between runs.
    """
    console = console or Console()
    if run.profile is Profile.SHARED:
        rung = shared_rung(data, typed=run.typed, most=run.max_questions, in_all=run.max_reads)
        outcome = asyncio.run(measure_shared(rung, run, _vector_cache(vectors), console=console))
    else:
        conversations = load_conversations(data)[:max_conversations]
        outcome = asyncio.run(measure_personal(conversations, run, console=console))
    present(outcome, console=console, json_path=json_path, plot_path=plot_path)
    if csv_path is not None:
        append_results(csv_path, outcome.report.measurements(run.case))
    return outcome.report


def curve(
    data: Path,
    run: ReadsRun,
    items: Sequence[int],
    *,
    json_path: Path | None = None,
    plot_path: Path | None = None,
    csv_path: Path | None = None,
    vectors: Path = VECTORS_FOLDER,
    console: Console | None = None,
) -> list[ReadsReport]:
    """SHARED again and again, from the fewest items that a session may hold to the most."""
    console = console or Console()
    rung = shared_rung(data, typed=run.typed, most=run.max_questions, in_all=run.max_reads)
    cache = _vector_cache(vectors)
    reports = []
    for most in sorted(items):
        step = replace(run, max_items=most)
        outcome = asyncio.run(measure_shared(rung, step, cache, console=console))
        print_report(outcome.report, console)
        reports.append(outcome.report)
        if csv_path is not None:
            append_results(csv_path, outcome.report.measurements(step.case))
    if json_path is not None:
        written = {"curve": [asdict(report) for report in reports], "machine": describe_machine()}
        json_path.write_text(json.dumps(written, indent=2) + "\n")
        console.print(f"figures: {json_path}")
    if plot_path is not None:
        points = [
            CurvePoint(most, report.hit_rate, report.wrong_serve_rate)
            for most, report in zip(sorted(items), reports, strict=True)
        ]
        named = {"typed" if run.typed else "spoken": points}
        _plot(plot_path, lambda: plot_hit_curve(plot_path, named), console)
    return reports


def _vector_cache(folder: Path) -> VectorCache:
    return VectorCache(load_default_encoder().encoder, folder)


def present(
    outcome: ReadsOutcome,
    *,
    console: Console,
    json_path: Path | None,
    plot_path: Path | None,
) -> None:
    """Print the tables; write the JSON and the plot where paths are given."""
    print_report(outcome.report, console)
    if json_path is not None:
        outcome.report.write(json_path, describe_machine())
        console.print(f"figures: {json_path}")
    if plot_path is not None:
        by_source: dict[str, list[float]] = {}
        for record in outcome.records:
            by_source.setdefault(record.source, []).append(record.elapsed_ms)
        title = f"{outcome.report.reads} reads, server {outcome.report.setting.rtt_ms:g} ms away"
        _plot(plot_path, lambda: plot_latencies(plot_path, by_source, title, PROMISE_MS), console)


def _plot(path: Path, draw: Callable[[], None], console: Console) -> None:
    """Where there is nothing to draw with, the figures stand all the same."""
    try:
        draw()
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "matplotlib":
            raise
        console.print("no plot: it needs matplotlib, which the extra `bench` brings")
    else:
        console.print(f"plot: {path}")
