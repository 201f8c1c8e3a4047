"""Many schedules, in several processes; each that breaks a promise is named by its seed.

PYTHONPATH=. python -P -m tests.simulation --schedules 100000
PYTHONPATH=. python -P -m tests.simulation --seed 4711
"""

import argparse
import os
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Final

from tests.simulation.running import Totals, prepare_process, run, run_all

_CHUNK: Final = 50
_TOLD_EVERY: Final = 1000


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--schedules", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, help="this one schedule alone, with the traceback of its failure")
    chosen = parser.parse_args(arguments)
    if chosen.seed is not None:
        print(run(chosen.seed))
        return 0
    totals = _run_many(range(chosen.first, chosen.first + chosen.schedules), chosen.processes)
    print(totals)
    return 1 if totals.failures else 0


def _run_many(seeds: range, processes: int) -> Totals:
    totals, began = Totals(), time.monotonic()
    chunks = [seeds[start : start + _CHUNK] for start in range(0, len(seeds), _CHUNK)]
    with ProcessPoolExecutor(processes, initializer=prepare_process) as pool:
        for part in pool.map(run_all, chunks):
            totals += part
            _tell(part.failures)
            if totals.schedules % _TOLD_EVERY == 0:
                print(f"{totals.schedules} schedules in {time.monotonic() - began:.0f} s", flush=True)
    return totals


def _tell(failures: Iterable[str]) -> None:
    for failure in failures:
        print(failure, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
