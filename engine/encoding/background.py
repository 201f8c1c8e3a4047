"""A second worker for the same model, which gives way to the first.

On a processor a conversation need not wait for the batch that is being computed: another thread can compute
it at once, if the system lets that one go first. The threads of such a background worker are of low priority.
"""

import os
import sys
import threading
from typing import Final, Protocol, runtime_checkable

from precall.engine.encoding.encoder import Encoder

NICENESS: Final = 12
"""Steps of priority. Linux gives a thread 1.25 times the time of one that is a step nicer, so that these make
15 to 1: what the default weights make of CONVERSATION to INGEST.
"""
_MOST: Final = 19


@runtime_checkable
class HasBackground(Protocol):
    """An encoder whose passes can run beside each other, and be told which go first."""

    def for_background(self) -> Encoder:
        """Another worker of the same card and vectors, whose passes leave the processors to everybody else's.

        Its maker closes it. Blocks while it loads. Raises ``ModelUnavailable``.
        """
        ...


def give_way() -> None:
    """From now on the calling thread, and threads that it starts, run after those of normal priority.

    Where the system knows no priority of single threads (all but Linux) this changes nothing.
    """
    if sys.platform == "linux":
        thread = threading.get_native_id()
        nicer = os.getpriority(os.PRIO_PROCESS, thread) + NICENESS
        os.setpriority(os.PRIO_PROCESS, thread, min(nicer, _MOST))
