"""What `precall bench embed` found: rows with the target that each is held to."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rich.table import Table

from precall.bench.results import Measurement

BENCHMARK: Final = "embed"


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on a ratio where the row has one, else on its value; the bound itself is inside."""

    bound: float
    at_least: bool

    def is_met(self, figure: float) -> bool:
        return figure >= self.bound if self.at_least else figure <= self.bound

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.bound:g}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One row. ``ratio`` says how many times better ours is than ``peer``; ``note`` what the row means."""

    part: str
    case: str
    metric: str
    value: float
    unit: str
    peer: str = ""
    ratio: float | None = None
    target: Target | None = None
    note: str = ""

    @property
    def is_met(self) -> bool | None:
        """None where there is no target."""
        if self.target is None:
            return None
        return self.target.is_met(self.value if self.ratio is None else self.ratio)

    @property
    def measurement(self) -> Measurement:
        case = f"{self.part}: {self.case}"
        return Measurement(BENCHMARK, case, self.metric, self.value, self.unit, self.peer, self.ratio)


@dataclass(frozen=True, slots=True)
class EmbedReport:
    """All findings of one run on one machine, and what was left out of it and why."""

    findings: Sequence[Finding]
    left_out: Sequence[str] = ()

    @property
    def missed(self) -> Sequence[Finding]:
        return [finding for finding in self.findings if finding.is_met is False]

    def measurements(self) -> list[Measurement]:
        """Rows for the table of results."""
        return [finding.measurement for finding in self.findings]

    def write(self, path: Path, machine: Mapping[str, str]) -> None:
        """The report as JSON, with the machine that it was measured on."""
        rows: list[dict[str, Any]] = [asdict(finding) | {"met": finding.is_met} for finding in self.findings]
        document = {"machine": dict(machine), "findings": rows, "left_out": list(self.left_out)}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    def table(self) -> Table:
        table = Table(title="Embedding, on one machine in one run", title_justify="left")
        for name in ("part", "case", "metric"):
            table.add_column(name)
        for name in ("value", "ratio", "target"):
            table.add_column(name, justify="right")
        table.add_column("verdict")
        table.add_column("what it says")
        part = ""
        for finding in self.findings:
            if part not in ("", finding.part):
                table.add_section()
            table.add_row(
                finding.part if finding.part != part else "",
                finding.case,
                finding.metric,
                f"{finding.value:.4g} {finding.unit}",
                "" if finding.ratio is None else f"{finding.ratio:.2f} x {finding.peer}",
                str(finding.target or ""),
                {None: "", True: "met", False: "MISSED"}[finding.is_met],
                finding.note,
            )
            part = finding.part
        return table
