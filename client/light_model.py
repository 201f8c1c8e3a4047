"""A small model and a map into the space of a model that is too large for this process."""

import numpy as np
from numpy.typing import NDArray

from precall.client.encoder import EncodedQuery, TextModel
from precall.client.encoder_store import EncoderDamaged, LearnedMap, StoredEncoder
from precall.client.errors import NumericsError
from precall.scoring import vectors
from precall.scoring.approximation import UNREADABLE
from precall.scoring.query_terms import QueryTerms


class LightModel:
    """Implements ``TextModel``. Its vectors are approximations and say so: none is ever sent to the server.

    Raises EncoderDamaged when the map is not one from the small model's dimension to the announced one.
    """

    def __init__(self, stored: StoredEncoder, learned: LearnedMap, small: TextModel) -> None:
        self._small = small
        self._learned = learned
        self._model_fingerprint = stored.model_fingerprint
        self._rows = _read(stored, learned.dimension)
        try:
            self._mapped(small.encode("warm up").vector)
        except ValueError as error:
            raise EncoderDamaged(f"the encoder's map does not fit its small model: {error}") from error

    @property
    def model_fingerprint(self) -> str:
        return self._model_fingerprint

    def encode(self, text: str) -> EncodedQuery:
        """A query with a term of a script that the small model does not read is far from certain."""
        small = self._small.encode(text)
        try:
            vector = vectors.unit(self._mapped(small.vector))
        except ValueError as error:
            raise NumericsError(f"the local encoder failed: {error}") from error
        readable = QueryTerms.of(text).share_outside(self._learned.scripts) == 0.0
        return EncodedQuery(vector, small.truncated, self._learned.approximation if readable else UNREADABLE)

    def _mapped(self, small: NDArray[np.float32]) -> NDArray[np.float32]:
        mapped: NDArray[np.float32] = small @ self._rows[:-1] + self._rows[-1]
        return mapped


def _read(stored: StoredEncoder, dimension: int) -> NDArray[np.float32]:
    """float32, shape ``(small dimension + 1, dimension)``. Raises EncoderDamaged."""
    try:
        rows = np.load(stored.file(".npy"), allow_pickle=False)
    except (OSError, EOFError, ValueError) as error:
        raise EncoderDamaged(f"the encoder's map cannot be read: {error}") from error
    if rows.dtype != np.float32 or rows.ndim != 2 or rows.shape[1] != dimension:
        raise EncoderDamaged(f"the encoder's map is {rows.dtype}, {rows.shape}, not float32 to {dimension}")
    if not np.isfinite(rows).all():
        raise EncoderDamaged("the encoder's map holds NaN or infinity")
    return np.ascontiguousarray(rows)
