"""Many mixed requests against a real server: `python -P -m precall.bench.mixed_requests`.

Some are cancelled, some too long, some late, and the device breaks down under others; each must be answered
once, rightly or with an error of its own kind, and memory must stay flat after the first fifth. The server
runs in this process, so that the memory is that of both sides. With ``--encoder table`` the device only looks
vectors up, which is a tenth of the work. Exit status 1 says that something was wrong.
"""

import argparse
import asyncio
import gc
import itertools
import json
import logging
import os
import tempfile
import threading
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final
from urllib.error import HTTPError

import numpy as np

from precall.bench.answer_ledger import AnswerLedger
from precall.bench.crashing_encoder import CrashingEncoder
from precall.bench.mixed_load import MixedLoad, opened_transports
from precall.bench.mixed_workload import Mixture, distinct_texts
from precall.bench.results import Measurement, append_results, print_measurements
from precall.bench.table_encoder import TableEncoder
from precall.engine.batching.settings import BatchingSettings
from precall.engine.encoding.encoder import Encoder, TextRole
from precall.engine.encoding.loading import load_default_encoder
from precall.server.app import running_server
from precall.server.model import ServedModel
from precall.server.settings import ServerSettings

PHASES: Final = 10
"""Memory is looked at after each, when nothing is in flight."""

MAX_GROWTH_MIB: Final = 32.0
"""Between a fifth of the requests and the end: what 100,000 requests that each left 330 bytes would take."""

_TEXTS: Final = 1_000
_PASS_SECONDS: Final = 0.005
_WAITING_TOKENS: Final = 400
"""Of a class: less than its callers send at times, so that some are refused."""


@dataclass(frozen=True)
class MixedRun:
    requests: int = 100_000
    seed: int = 1
    callers: int = 256
    crash_every: int = 1_000


