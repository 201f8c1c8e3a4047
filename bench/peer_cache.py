"""`precall bench peer-cache`: precall's cache beside maximem-synap's `AnticipationCache`, on the same items.

The peer lives in an environment of its own (`make .venv-peer-cache/.installed`), whose Python runs
`tools/peer_cache.py`; it matches by words, and by meaning with the vectors that precall has. Its bars were
tuned for another model of the same family, so it is asked twice by meaning: as it is shipped, and with a bar
fitted on the conversations that precall's judgement is fitted on, to `AIM` wrong ones. Both caches hold the
same items at every question, namely those that a server would have pushed by then; of what a server tells
beside the items, ours is told all, and the peer the queries that brought them, which is all that it takes.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console

from precall.bench.coverage_fit import bar_for
from precall.bench.machine import describe_machine
from precall.bench.peer_cache_cases import CacheCase, Served, Verdict, cases
from precall.bench.peer_cache_peer import SCRIPT, Peer, PeerCacheFailed
from precall.bench.peer_cache_report import OURS, LookupTime, Outcome, PeerCacheReport, outcome, print_report
from precall.bench.peer_cache_stage import PeerCacheRun, PeerCacheStage
from precall.bench.pushed_cache import PushedCache
from precall.bench.results import append_results
from precall.bench.stopwatch import time_in_turns
from precall.client.lookup import Lookup
from precall.engine.index.partition import Partition, PartitionSettings

FITTED_BAR: Final = "meaning, bar fitted"
AIM: Final = 0.01
"""Wrong answers that a fitted bar allows on what it is fitted on, as a share of all questions."""

_ROUNDS: Final = 200


def main(
    run: PeerCacheRun,
    *,
    json_path: Path | None = None,
    csv_path: Path | None = None,
    console: Console | None = None,
) -> PeerCacheReport:
    """Measure, print, write what was asked for. Raises PeerCacheFailed and what the loaders of sets raise."""
    console = console or Console()
    if not SCRIPT.exists():
        raise PeerCacheFailed(f"{SCRIPT} is missing: the peer is measured from a checkout")
    stage = PeerCacheStage(run)
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder:
        peer = Peer(run.peer_python, Path(folder), stage)
        for held in run.held:
            fitted = list(cases(stage.rung, stage.fitted, held))
            asked = list(cases(stage.rung, stage.exchanges, held))
            answers = peer.answers([*fitted, *asked])
            bar = _bar(fitted, answers[FITTED_BAR][: len(fitted)])
            by_cache = {OURS: [case.ours for case in asked]}
            by_cache |= {name: served[len(fitted) :] for name, served in answers.items()}
            by_cache[FITTED_BAR] = [replace(each, sure=each.score >= bar) for each in by_cache[FITTED_BAR]]
            for name, served in by_cache.items():
                # A fitted bar is one: there is no second one for what is doubtful.
                for doubtful in (False,) if name == FITTED_BAR else (False, True):
                    outcomes.append(outcome(name, held, asked, served, doubtful))
            console.print(f"{held} held: {len(asked)} questions")
        times = [*_our_times(run, stage), *peer.times(run.timed)]
    report = PeerCacheReport(tuple(outcomes), tuple(times))
    print_report(report, console)
    if json_path is not None:
        report.write(json_path, describe_machine())
    if csv_path is not None:
        append_results(csv_path, report.measurements())
    return report


def _bar(asked: Sequence[CacheCase], served: Sequence[Served]) -> float:
    """The lowest score from which on the peer serves, so that no more than `AIM` of these are wrong."""
    right = [
        each.verdict(case, doubtful=True) is Verdict.RIGHT for case, each in zip(asked, served, strict=True)
    ]
    scores = [float("-inf") if each.rows is None else each.score for each in served]
    return bar_for(np.array(scores), np.array(right), AIM)


def _our_times(run: PeerCacheRun, stage: PeerCacheStage) -> list[LookupTime]:
    items = stage.padded(max(run.timed)).indexed()
    questions = stage.timed_questions
    times = []
    for size in run.timed:
        partition = Partition(items[0].memory.rung, stage.rung.card.dimension, PartitionSettings())
        partition.apply(added=items[:size])
        cache = PushedCache(replace(stage.rung, partition=partition), size)
        cache.hear(questions[0], partial=False)  # so that there is a claim to judge by
        cache.hold([each.memory.id for each in items[:size]])
        look_up = partial(_look_up, cache, questions)
        timing = time_in_turns({OURS: look_up}, rounds=_ROUNDS)[OURS]
        times.append(LookupTime(OURS, size, timing.p50_ms))
    return times


def _look_up(cache: PushedCache, questions: Sequence[str], turn: int) -> Lookup:
    return cache.lookup(questions[turn % len(questions)])
