"""`precall bench embed`: throughput and latency of the embedding engine beside its peers, in one run.

Everything is float32 and of the same model, on one machine, the contenders taking turns: figures of different
machines or moments say nothing about each other.
"""

import asyncio
import json
import shutil
import tempfile
from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from rich.console import Console

from precall.bench.azure_trace import load_trace
from precall.bench.embed_caller import EmbedCaller
from precall.bench.embed_classes import measure_classes
from precall.bench.embed_lone import measure_lone
from precall.bench.embed_peers import HOW_TO_GET, InfinityServer
from precall.bench.embed_report import EmbedReport, Finding
from precall.bench.embed_servers import measure_servers
from precall.bench.embed_texts import EmbedTexts, load_texts
from precall.bench.embed_throughput import measure_throughput
from precall.bench.embed_trace import measure_trace, trace_load
from precall.bench.machine import describe_machine
from precall.bench.results import append_results
from precall.bench.server_process import ServerProcess
from precall.engine.encoding.encoder import Encoder
from precall.engine.encoding.loading import load_default_encoder
from precall.engine.encoding.minilm import find_minilm

TENANT: Final = "bench"
TRACE: Final = Path("traces") / "AzureLLMInferenceTrace_conv.csv"


class Part(Enum):
    """What can be measured alone; ``throughput`` includes the peer's server."""

    THROUGHPUT = "throughput"
    LONE = "lone"
    TRACE = "trace"
    CLASSES = "classes"


@dataclass(frozen=True, slots=True)
class EmbedRun:
    """How much to measure. ``peer_python``: the Python of an environment with infinity-emb, or None."""

    data: Path
    parts: Collection[Part] = tuple(Part)
    peer_python: Path | None = None
    turns: int = 512
    abstracts: int = 64
    rounds: int = 7
    lone_rounds: int = 400
    trace_requests: int = 600
    class_seconds: float = 30.0

    @classmethod
    def quick(cls, data: Path, parts: Collection[Part], peer_python: Path | None) -> "EmbedRun":
        """Minutes instead of a quarter of an hour; its figures are rougher, not other ones."""
        return cls(
            data,
            parts,
            peer_python,
            turns=128,
            abstracts=16,
            rounds=3,
            lone_rounds=100,
            trace_requests=120,
            class_seconds=8.0,
        )


def main(
    run: EmbedRun,
    *,
    json_path: Path | None = None,
    csv_path: Path | None = None,
    console: Console | None = None,
) -> EmbedReport:
    """Measure, print the table, write what was asked for."""
    console = console or Console()
    report = asyncio.run(measure(run, console=console))
    console.print(report.table())
    for reason in report.left_out:
        console.print(f"left out: {reason}")
    if json_path is not None:
        report.write(json_path, describe_machine())
        console.print(f"figures: {json_path}")
    if csv_path is not None:
        append_results(csv_path, report.measurements())
    return report


async def measure(run: EmbedRun, *, console: Console) -> EmbedReport:
    """The parts that ``run`` names, the engine alone first, then one server for all that need one.

    Raises ServerDied, PeerFailed, TraceFormatError, LocomoFormatError.
    """
    texts = load_texts(run.data, turns=run.turns, abstracts=run.abstracts)
    console.print(f"texts: {len(texts.turns)} and {len(texts.abstracts)} of {texts.origin}")
    encoder = load_default_encoder().encoder
    findings: list[Finding] = []
    left_out: list[str] = []
    if Part.THROUGHPUT in run.parts:
        console.print("the encoder beside sentence-transformers and torch …")
        findings += measure_throughput(encoder, find_minilm().folder, texts, rounds=run.rounds)
        if run.peer_python is None:
            left_out.append(f"infinity-emb, for which no environment was named: {HOW_TO_GET}")
    if Part.TRACE in run.parts and not _has_trace(run):
        left_out.append(f"the trace, which is not at {run.data / TRACE}")
    if _needs_server(run):
        findings += await _measure_served(run, encoder, texts, console)
    return EmbedReport(findings, left_out)


def _needs_server(run: EmbedRun) -> bool:
    if Part.THROUGHPUT in run.parts and run.peer_python is not None:
        return True
    return Part.LONE in run.parts or Part.CLASSES in run.parts or _has_trace(run)


def _has_trace(run: EmbedRun) -> bool:
    return Part.TRACE in run.parts and (run.data / TRACE).is_file()


async def _measure_served(
    run: EmbedRun, encoder: Encoder, texts: EmbedTexts, console: Console
) -> Sequence[Finding]:
    folder = Path(tempfile.mkdtemp(prefix="precall-bench-"))
    findings: list[Finding] = []
    try:
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(ServerProcess(folder))
            key = await server.make_tenant(TENANT)
            caller = await stack.enter_async_context(EmbedCaller(server.address.target, key))
            if Part.THROUGHPUT in run.parts and run.peer_python is not None:
                console.print("our server beside infinity-emb's …")
                findings += await asyncio.to_thread(_beside_infinity, run, server.address.target, key, texts)
            if Part.LONE in run.parts:
                console.print("a lone query, directly and through the server …")
                findings += await measure_lone(encoder, caller, texts.questions, rounds=run.lone_rounds)
            if _has_trace(run):
                console.print("the arrivals of the Azure trace …")
                load = trace_load(
                    load_trace(run.data / TRACE),
                    requests=run.trace_requests,
                    max_tokens=encoder.card.max_tokens,
                )
                findings += await measure_trace(caller, load)
            if Part.CLASSES in run.parts:
                console.print("a flood of writes beside a conversation …")
                findings += await measure_classes(caller, _pid_of(server), texts, seconds=run.class_seconds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return findings


def _beside_infinity(run: EmbedRun, target: str, key: str, texts: EmbedTexts) -> list[Finding]:
    assert run.peer_python is not None
    with (
        tempfile.TemporaryDirectory(prefix="precall-peer-") as folder,
        InfinityServer(run.peer_python, find_minilm().folder, Path(folder)) as infinity,
    ):
        corpora = {"turns": texts.turns, "abstracts": texts.abstracts}
        return measure_servers(target, key, infinity, corpora, rounds=run.rounds)


def _pid_of(server: ServerProcess) -> int:
    """As the server wrote it when it became ready."""
    told = json.loads((server.folder / "ready.json").read_text())
    return int(told["pid"])
