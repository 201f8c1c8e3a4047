"""The server's small model, exported, run by ONNX Runtime."""

import os
from importlib.util import find_spec

import numpy as np

from precall.client.encoder import EncodedQuery
from precall.client.encoder_store import StoredEncoder
from precall.client.errors import ExtraMissing, NumericsError
from precall.scoring import vectors


class OnnxModel:
    """Implements ``TextModel``: input_ids and attention_mask (int64, (1, n)) -> ``vectors`` (1, dimension).

    Raises ExtraMissing when ONNX Runtime or tokenizers is not installed.
    """

    def __init__(self, stored: StoredEncoder, *, threads: int) -> None:
        require_local_extra()
        # From 1.32 on ONNX Runtime notes the process and the machine for its maker as soon as it is imported.
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        import onnxruntime
        from tokenizers import Tokenizer

        self._stored = stored
        self._tokenizer = Tokenizer.from_file(str(stored.file(".json")))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(stored.max_tokens)
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = threads
        settings.inter_op_num_threads = 1
        # Waiting threads sleep instead of spinning: an agent's cores are wanted by others, and a spinning
        # pool made one query take 15 to 21 ms on two busy cores, a sleeping one takes 6.
        settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(
            str(stored.file(".onnx")), settings, providers=["CPUExecutionProvider"]
        )

    @property
    def model_fingerprint(self) -> str:
        return self._stored.model_fingerprint

    def encode(self, text: str) -> EncodedQuery:
        """Raises NumericsError when the model answers NaN, infinity or a zero vector."""
        encoding = self._tokenizer.encode(self._stored.prompted(text))
        inputs = {
            "input_ids": np.asarray([encoding.ids], np.int64),
            "attention_mask": np.asarray([encoding.attention_mask], np.int64),
        }
        (rows,) = self._session.run(["vectors"], inputs)
        try:
            vector = vectors.unit(rows[0])
        except ValueError as error:
            raise NumericsError(f"the local encoder failed: {error}") from error
        return EncodedQuery(vector, truncated=bool(encoding.overflowing))


def require_local_extra() -> None:
    """Raises ExtraMissing when what ``OnnxModel`` needs is not installed. Loads nothing."""
    missing = [name for name in ("onnxruntime", "tokenizers") if find_spec(name) is None]
    if missing:
        raise ExtraMissing(
            f"{missing[0]} is missing: install `precall[local]` to embed queries in this process, "
            "or set local_encoding=LocalEncoding.OFF"
        )
