"""Arrivals as a production service saw them: the Azure LLM inference traces of 2023 (CC BY 4.0).

Patel et al., "Splitwise: Efficient Generative LLM Inference Using Phase Splitting", ISCA 2024. The columns
are TIMESTAMP, ContextTokens and GeneratedTokens; what was said is not in them.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

_DIGITS_OF_TIME = 26
"""``2023-11-16 18:15:46.6805900`` has seven decimals and a datetime takes six."""


class TraceFormatError(ValueError):
    """A file is no Azure trace; the message names the file and the line."""


@dataclass(frozen=True, slots=True)
class TraceArrival:
    """``seconds`` since the first arrival of the slice; ``tokens`` of its context, at least 1."""

    seconds: float
    tokens: int


def load_trace(path: Path) -> tuple[TraceArrival, ...]:
    """Every arrival, in order of time.

    Raises TraceFormatError for what is no trace and OSError for what cannot be read.
    """
    arrivals: list[tuple[datetime, int]] = []
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        for row in rows:
            try:
                time = datetime.fromisoformat(row["TIMESTAMP"][:_DIGITS_OF_TIME])
                tokens = int(row["ContextTokens"])
            except (KeyError, TypeError, ValueError) as error:
                raise TraceFormatError(
                    f"{path}, line {rows.line_num}: expected TIMESTAMP, ContextTokens, GeneratedTokens"
                ) from error
            arrivals.append((time, max(tokens, 1)))
    if not arrivals:
        raise TraceFormatError(f"{path}: holds no arrival")
    arrivals.sort(key=lambda arrival: arrival[0])
    begin = arrivals[0][0]
    return tuple(TraceArrival((time - begin).total_seconds(), tokens) for time, tokens in arrivals)


def cut_slice(trace: Sequence[TraceArrival], first: int, count: int) -> tuple[TraceArrival, ...]:
    """``count`` arrivals from number ``first`` on, the earliest of them at 0 s."""
    cut = trace[first : first + count]
    return tuple(TraceArrival(arrival.seconds - cut[0].seconds, arrival.tokens) for arrival in cut)


def paced(trace: Sequence[TraceArrival], arrivals_a_second: float) -> tuple[TraceArrival, ...]:
    """The same bursts and gaps, time stretched so that the mean rate is the given one.

    Needs two arrivals or more, not all at the same moment.
    """
    own_rate = (len(trace) - 1) / (trace[-1].seconds - trace[0].seconds)
    factor = own_rate / arrivals_a_second
    return tuple(TraceArrival(arrival.seconds * factor, arrival.tokens) for arrival in trace)


def scaled_tokens(arrival: TraceArrival, divisor: float, most: int) -> int:
    """The context's length brought down to an embedding model's: divided, and between 3 and ``most``."""
    return min(max(round(arrival.tokens / divisor), 3), most)
