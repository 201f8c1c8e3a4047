"""ONNX Runtime keeps to itself."""

import os
import subprocess
import sys
from pathlib import Path


def test_it_leaves_no_trace_in_the_home_folder(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "ORT_DISABLE_TELEMETRY"} | {
        "HOME": str(tmp_path)
    }
    environment.pop("XDG_CACHE_HOME", None)
    code = "from precall.engine.encoding.onnx_library import load_onnxruntime; load_onnxruntime()"
    subprocess.run([sys.executable, "-P", "-c", code], env=environment, check=True)
    assert list(tmp_path.rglob("*")) == []
