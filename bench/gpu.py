"""Everything about the models that needs a GPU, in one run: ceilings, contract, throughput, latency.

``bench/gpu.sh`` runs it on a machine that has no more than torch, transformers, numpy, grpcio and protobuf.
"""

import argparse
import asyncio
import gc
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from precall.bench.gpu_ceilings import Ceilings, measure_ceilings
from precall.bench.gpu_contract import CheckResult, run_checks
from precall.bench.gpu_contract_models import ContractModels
from precall.bench.gpu_model import TINY, Qwen3Shape, RandomQwen3
from precall.bench.gpu_report import GpuReport, append_rows, describe_environment
from precall.bench.gpu_service import ServiceSizes, measure_service
from precall.bench.gpu_throughput import ThroughputSizes, measure_throughput
from precall.bench.results import Measurement
from precall.engine.encoding.qwen3 import Qwen3Encoder
from precall.engine.encoding.qwen3_settings import Qwen3EncoderSettings
from precall.engine.encoding.torch_device import Placement

Found = TypeVar("Found")


@dataclass(frozen=True)
class RunSizes:
    """How much of each part is done. By default what an H200 does within four minutes."""

    shape: Qwen3Shape = field(default_factory=Qwen3Shape)
    spread: float = 0.02
    longest: int = 4_096
    copied_bytes: int = 2**30
    matrix_side: int = 8_192
    throughput: ThroughputSizes = field(default_factory=ThroughputSizes)
    service: ServiceSizes = field(default_factory=ServiceSizes)


QUICK = RunSizes(
    shape=TINY,
    spread=0.08,
    longest=200,
    copied_bytes=2**24,
    matrix_side=256,
    throughput=ThroughputSizes(text_tokens=64, batches=(1, 4), mixed=(8, 20, 64), rounds=3, queries=10),
    service=ServiceSizes(
        queries=10, text_tokens=64, flood_callers=2, flood_texts=4, flood_queries=10, batch_tokens=(256,)
    ),
)
"""Every part on models of no size: proves the script, measures nothing."""


PARTS = ("ceilings", "contract", "throughput", "service")


class GpuRun:
    """One part after the other. What a part raises is kept and reported; the others are done all the same.

    Throughput is held against the ceilings, so it is measured only together with them.
    """

    def __init__(self, device: str, sizes: RunSizes, folder: Path, parts: Sequence[str] = PARTS) -> None:
        self._parts = parts
        self._device = device
        self._sizes = sizes
        self._folder = folder
        self._placement = Placement.choose(device, "auto")
        self._problems: list[str] = []

    def run(self) -> GpuReport:
        begin = time.perf_counter()
        sizes, device = self._sizes, self._placement.device
        environment = describe_environment(str(device))
        ceilings = self._part(
            "ceilings",
            lambda: measure_ceilings(device, copied_bytes=sizes.copied_bytes, side=sizes.matrix_side),
        )
        checks = self._part("contract", self._checks) or []
        measurements: list[Measurement] = []
        wanted = {"throughput", "service"} & set(self._parts)
        folder = self._save_model() if wanted else None
        if folder is not None and ceilings is not None:
            measurements += self._part("throughput", lambda: self._throughput(folder, ceilings)) or []
        if folder is not None:
            measurements += self._part("service", lambda: self._service(folder)) or []
        seconds = time.perf_counter() - begin
        return GpuReport(environment, ceilings, checks, measurements, self._problems, seconds)

    def _part(self, name: str, work: Callable[[], Found]) -> Found | None:
        if name not in self._parts:
            return None
        begin = time.perf_counter()
        try:
            return work()
        except Exception as error:
            traceback.print_exc()
            self._problems.append(f"{name}: {type(error).__name__}: {error}")
            return None
        finally:
            print(f"{name}: {time.perf_counter() - begin:.1f} s", file=sys.stderr, flush=True)
            gc.collect()  # an encoder is a cycle: its weights would stay on the device beside the next one's

    def _checks(self) -> list[CheckResult]:
        return run_checks(ContractModels(self._folder, self._device, longest=self._sizes.longest))

    def _save_model(self) -> Path:
        model = RandomQwen3(self._sizes.shape, spread=self._sizes.spread)
        return model.save(self._folder / "measured", device=str(self._placement.device))

    def _throughput(self, folder: Path, ceilings: Ceilings) -> list[Measurement]:
        return measure_throughput(
            folder,
            self._sizes.shape,
            self._placement,
            self._sizes.throughput,
            ceilings.bfloat16_teraflops,
        )

    def _service(self, folder: Path) -> list[Measurement]:
        encoder = Qwen3Encoder(Qwen3EncoderSettings(model=folder, device=self._device))
        return asyncio.run(measure_service(encoder, self._sizes.service))


def main() -> int:
    """Exit status 0 if every check passed and every part was done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda", help="cuda or cpu (default: cuda)")
    parser.add_argument("--quick", action="store_true", help="tiny models: proves the script alone")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="do these alone")
    parser.add_argument("--json", type=Path, default=Path("out/gpu.json"), help="where the report goes")
    parser.add_argument("--threads", type=int, help="threads of a pass on a processor (default: torch's)")
    parser.add_argument("--csv", type=Path, help="run nothing: add the rows of --json to this table")
    asked = parser.parse_args()
    if asked.csv is not None:
        print(f"{append_rows(asked.json, asked.csv)} rows added to {asked.csv}")
        return 0
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    if asked.threads is not None:
        import torch

        torch.set_num_threads(asked.threads)
    with tempfile.TemporaryDirectory(prefix="precall-gpu-") as folder:
        sizes = QUICK if asked.quick else RunSizes()
        report = GpuRun(asked.device, sizes, Path(folder), asked.parts).run()
    report.save(asked.json)
    report.show()
    return int(report.failed)


if __name__ == "__main__":
    sys.exit(main())
