"""A graph that gives every token its vector, run on ONNX Runtime over texts of any lengths."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from precall.engine.encoding.exported import ExportedEncoder
from precall.engine.encoding.onnx_encoder import default_threads
from precall.engine.encoding.onnx_library import open_session
from precall.engine.encoding.padded_texts import padded_feeds, padded_passes
from precall.engine.encoding.token_export import TOKEN_OUTPUT
from precall.engine.errors import ConfigurationError, ModelUnavailable


class TokenGraph:
    """Thread-safe. The vectors of a text do not depend on the texts beside it (to 1e-5)."""

    def __init__(self, exported: ExportedEncoder, threads: int | None = None) -> None:
        """Load it. Raises ``ConfigurationError`` (``threads`` below 1), ``ModelUnavailable`` (bad files)."""
        if threads is not None and threads < 1:
            raise ConfigurationError(f"reranker threads must be at least 1, not {threads}")
        try:
            self._session = open_session(
                exported.graph, threads if threads is not None else default_threads()
            )
        except Exception as error:
            raise ModelUnavailable(
                f"the exported reranker in {exported.folder} cannot be loaded ({type(error).__name__}): "
                "delete that folder, and the next start exports it again"
            ) from error

    def token_vectors(self, texts: Sequence[NDArray[np.int64]]) -> list[NDArray[np.float32]]:
        """For each array of token ids its unit vectors, float32, shape ``(tokens, d)``, in the same order.

        Raises ``ModelUnavailable`` when the runtime fails.
        """
        vectors: list[NDArray[np.float32]] = [np.empty((0, 0), np.float32)] * len(texts)
        for rows in padded_passes([len(text) for text in texts]):
            for row, computed in zip(rows, self._forward([texts[row] for row in rows]), strict=True):
                vectors[row] = computed[: len(texts[row])]
        return vectors

    def _forward(self, texts: Sequence[NDArray[np.int64]]) -> NDArray[np.float32]:
        try:
            (vectors,) = self._session.run([TOKEN_OUTPUT], padded_feeds(texts))
        except Exception as error:
            raise ModelUnavailable(
                f"the reranker's runtime failed on {len(texts)} texts ({type(error).__name__}); "
                "send them again, fewer at a time if this goes on"
            ) from error
        return np.asarray(vectors, dtype=np.float32)
