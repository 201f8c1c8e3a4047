"""ONNX Runtime, imported so that it keeps to itself."""

import os
from types import ModuleType


def load_onnxruntime() -> ModuleType:
    """The library, its telemetry off.

    From 1.32 on it notes the process, its path and the machine for its maker as soon as it is imported;
    switching that off afterwards is too late. Whoever wants it sets ``ORT_DISABLE_TELEMETRY=0``.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    module: ModuleType = onnxruntime
    return module
