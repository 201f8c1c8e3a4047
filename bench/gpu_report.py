"""What a run on a GPU found, as one table for a reader, and as JSON that becomes rows of ``results.csv``."""

import csv
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from precall.bench.gpu_ceilings import Ceilings
from precall.bench.gpu_contract import CheckResult, Outcome
from precall.bench.machine import describe_machine
from precall.bench.results import COLUMNS, Measurement, current_commit

_FACTS = ("python", "cores", "numpy", "transformers", "grpcio", "protobuf", "triton")


@dataclass(frozen=True)
class GpuReport:
    """``problems``: parts of the run that could not be done, and why."""

    environment: dict[str, str]
    ceilings: Ceilings | None
    checks: Sequence[CheckResult]
    measurements: Sequence[Measurement]
    problems: Sequence[str]
    seconds: float

    @property
    def failed(self) -> bool:
        return bool(self.problems) or any(check.outcome is Outcome.FAILED for check in self.checks)

    def save(self, path: Path) -> None:
        """Everything, as JSON; ``rows`` are the lines of the table of results, column -> text."""
        content = asdict(self) | {
            "checks": [asdict(check) | {"outcome": check.outcome.value} for check in self.checks],
            "rows": self._rows(),
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    def show(self) -> None:
        for name, value in self.environment.items():
            print(f"{name:<20} {value}")
        if self.ceilings is not None:
            print(f"{'copy':<20} {self.ceilings.copy_gigabytes_a_second:,.4g} GB/s, read and written")
            print(f"{'bf16 matrix product':<20} {self.ceilings.bfloat16_teraflops:,.4g} TFLOP/s")
        print()
        for check in self.checks:
            print(f"{check.outcome.value:<8} {check.name:<52} {check.detail}")
        print()
        for each in self.measurements:
            against = "" if each.ratio is None else f"  {each.ratio:.3g} x {each.peer}"
            print(f"{each.case:<50} {each.metric:<13} {each.value:>10.4g} {each.unit:<9}{against}")
        for problem in self.problems:
            print(f"NOT DONE: {problem}")
        print(f"{self.seconds:.0f} s in all; {'FAILED' if self.failed else 'passed'}")

    def _rows(self) -> list[dict[str, str]]:
        facts = self.environment
        machine = f"{facts['device']}, torch {facts['torch']}"
        date = datetime.now(UTC).date().isoformat()
        rows = []
        for each in self.measurements:
            ratio = "" if each.ratio is None else f"{each.ratio:.4g}"
            figures = (each.metric, f"{each.value:.4g}", each.unit, each.peer, ratio)
            fields = (date, facts["commit"], machine, each.benchmark, each.case, *figures)
            rows.append(dict(zip(COLUMNS, fields, strict=True)))
        return rows


def append_rows(report: Path, table: Path) -> int:
    """Add the rows of a saved report to a table of results, and return how many. Raises ValueError, and
    writes nothing, when the table has other columns.
    """
    rows = json.loads(report.read_text(encoding="utf-8"))["rows"]
    with table.open(newline="", encoding="utf-8") as file:
        if tuple(next(csv.reader(file), ())) != COLUMNS:
            raise ValueError(f"{table} has other columns than {', '.join(COLUMNS)}: name another file")
    with table.open("a", newline="", encoding="utf-8") as file:
        csv.DictWriter(file, COLUMNS, lineterminator="\n").writerows(rows)
    return len(rows)


def describe_environment(device: str) -> dict[str, str]:
    """``device``: as torch names it. The commit comes from COMMIT where there is no repository."""
    import torch

    facts = describe_machine()
    on_gpu = torch.device(device).type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if on_gpu else facts["processor"],
        "driver": _driver() if on_gpu else "-",
        "commit": os.environ.get("COMMIT") or current_commit(),
        **{name: facts[name] for name in _FACTS},
        "torch": torch.__version__,
    }


def _driver() -> str:
    try:
        said = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return said.stdout.strip().splitlines()[0]
