"""`precall bench reads`: what an agent's reads cost and whether they are right, with the server a link away.

A real server process, a link that delays each direction by half the round trip, and conversations in
the LoCoMo format: each is a user whose dialogue is stored, and whose questions are then spoken, read, and
compared with the server's own answers.
"""

import asyncio
import shutil
import tempfile
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from precall.bench.latency_plot import plot_latencies
from precall.bench.locomo import LocomoConversation, load_conversations
from precall.bench.machine import describe_machine
from precall.bench.reads_report import PROMISE_MS, ReadRecord, ReadsReport, report
from precall.bench.relay import LinkRelay
from precall.bench.replay import Replayed, ask_server, ingest, judge, replay, settle_encoder
from precall.bench.results import append_results
from precall.bench.server_process import Address, ServerProcess
from precall.client import AsyncClient

TENANT = "bench"
BASELINE_QUESTIONS = 20
"""Questions a conversation that are also asked of the server over the link, to say what a cache saves."""


@dataclass(frozen=True, slots=True)
class ReadsRun:
    """How to run. ``speed`` compresses the speaker's clock, which leaves a push less time, never more.

    ``server_arguments`` go to `precall serve` as they are.
    """

    rtt_ms: float = 40.0
    speed: float = 10.0
    max_questions: int | None = None
    server_arguments: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ReadsOutcome:
    report: ReadsReport
    records: Sequence[ReadRecord]


def main(
    data: Path,
    run: ReadsRun,
    *,
    json_path: Path | None = None,
    plot_path: Path | None = None,
    csv_path: Path | None = None,
    max_conversations: int | None = None,
    console: Console | None = None,
) -> ReadsReport:
    """Run over a file or a folder of conversations, print the table, write what was asked for."""
    console = console or Console()
    conversations = load_conversations(data)[:max_conversations]
    outcome = asyncio.run(measure(conversations, run, console=console))
    present(outcome, console=console, json_path=json_path, plot_path=plot_path)
    if csv_path is not None:
        append_results(csv_path, outcome.report.measurements(" ".join(run.server_arguments) or "default"))
    return outcome.report


async def measure(
    conversations: Sequence[LocomoConversation], run: ReadsRun, *, console: Console
) -> ReadsOutcome:
    """Start a server on an empty folder, replay everything, and judge it."""
    folder = Path(tempfile.mkdtemp(prefix="precall-bench-"))
    try:
        async with AsyncExitStack() as stack:
            progress = stack.enter_context(_progress(console))
            server = await stack.enter_async_context(ServerProcess(folder, arguments=run.server_arguments))
            key = await server.make_tenant(TENANT)
            relay = LinkRelay("127.0.0.1", server.address.port, run.rtt_ms)
            port = await relay.start()
            stack.push_async_callback(relay.close)
            near = await stack.enter_async_context(AsyncClient(server.address.target, api_key=key))
            far = await stack.enter_async_context(AsyncClient(f"127.0.0.1:{port}", api_key=key))
            await _ingest_all(near, conversations, progress)
            await settle_encoder(far)
            replayed = await _replay_all(far, conversations, run, progress)
            pushed = await asyncio.to_thread(_pushed_items, server.address)
            records = await _judge_all(near, conversations, replayed, progress)
            asked = [await ask_server(far, c, c.questions[:BASELINE_QUESTIONS]) for c in conversations]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    used = {
        (item.memory.scope["user"], item.memory.id)
        for conversation in replayed
        for _, read, _ in conversation.reads
        for item in read.items
        if item.predictor
    }
    return ReadsOutcome(
        report(
            records,
            [conversation.fill for conversation in replayed],
            rtt_ms=run.rtt_ms,
            speed=run.speed,
            pushed_items=pushed,
            used_items=len(used),
            server_ms=[elapsed for times in asked for elapsed in times],
        ),
        records,
    )


