"""The index over vectors of real texts: turns of conversations, abstracts, and paragraphs, asked by the
questions about them.

    python -P -m precall.bench.index_real --data ../shared/data --vectors FOLDER [--peer-python PYTHON]

Nine thousand texts of LoCoMo, SciFact, XQuAD and MADial in an order by chance, by the server's default model.
They are embedded once and kept in the folder. Queries are the sets' own questions, which are no
memory's words; nothing of the index is fitted to them.
"""

import argparse
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.bench.index import measurements_of, report
from precall.bench.index_corpus import GivenVectors
from precall.bench.index_peers import measure_peers
from precall.bench.index_run import IndexRun, run_index
from precall.bench.index_targets import peer_verdicts, verdicts
from precall.bench.quality_sets import load_sets
from precall.bench.quality_vectors import VectorCache
from precall.bench.results import Measurement, append_results
from precall.engine.encoding.encoder import TextRole
from precall.engine.encoding.loading import load_default_encoder

SETS: Final = ("locomo", "scifact", "xquad", "madial")
SIZES: Final = (1_000, 9_000)
_SEED: Final = 6


def real_vectors(data: Path, cache: VectorCache) -> GivenVectors:
    """The texts of all sets. Raises what `load_sets` raises, and the encoder's error for a text."""
    sets = load_sets(data, SETS)
    memories = [cache.vectors(each.memories, TextRole.DOCUMENT) for each in sets]
    queries = [cache.vectors([query.text for query in each.queries], TextRole.QUERY) for each in sets]
    generator = np.random.default_rng(_SEED)

    def shuffled(parts: list[NDArray[np.float32]]) -> NDArray[np.float32]:
        rows = np.concatenate(parts)
        rows = rows[generator.permutation(len(rows))]
        unit: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit

    return GivenVectors("real texts", shuffled(memories), shuffled(queries))


def measure(source: GivenVectors, peers_python: Path | None, run: IndexRun) -> list[Measurement]:
    """Measure and print; rows of every size, and of the peers at the largest. Raises PeersFailed."""
    measurements: list[Measurement] = []
    for size in SIZES:
        figures = run_index(source, size, run)
        measurements += (rows := measurements_of(figures))
        report(rows, verdicts(figures))
    if peers_python is not None:
        measurements += (rows := measure_peers(source, SIZES[-1], peers_python))
        report(rows, peer_verdicts(rows))
    return measurements


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with a folder a set")
    parser.add_argument("--vectors", type=Path, required=True, help="folder that keeps what was embedded")
    parser.add_argument("--peer-python", type=Path, help="of the peers' environment: .venv-index-peers")
    parser.add_argument("--csv", type=Path, help="append the rows to this file")
    arguments = parser.parse_args()
    cache = VectorCache(load_default_encoder().encoder, arguments.vectors)
    measurements = measure(real_vectors(arguments.data, cache), arguments.peer_python, IndexRun())
    if arguments.csv:
        append_results(arguments.csv, measurements)


if __name__ == "__main__":
    main()
