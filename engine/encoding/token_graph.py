"""A graph that gives every token its vector, run on ONNX Runtime over texts of any lengths."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.engine.encoding.exported import ExportedEncoder
from precall.engine.encoding.onnx_encoder import default_threads
from precall.engine.encoding.onnx_library import load_onnxruntime
from precall.engine.encoding.token_export import TOKEN_OUTPUT
from precall.engine.errors import ConfigurationError, ModelUnavailable

PASS_TOKENS: Final = 512
"""Padded tokens of one forward pass, as the encoder's: beyond it a processor only loses."""


class TokenGraph:
    """Thread-safe. The vectors of a text do not depend on the texts beside it (to 1e-5)."""

    def __init__(self, exported: ExportedEncoder, threads: int | None = None) -> None:
        """Load it. Raises ``ConfigurationError`` (``threads`` below 1), ``ModelUnavailable`` (bad files)."""
        if threads is not None and threads < 1:
            raise ConfigurationError(f"reranker threads must be at least 1, not {threads}")
        onnxruntime = load_onnxruntime()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads if threads is not None else default_threads()
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # As for the encoder: spinning takes from others what it gains, and no two batches have one shape.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.enable_mem_pattern = False
        try:
            self._session = onnxruntime.InferenceSession(
                str(exported.graph), options, providers=["CPUExecutionProvider"]
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
        for rows in _padded_passes([len(text) for text in texts]):
            for row, computed in zip(rows, self._forward([texts[row] for row in rows]), strict=True):
                vectors[row] = computed[: len(texts[row])]
        return vectors

    def _forward(self, texts: Sequence[NDArray[np.int64]]) -> NDArray[np.float32]:
        longest = max(len(ids) for ids in texts)
        padded = np.zeros((len(texts), longest), dtype=np.int64)
        mask = np.zeros_like(padded)
        for row, ids in enumerate(texts):
            padded[row, : len(ids)] = ids
            mask[row, : len(ids)] = 1
        try:
            (vectors,) = self._session.run([TOKEN_OUTPUT], {"input_ids": padded, "attention_mask": mask})
        except Exception as error:
            raise ModelUnavailable(
                f"the reranker's runtime failed on {len(texts)} texts ({type(error).__name__}); "
                "send them again, fewer at a time if this goes on"
            ) from error
        return np.asarray(vectors, dtype=np.float32)


def _padded_passes(lengths: Sequence[int]) -> list[list[int]]:
    """Rows by ascending length, so that little is padding, cut where the next would be over the limit."""
    passes: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if not passes or (len(passes[-1]) + 1) * lengths[row] > PASS_TOKENS:
            passes.append([])
        passes[-1].append(row)
    return passes