@dataclass(frozen=True)
class MixedReport:
    """``outcomes`` counts texts, ``fates`` requests; ``memory_mib`` is what was resident after each phase."""

    encoder: str
    requests: int
    seconds: float
    outcomes: dict[str, int]
    fates: dict[str, int]
    refusals: int
    crashes: int
    unanswered: int
    fault_count: int
    faults: Sequence[str]
    worst_agreement: float
    memory_mib: Sequence[float]
    tasks_left: int
    threads_left: Sequence[str]
    ready: bool

    @property
    def memory_growth_mib(self) -> float:
        """From a fifth of the requests to the end."""
        return self.memory_mib[-1] - self.memory_mib[PHASES // 5 - 1]

    @property
    def passed(self) -> bool:
        lost = self.unanswered + self.fault_count + self.tasks_left + len(self.threads_left)
        return not lost and self.ready and self.memory_growth_mib <= MAX_GROWTH_MIB

    def measurements(self) -> list[Measurement]:
        case = f"{self.requests} requests, {self.encoder}"
        figures = (
            ("answered rightly", self.outcomes.get("right", 0), "texts"),
            ("wrong or lost", self.fault_count + self.unanswered, "requests"),
            ("refused, then served", self.refusals, "refusals"),
            ("device broke down", self.crashes, "passes"),
            ("memory growth", self.memory_growth_mib, "MiB"),
            ("rate", self.requests / self.seconds, "requests/s"),
        )
        return [Measurement("mixed", case, metric, value, unit) for metric, value, unit in figures]

    def to_json(self) -> str:
        computed = {"memory_growth_mib": self.memory_growth_mib, "passed": self.passed}
        return json.dumps(asdict(self) | computed, indent=2)


async def run_mixed(run: MixedRun, encoder: Encoder, texts: Sequence[str], folder: Path) -> MixedReport:
    """Serve ``encoder``, made to crash, from ``folder``, and ask it for ``texts`` under the load."""
    crashing = CrashingEncoder(encoder, run.crash_every)
    ledger = AnswerLedger(run.requests, await asyncio.to_thread(_vectors, encoder, texts))
    requests = Mixture().requests(run.requests, texts, run.seed)
    batching = BatchingSettings(max_waiting_tokens=_WAITING_TOKENS)
    settings = ServerSettings.load({"data_dir": folder, "port": 0, "metrics_port": 0}, environment={})
    threads = set(threading.enumerate())
    memory: list[float] = []
    begin = time.perf_counter()
    async with running_server(
        settings, lambda _: ServedModel(crashing, "bench", batching=batching)
    ) as server:
        admin_key = (folder / "admin.key").read_text().strip()
        async with opened_transports(server.target, admin_key, ("acme", "rival")) as transports:
            load = MixedLoad(transports, ledger, callers=run.callers)
            for phase in range(PHASES):
                share = run.requests * (phase + 1) // PHASES - run.requests * phase // PHASES
                await load.send(itertools.islice(requests, share))
                gc.collect()
                memory.append(_resident_mib())
        seconds = time.perf_counter() - begin
        ready = await _comes_to_be_ready(f"http://127.0.0.1:{server.metrics_port}/readyz", settings)
    return MixedReport(
        encoder=encoder.card.name,
        requests=run.requests,
        seconds=seconds,
        outcomes=dict(ledger.outcomes),
        fates={fate.value: count for fate, count in ledger.fates.items()},
        refusals=load.refusals,
        crashes=crashing.crashes,
        unanswered=ledger.unanswered,
        fault_count=ledger.fault_count,
        faults=ledger.faults,
        worst_agreement=ledger.worst_agreement,
        memory_mib=memory,
        tasks_left=len(asyncio.all_tasks()) - 1,
        threads_left=[thread.name for thread in _lasting(set(threading.enumerate()) - threads)],
        ready=ready,
    )


def _vectors(
    encoder: Encoder, texts: Sequence[str]
) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    """What the encoder says of each text alone."""
    return {
        text: encoder.encode([encoder.tokenize(text, TextRole.DOCUMENT, truncate=False)]).vectors[0]
        for text in texts
    }


async def _comes_to_be_ready(url: str, settings: ServerSettings) -> bool:
    """Within two probes: the last crash may have been a moment ago."""
    for _ in range(2):
        if await asyncio.to_thread(_answers_200, url):
            return True
        await asyncio.sleep(settings.probe_seconds)
    return await asyncio.to_thread(_answers_200, url)


def _answers_200(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return bool(answer.status == 200)
    except HTTPError:
        return False


def _lasting(threads: set[threading.Thread]) -> list[threading.Thread]:
    """Those of ours that do not end by themselves; asyncio keeps a pool of its own."""
    ours = [thread for thread in threads if thread.name.startswith("precall")]
    for thread in ours:
        thread.join(5)
    return [thread for thread in ours if thread.is_alive()]


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> int:
    parser = argparse.ArgumentParser(prog="mixed_requests", description=__doc__)
    parser.add_argument("--requests", type=int, default=MixedRun.requests)
    parser.add_argument("--seed", type=int, default=MixedRun.seed)
    parser.add_argument("--callers", type=int, default=MixedRun.callers)
    parser.add_argument("--encoder", choices=("minilm", "table"), default="minilm")
    parser.add_argument("--csv", type=Path, help="append the figures to this table of results")
    arguments = parser.parse_args()
    run = MixedRun(requests=arguments.requests, seed=arguments.seed, callers=arguments.callers)
    logging.getLogger("precall.engine").setLevel(logging.CRITICAL)  # a traceback for every crash
    texts = distinct_texts(_TEXTS, run.seed)
    encoder: Encoder = (
        TableEncoder(texts, pass_seconds=_PASS_SECONDS)
        if arguments.encoder == "table"
        else load_default_encoder().encoder
    )
    with tempfile.TemporaryDirectory() as folder:
        report = asyncio.run(run_mixed(run, encoder, texts, Path(folder)))
    print(report.to_json())
    print_measurements(report.measurements())
    if arguments.csv is not None:
        append_results(arguments.csv, report.measurements())
    return 0 if report.passed else 1


if __name__ == "__main__":
    raise SystemExit(main())
