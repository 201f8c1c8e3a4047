"""What the batcher tells the outside, so that the engine needs no metrics library."""

from typing import Protocol

from precall.engine.batching.work import Batch, WorkClass


class BatchObserver(Protocol):
    """Called from the device's thread and from the event loop: quick, thread-safe, and it must not raise."""

    def waited(self, work_class: WorkClass, seconds: float) -> None:
        """A ticket's time in the queue, told with its answer; 0 if its text was on the device already."""
        ...

    def finished(self, batch: Batch, device_seconds: float, *, failed: bool) -> None:
        """A forward pass over ``batch``, and whether it failed as a whole."""
        ...

    def expired(self, count: int) -> None:
        """Tickets whose deadline passed before their turn."""
        ...

    def cancelled(self, count: int) -> None:
        """Tickets whose caller went away before the answer."""
        ...

    def refused(self, count: int) -> None:
        """Texts refused because too much was waiting."""
        ...


class SilentObserver:
    """Tells nobody."""

    def waited(self, work_class: WorkClass, seconds: float) -> None: ...

    def finished(self, batch: Batch, device_seconds: float, *, failed: bool) -> None: ...

    def expired(self, count: int) -> None: ...

    def cancelled(self, count: int) -> None: ...

    def refused(self, count: int) -> None: ...
