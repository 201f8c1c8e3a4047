import os
import signal
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from precall.engine.encoding import vllm_plugin
from precall.engine.encoding.vllm_plugin import MARK, end_with_parent

# A parent whose child says its own id when the plugin has been loaded, and then waits for ever.
_FAMILY = """
import multiprocessing, os, threading
from precall.engine.encoding.vllm_plugin import end_with_parent

def child():
    end_with_parent()
    print(os.getpid(), flush=True)
    threading.Event().wait()

if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=child)
    process.start()
    process.join()
"""


def test_a_child_goes_with_its_killed_parent(tmp_path: Path) -> None:
    script = tmp_path / "family.py"
    script.write_text(_FAMILY)
    path = os.pathsep.join(entry for entry in sys.path if entry)
    with subprocess.Popen(
        [sys.executable, "-P", str(script)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": path, MARK: "1"},
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        os.kill(parent.pid, signal.SIGKILL)
        try:
            # The pipe ends when nobody is left who could write into it.
            assert parent.communicate(timeout=30) == ("", None)
        except subprocess.TimeoutExpired:
            os.kill(child, signal.SIGKILL)
            raise


def test_without_the_mark_and_without_a_parent_nothing_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    monkeypatch.setattr(vllm_plugin.threading, "Thread", lambda **_: started.append(1))
    monkeypatch.setenv(MARK, "1")
    end_with_parent()
    monkeypatch.setattr(vllm_plugin.multiprocessing, "parent_process", lambda: object())
    monkeypatch.delenv(MARK)
    end_with_parent()
    assert not started


def test_the_installed_package_names_the_plugin_to_vllm() -> None:
    plugins = [plugin for plugin in entry_points(group="vllm.general_plugins") if plugin.name == "precall"]
    assert [plugin.load() for plugin in plugins] == [end_with_parent]
