"""`precall demo`: the main job on a short conversation that the package ships."""

import asyncio
from pathlib import Path

from rich.console import Console

from precall.bench.locomo import load_demo_conversation
from precall.bench.personal_reads import measure_personal
from precall.bench.reads import present
from precall.bench.reads_report import PROMISE_MS, ReadsReport
from precall.bench.reads_run import ReadsRun


class PromiseBroken(Exception):
    """The demo ran, and reads were too slow."""


def main(
    *, rtt_ms: float, plot_path: Path, json_path: Path | None = None, console: Console | None = None
) -> ReadsReport:
    """Run, print, plot. Raises PromiseBroken when P75 over all reads is 15 ms or more."""
    console = console or Console()
    conversation = load_demo_conversation()
    console.print(
        f"A server, an agent {rtt_ms:g} ms away, {len(conversation.turns)} memories of "
        f"{' and '.join(conversation.speakers)}, {len(conversation.questions)} spoken questions."
    )
    outcome = asyncio.run(measure_personal([conversation], ReadsRun(rtt_ms=rtt_ms), console=console))
    present(outcome, console=console, json_path=json_path, plot_path=plot_path)
    if not outcome.report.keeps_promise:
        raise PromiseBroken(
            f"P75 is {outcome.report.p75_ms:.2f} ms, the promise is under {PROMISE_MS:g} ms: "
            "is the machine busy?"
        )
    return outcome.report