def present(
    outcome: ReadsOutcome,
    *,
    console: Console,
    json_path: Path | None,
    plot_path: Path | None,
) -> None:
    """Print the read table; write the JSON and the plot where paths are given."""
    console.print(_table(outcome.report))
    if json_path is not None:
        outcome.report.write(json_path, describe_machine())
        console.print(f"figures: {json_path}")
    if plot_path is not None:
        by_source: dict[str, list[float]] = {}
        for record in outcome.records:
            by_source.setdefault(record.source, []).append(record.elapsed_ms)
        title = f"{outcome.report.reads} reads, server {outcome.report.rtt_ms:g} ms away"
        plot_latencies(plot_path, by_source, title, PROMISE_MS)
        console.print(f"plot: {plot_path}")


async def _ingest_all(
    client: AsyncClient, conversations: Sequence[LocomoConversation], progress: Progress
) -> None:
    task = progress.add_task("store the dialogues", total=sum(len(c.turns) for c in conversations))
    for conversation in conversations:
        await ingest(client, conversation, advanced=lambda count: progress.advance(task, count))


async def _replay_all(
    client: AsyncClient, conversations: Sequence[LocomoConversation], run: ReadsRun, progress: Progress
) -> list[Replayed]:
    """All conversations at once, as an agent process holds several calls."""
    asked = [conversation.questions[: run.max_questions] for conversation in conversations]
    task = progress.add_task("speak and read", total=sum(map(len, asked)))
    return await asyncio.gather(
        *(
            replay(
                client,
                conversation,
                questions,
                speed=run.speed,
                advanced=lambda count: progress.advance(task, count),
            )
            for conversation, questions in zip(conversations, asked, strict=True)
        )
    )


async def _judge_all(
    client: AsyncClient,
    conversations: Sequence[LocomoConversation],
    replayed: Sequence[Replayed],
    progress: Progress,
) -> list[ReadRecord]:
    task = progress.add_task("ask the server itself", total=len(conversations))
    records: list[ReadRecord] = []
    for conversation, reads in zip(conversations, replayed, strict=True):
        records += await judge(client, conversation, reads)
        progress.advance(task)
    return records


def _pushed_items(address: Address) -> dict[str, int]:
    """Items that the server pushed, by predictor, as its metrics tell."""
    with urllib.request.urlopen(f"http://127.0.0.1:{address.metrics_port}/metrics") as response:
        text = response.read().decode()
    return {
        sample.labels["predictor"]: int(sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "precall_pushed_items_total"
    }


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:<22}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )


def _table(result: ReadsReport) -> Table:
    table = Table(
        title=f"{result.reads} reads, {result.memories} memories, server {result.rtt_ms:g} ms away",
        title_justify="left",
    )
    table.add_column("measure")
    table.add_column("value", justify="right")
    table.add_column("what it says")
    verdict = "under" if result.keeps_promise else "NOT under"
    rows = [
        ("p50", f"{result.p50_ms:.2f} ms", "over all reads, hits and misses, the query's embedding inside"),
        ("p75", f"{result.p75_ms:.2f} ms", f"{verdict} {PROMISE_MS:g} ms"),
        ("p95", f"{result.p95_ms:.2f} ms", ""),
        ("p99", f"{result.p99_ms:.2f} ms", f"the embedding alone has p50 {result.encode_p50_ms:.2f} ms"),
        ("no cache", f"{result.server_p75_ms:.2f} ms", "p75 of asking the server over the same link instead"),
        ("hit rate", f"{result.hit_rate:.1%}", "answered by the cache alone, of all reads"),
        ("wrong serves", f"{result.wrong_serve_rate:.2%}", "lost evidence that the server's ten have"),
        ("same ten", f"{result.identical_top_10:.1%}", "the read's ten are the server's, in order"),
        (
            "recall@10",
            f"{result.recall_at_10:.3f}",
            f"of the evidence; the server {result.server_recall_at_10:.3f}",
        ),
        ("lead p95", f"{result.lead_p95_ms:.0f} ms", "from an event to its push stored in the agent"),
        ("pushed items", f"{sum(result.pushed_items.values())}", _names(result.pushed_items)),
        ("used items", f"{result.used_items}", "distinct memories that a read returned from the cache"),
        ("decisions", "", _names(result.decisions)),
    ]
    for row in rows:
        table.add_row(*row)
    return table


def _names(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
