"""Where the vectors of an index come from: drawn from a seed, or of real texts."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from precall.bench.index_memories import CHUNK, Corpus


class VectorSource(Protocol):
    """Unit vectors by number, and queries that are no memory's own vector."""

    says: str
    """What the vectors are, in a few words."""

    dimension: int

    def vectors(self, begin: int, end: int) -> NDArray[np.float32]:
        """Those from ``begin`` to before ``end``, ``(n, dimension)``, within one multiple of `CHUNK`."""
        ...

    def queries(self, count: int) -> NDArray[np.float32]:
        """Unit vectors, shape ``(count, dimension)``."""
        ...


class DrawnVectors:
    """Those of `Corpus`, as many as are asked for."""

    def __init__(self, dimension: int) -> None:
        self.says = "drawn in topics"
        self.dimension = dimension
        self._corpus = Corpus(dimension)

    def vectors(self, begin: int, end: int) -> NDArray[np.float32]:
        part, offset = divmod(begin, CHUNK)
        if end - part * CHUNK > CHUNK:
            raise ValueError(f"{begin} to {end} lie in two chunks of {CHUNK}")
        return self._corpus.vectors(CHUNK, part=1 + part)[offset : end - part * CHUNK]

    def queries(self, count: int) -> NDArray[np.float32]:
        return self._corpus.queries(count)


class GivenVectors:
    """Vectors of texts, and of queries embedded as queries; float32, ``(n, dimension)``."""

    def __init__(self, says: str, vectors: NDArray[np.float32], queries: NDArray[np.float32]) -> None:
        self.says = says
        self.dimension = vectors.shape[1]
        self._vectors = vectors
        self._queries = queries

    def __len__(self) -> int:
        return len(self._vectors)

    def vectors(self, begin: int, end: int) -> NDArray[np.float32]:
        if end > len(self):
            raise ValueError(f"there are {len(self)} vectors of {self.says}, not {end}")
        return self._vectors[begin:end]

    def queries(self, count: int) -> NDArray[np.float32]:
        chosen = np.linspace(0, len(self._queries) - 1, count).astype(np.int64)
        return self._queries[chosen]
