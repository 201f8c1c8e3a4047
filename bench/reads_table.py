"""A run of reads for a reader at a terminal."""

import math
from collections.abc import Iterator, Mapping
from typing import Final

from rich.console import Console
from rich.table import Table

from precall.bench.reads_report import PROMISE_MS, ReadsReport

_HELD: Final = "answered by the cache alone, of all reads"
_WRONG: Final = "lost evidence that the server's ten have; no evidence known: one of its first three"


def print_report(result: ReadsReport, console: Console) -> None:
    """The figures, and for more than one kind of read, or predictor, what each of them came to."""
    console.print(_figures(result))
    if len(result.kinds) > 1:
        console.print(_kinds(result))
    if result.stages:
        console.print(_stages(result))
    if len(result.predictors) > 1:
        console.print(_predictors(result))
    if result.setting.held_out:
        console.print(f"held out: {result.setting.held_out}")


def _figures(result: ReadsReport) -> Table:
    setting = result.setting
    way = " typed" if setting.typed else ""
    items = "" if setting.max_items is None else f", at most {setting.max_items} items held"
    table = Table(
        title=(
            f"{setting.profile}: {result.reads} reads{way}, {setting.memories} memories{items}, "
            f"server {setting.rtt_ms:g} ms away"
        ),
        title_justify="left",
    )
    table.add_column("measure")
    table.add_column("value", justify="right")
    table.add_column("what it says")
    for row in _rows(result):
        table.add_row(*row)
    return table


def _rows(result: ReadsReport) -> Iterator[tuple[str, str, str]]:
    verdict = "under" if result.keeps_promise else "NOT under"
    pushed = sum(share.pushed_items for share in result.predictors.values())
    yield "p50", f"{result.p50_ms:.2f} ms", "over all reads, hits and misses, the query's embedding inside"
    yield "p75", f"{result.p75_ms:.2f} ms", f"{verdict} {PROMISE_MS:g} ms"
    yield "p95", f"{result.p95_ms:.2f} ms", ""
    yield "p99", f"{result.p99_ms:.2f} ms", f"the embedding alone has p50 {result.encode_p50_ms:.2f} ms"
    yield "no cache", f"{result.server_p75_ms:.2f} ms", "p75 of asking the server over the same link instead"
    yield "hit rate", f"{result.hit_rate:.1%}", _HELD
    yield "wrong serves", f"{result.wrong_serve_rate:.2%}", _WRONG
    yield "first three", f"{result.lost_top_rate:.2%}", "of all reads lost one of them, whatever the evidence"
    late = f"the server did not answer in time; it says so; {result.degraded_wrong_rate:.2%} lack something"
    yield "degraded", f"{result.degraded_rate:.1%}", late
    yield "same ten", f"{result.identical_top_10:.1%}", "the read's ten are the server's, in order"
    recall = f"of the evidence; the server {result.server_recall_at_10:.3f}"
    yield "recall@10", f"{result.recall_at_10:.3f}", recall
    yield "opening p95", f"{result.opening_p95_ms:.0f} ms", "till what is held whole was stored in the agent"
    if not math.isnan(result.lead_p95_ms):
        yield "lead p95", f"{result.lead_p95_ms:.0f} ms", "from what was said to its push stored in the agent"
    yield "held items", f"{result.held_items_p50:.0f}", "at a conversation's end, p50"
    yield "pushed items", f"{pushed}", ", ".join(result.predictors)
    yield "used items", f"{result.used_items}", "distinct memories that a read returned from the cache"
    yield "decisions", "", _names(result.decisions)


def _kinds(result: ReadsReport) -> Table:
    table = Table(title="by kind of read", title_justify="left")
    for head in ("kind", "reads", "hit rate", "wrong serves", "p95 ms"):
        table.add_column(head, justify="left" if head == "kind" else "right")
    for name, kind in result.kinds.items():
        shares = f"{kind.hit_rate:.1%}", f"{kind.wrong_serve_rate:.2%}"
        table.add_row(name, str(kind.reads), *shares, f"{kind.p95_ms:.1f}")
    return table


def _stages(result: ReadsReport) -> Table:
    table = Table(title="where the time goes: p50 / p95 in ms", title_justify="left")
    for head in ("decision", "reads", "encode", "look-up", "server"):
        table.add_column(head, justify="left" if head == "decision" else "right")
    for decision, times in result.stages.items():
        spent = (f"{times.p50_ms[stage]:.1f} / {times.p95_ms[stage]:.1f}" for stage in times.p50_ms)
        table.add_row(decision, str(times.reads), *spent)
    return table


def _predictors(result: ReadsReport) -> Table:
    table = Table(title="by predictor", title_justify="left")
    for head in ("predictor", "items pushed", "items used", "hits whose best item it brought"):
        table.add_column(head, justify="left" if head == "predictor" else "right")
    for name, share in result.predictors.items():
        table.add_row(name, str(share.pushed_items), str(share.used_items), str(share.hits))
    return table


def _names(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
