"""int8 codes of rows of a score space, and which rows they fit badly."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from precall.engine.index import quantizer
from precall.engine.index.faiss_library import faiss_library
from precall.engine.index.quantizer import Ranges
from precall.engine.index.score_space import HEADROOM, ScoreSpace

_TOLERATED: Final = 1.6
"""Times the median error among the rows that the ranges were trained on: more is a misfit's."""

_UNSEEN: Final = 1.05
"""Times the largest error among them, where none was a misfit: others may be a little worse."""


@dataclass(frozen=True, slots=True)
class Coded:
    """``codes``: uint8, ``(n, width)``. ``misfits``: bool, ``(n,)``: whose code is off by more than
    ``tolerance``.
    """

    codes: NDArray[np.uint8]
    misfits: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Asked:
    """A query as the codes themselves are multiplied with, float32, ``(width,)``: a decoded row's product
    with the query is ``vector . (code - 128) + offset``.
    """

    vector: NDArray[np.float32]
    offset: float


class Coder:
    """A trained `QT_8bit` over one score space. Immutable once made, and safe to use from any thread."""

    def __init__(
        self,
        vectors: NDArray[np.floating],
        importance: NDArray[np.float32],
        event_seconds: NDArray[np.float64],
    ) -> None:
        """Train on unit vectors, shape ``(n, d)``, n >= 1, with their importances and event times."""
        # Nearly all events lie before it, and a few far in the future do not move it.
        self.space = ScoreSpace(vectors.shape[1], float(np.quantile(event_seconds, 0.99)))
        self.ranges = _lifted(quantizer.train(vectors), self.space)
        self._quantizer = flat_index(self.ranges)
        # FAISS decodes a code as minimum + span * (code + 0.5) / 255.
        self._step = self.ranges.span / np.float32(255)
        self._middle = self.ranges.minimum + np.float32(128.5) * self._step
        self.tolerance = float("inf")
        rows = self.space.rows(vectors, importance, event_seconds)
        errors = self._errors(rows, self._quantizer.sa_encode(rows))
        self.tolerance = min(_UNSEEN * float(errors.max()), _TOLERATED * float(np.median(errors))) + 1e-6

    def encode(self, rows: NDArray[np.float32]) -> Coded:
        """Codes of rows of the space, shape ``(n, width)``."""
        codes = self._quantizer.sa_encode(rows)
        late = rows[:, self.space.dimension + 1] > HEADROOM
        return Coded(codes, (self._errors(rows, codes) > self.tolerance) | late)

    def decode(self, codes: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Rows that codes stand for, shape ``(n, width)``."""
        rows: NDArray[np.float32] = self._quantizer.sa_decode(codes)
        return rows

    def ask(self, query: NDArray[np.float32]) -> Asked:
        """Put the ranges into a query of the space, so that a scan need not decode every code."""
        return Asked(query * self._step, float(np.dot(query, self._middle)))

    def _errors(self, rows: NDArray[np.float32], codes: NDArray[np.uint8]) -> NDArray[np.float32]:
        dimension = self.space.dimension
        lost: NDArray[np.float32] = rows[:, :dimension] - self.decode(codes)[:, :dimension]
        errors: NDArray[np.float32] = np.sqrt(np.vecdot(lost, lost))
        return errors


def flat_index(ranges: Ranges) -> Any:
    """An empty FAISS index by inner product whose codes use these ranges."""
    faiss = faiss_library()
    index = faiss.IndexScalarQuantizer(
        len(ranges.minimum), faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
    )
    # FAISS keeps a trained QT_8bit as the minima followed by the spans.
    faiss.copy_array_to_vector(np.concatenate([ranges.minimum, ranges.span]), index.sq.trained)
    index.is_trained = True
    return index


def scanned_index(width: int) -> Any:
    """An empty FAISS index by inner product over codes as they stand, for queries of `Coder.ask`."""
    faiss = faiss_library()
    index = faiss.IndexScalarQuantizer(width, scanned_kind(), faiss.METRIC_INNER_PRODUCT)
    index.is_trained = True
    return index


def scanned_kind() -> int:
    """FAISS' name for codes that are multiplied as they stand, in three quarters of the time that decoding
    them takes; of rows whose width has `score_space.SPARE_LANES`.
    """
    kind: int = faiss_library().ScalarQuantizer.QT_8bit_direct_signed
    return kind


def _lifted(ranges: Ranges, space: ScoreSpace) -> Ranges:
    """The vectors' ranges, with those of importance and freshness and of the padding after them."""
    padding = space.width - space.dimension - 2
    return Ranges(
        np.concatenate([ranges.minimum, np.zeros(2 + padding, np.float32)]),
        np.concatenate([ranges.span, np.asarray([1, HEADROOM, *[1] * padding], np.float32)]),
    )
