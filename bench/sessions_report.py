"""What many conversations at once came to."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.table import Table

from precall.bench.results import Measurement
from precall.bench.sessions_worker import Answer


@dataclass(frozen=True, slots=True)
class SessionsRun:
    """``users``: the sessions are theirs in turns, each with ``memories`` of its own, of ``customers``.

    ``write_every``: turns of a session to one write. ``whole``: rungs are held whole. ``agents_elsewhere``:
    they embed nothing here.
    """

    data: Path
    sessions: int = 1_000
    processes: int = 3
    seconds: float = 60.0
    turn_seconds: float = 5.0
    users: int = 100
    customers: int = 4
    memories: int = 20
    write_every: int = 12
    whole: bool = False
    agents_elsewhere: bool = False

    @property
    def agents(self) -> int:
        """No process is without a session."""
        return min(self.processes, self.sessions)

    def scope(self, session: int) -> dict[str, str]:
        user = session % self.users
        return {"customer": f"customer {user % self.customers}", "user": f"user {user}"}


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Milliseconds; nan where nothing was measured."""

    count: int
    p50: float
    p95: float
    p99: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Percentiles":
        if not values:
            return cls(0, float("nan"), float("nan"), float("nan"))
        return cls(len(values), *np.percentile(values, (50, 95, 99)).tolist())


@dataclass(frozen=True, slots=True)
class SessionsReport:
    """``lead``: from a turn to its first push stored in the agent, ``last_lead``: to the last one before the
    next turn. ``due``: turns, those included for which a session had no time. Bytes are of one session,
    beyond what a process has without any; processor seconds of one turn. ``errors``: by reason.
    """

    case: str
    sessions: int
    due: int
    turns: int
    lead: Percentiles
    last_lead: Percentiles
    reads: Percentiles
    writes: Percentiles
    sources: Mapping[str, int]
    decisions: Mapping[str, int]
    errors: Mapping[str, int]
    server_bytes: float
    client_bytes: float
    server_seconds: float
    client_seconds: float

    @property
    def times(self) -> Sequence[tuple[str, Percentiles]]:
        return (
            ("turn to first push", self.lead),
            ("turn to last push", self.last_lead),
            ("read", self.reads),
            ("write", self.writes),
        )

    def measurements(self) -> list[Measurement]:
        rows = [
            Measurement("sessions", self.case, f"{name} {percentile}", getattr(times, percentile), "ms")
            for name, times in self.times
            if times.count
            for percentile in ("p50", "p95", "p99")
        ]
        figures = (
            ("turns taken of those due", self.turns / max(self.due, 1), "share"),
            ("server memory a session", self.server_bytes, "bytes"),
            ("agent memory a session", self.client_bytes, "bytes"),
            ("server processor time a turn", 1000 * self.server_seconds, "ms"),
            ("agent processor time a turn", 1000 * self.client_seconds, "ms"),
            ("errors", sum(self.errors.values()), "calls"),
        )
        return [*rows, *(Measurement("sessions", self.case, *figure) for figure in figures)]

    def table(self) -> Table:
        title = f"{self.case}: {self.turns} turns of {self.due} that were due"
        table = Table(title=title, title_justify="left")
        for head in ("measure", "count", "p50 ms", "p95 ms", "p99 ms"):
            table.add_column(head, justify="left" if head == "measure" else "right")
        for name, times in self.times:
            table.add_row(name, str(times.count), f"{times.p50:.1f}", f"{times.p95:.1f}", f"{times.p99:.1f}")
        for name, size in (("server", self.server_bytes), ("agent", self.client_bytes)):
            table.add_row(f"{name}, kB a session", f"{size / 1000:.0f}", "", "", "")
        for name, spent in (("server", self.server_seconds), ("agent", self.client_seconds)):
            table.add_row(f"{name}, processor ms a turn", f"{1000 * spent:.1f}", "", "", "")
        counts = [*self.sources.items(), *self.decisions.items(), *self.errors.items()]
        for name, count in sorted(counts):
            table.add_row(name, str(count), "", "", "")
        return table


def reported(
    run: SessionsRun, answers: Sequence[Answer], server_bytes: int, server_seconds: float
) -> SessionsReport:
    """Of all processes together. ``server_bytes``, ``server_seconds``: of all sessions, and of all turns."""
    sources: Counter[str] = Counter()
    decisions: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    for answer in answers:
        sources.update(answer.sources)
        decisions.update(answer.decisions)
        errors.update(answer.errors)
    client_bytes = sum(answer.resident_after - answer.resident_before for answer in answers)
    turns = sum(answer.turns for answer in answers)
    client_seconds = sum(answer.processor_seconds for answer in answers)
    held = "whole" if run.whole else "predicted"
    agents = "agents elsewhere" if run.agents_elsewhere else "agents here"
    return SessionsReport(
        f"{run.sessions} sessions, a turn every {run.turn_seconds:g} s, rungs {held}, {agents}",
        run.sessions,
        sum(answer.due for answer in answers),
        turns,
        Percentiles.of([each for answer in answers for each in answer.leads_ms]),
        Percentiles.of([each for answer in answers for each in answer.last_leads_ms]),
        Percentiles.of([each for answer in answers for each in answer.reads_ms]),
        Percentiles.of([each for answer in answers for each in answer.writes_ms]),
        dict(sources),
        dict(decisions),
        dict(errors),
        server_bytes / run.sessions,
        client_bytes / run.sessions,
        server_seconds / max(turns, 1),
        client_seconds / max(turns, 1),
    )
