"""int8 codes in FAISS over dense slots: approximate cosines, each with the most it may be wrong by."""

from array import array
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precall.engine.index.quantizer import Ranges


@dataclass(frozen=True, slots=True)
class ApproximateCosines:
    """The best cosines by codes. ``slots``, ``cosines``: best first. ``errors``: of every slot, ``(size,)``.

    For a unit query and a slot's vector x: ``|cosine by its code - q.x| <= errors[slot]``.
    """

    slots: NDArray[np.int64]
    cosines: NDArray[np.float32]
    errors: NDArray[np.float32]

    def bounds(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Least and greatest cosine of every slot, both ``(size,)``, cut to [0, 1] as relevance cuts them."""
        least = np.zeros(len(self.errors), np.float32)
        farthest = self.cosines[-1] if len(self.slots) < len(self.errors) else np.float32(0)
        most = np.clip(farthest + self.errors, 0, 1)
        least[self.slots] = np.clip(self.cosines - self.errors[self.slots], 0, 1)
        most[self.slots] = np.clip(self.cosines + self.errors[self.slots], 0, 1)
        return least, most


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
        self._index: Any = index
        self._errors = array("f")
        self.added = 0

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def add(self, vectors: NDArray[np.floating]) -> None:
        """Append unit vectors, shape ``(n, d)``."""
        rows = np.ascontiguousarray(vectors, np.float32)
        codes = self._index.sa_encode(rows)
        lost = rows - self._index.sa_decode(codes)
        self._index.add_sa_codes(codes)
        # By Cauchy and Schwarz: |q.x - q.y| <= |x - y| for a unit q.
        self._errors.extend(np.linalg.norm(lost, axis=1).tolist())
        self.added += len(rows)

    def remove(self, slot: int) -> None:
        """Drop a row; the last one takes its slot."""
        import faiss

        index = self._index
        size, last = index.code_size, len(self) - 1
        codes = faiss.rev_swig_ptr(index.codes.data(), (last + 1) * size).reshape(last + 1, size)
        codes[slot] = codes[last]
        codes[last] = 0
        index.codes.resize(last * size)
        index.ntotal = last
        self._errors[slot] = self._errors[last]
        self._errors.pop()

    def nearest(self, query: NDArray[np.float32], count: int) -> ApproximateCosines:
        """The ``count`` best slots, or all, for one unit query of shape ``(d,)``; at least one is needed."""
        import faiss

        # A single query takes one thread; waking OpenMP's team for it costs milliseconds when cores are busy.
        faiss.omp_set_num_threads(1)
        cosines, slots = self._index.search(query.reshape(1, -1), min(count, len(self)))
        return ApproximateCosines(slots[0], cosines[0], np.frombuffer(self._errors, np.float32).copy())

    def check_integrity(self, vectors: NDArray[np.floating]) -> None:
        """Raise AssertionError unless every slot's code stands for that row of ``vectors``; for tests."""
        assert len(self) == len(self._errors) == len(vectors)
        assert self._index.codes.size() == len(self) * self._index.code_size
        if len(self):
            lost = np.linalg.norm(
                vectors.astype(np.float32) - self._index.reconstruct_n(0, len(self)), axis=1
            )
            assert np.allclose(lost, np.frombuffer(self._errors, np.float32), atol=1e-5)
