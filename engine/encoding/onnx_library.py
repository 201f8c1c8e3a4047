"""ONNX Runtime, imported so that it keeps to itself."""

import os
from pathlib import Path
from types import ModuleType
from typing import Any


def load_onnxruntime() -> ModuleType:
    """The library, its telemetry off.

    From 1.32 on it notes the process, its path and the machine for its maker as soon as it is imported;
    switching that off afterwards is too late. Whoever wants it sets ``ORT_DISABLE_TELEMETRY=0``.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    module: ModuleType = onnxruntime
    return module


def open_session(graph: Path, threads: int) -> Any:
    """An ``InferenceSession`` on the processor; raises whatever the library does for a bad file.

    The runtime's threads take the priority of the thread that calls this.
    """
    onnxruntime = load_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Spinning saves 1 ms of 6 on an idle machine and costs 15 when another process wants the same cores.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Every batch has another shape: remembered memory patterns would only pile up.
    options.enable_mem_pattern = False
    return onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
