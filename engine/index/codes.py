"""int8 codes in FAISS over dense slots: finds candidates, which the caller rescores."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from precall.engine.index.quantizer import Ranges

if TYPE_CHECKING:
    import faiss


class CodeIndex:
    """A flat `QT_8bit` index by inner product. Not thread-safe; its owner locks.

    Slots are FAISS row numbers: ``add`` appends, ``remove`` moves the last row into the hole, so that a
    removed vector's code is gone at once and a search needs no filter.
    """

    def __init__(self, ranges: Ranges) -> None:
        import faiss

        dimension = len(ranges.minimum)
        index = faiss.IndexScalarQuantizer(
            dimension, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
        )
        # FAISS keeps a trained QT_8bit as the minima followed by the spans.
        faiss.copy_array_to_vector(np.concatenate([ranges.minimum, ranges.span]), index.sq.trained)
        index.is_trained = True
        self._index: faiss.IndexScalarQuantizer = index
        self.trained_on = 0

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def add(self, vectors: NDArray[np.floating]) -> None:
        """Append unit vectors, shape ``(n, d)``."""
        self._index.add(np.ascontiguousarray(vectors, np.float32))

    def remove(self, slot: int) -> None:
        """Drop a row; the last one takes its slot."""
        import faiss

        index: Any = self._index
        size, last = index.code_size, len(self) - 1
        codes = faiss.rev_swig_ptr(index.codes.data(), (last + 1) * size).reshape(last + 1, size)
        codes[slot] = codes[last]
        codes[last] = 0
        index.codes.resize(last * size)
        index.ntotal = last

    def search(self, query: NDArray[np.float32], count: int) -> NDArray[np.int64]:
        """At most ``count`` slots of the best codes for one query of shape ``(d,)``, best first."""
        _, slots = self._index.search(query.reshape(1, -1), min(count, len(self)))
        found: NDArray[np.int64] = slots[0]
        return found[found >= 0]
