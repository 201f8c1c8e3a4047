"""Loaded by vLLM in each of its processes: none of them outlives the server that started it.

vLLM's engine does not notice when its parent is killed. It would keep the GPU's memory, and the server that
is started next would find none. ``pyproject.toml`` names this as a plugin (``vllm.general_plugins``).
"""

import multiprocessing
import os
import signal
import threading

MARK = "PRECALL_ENDS_VLLM_WITH_ITSELF"
"""Set by us before an engine is started: other people's engines are none of our business."""


def end_with_parent() -> None:
    """From now on, this process is killed when its parent dies. Does nothing in a process without the mark,
    nor in one that ``multiprocessing`` did not start. Twice does no harm.
    """
    parent = multiprocessing.parent_process()
    if parent is None or MARK not in os.environ:
        return

    def wait() -> None:
        parent.join()
        # Nothing is left to be saved, and a model in a native call would not see a softer signal.
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, name="precall-parent-watch", daemon=True).start()
