"""What is known of a device: whether its last forward pass worked, and who wants to know at once."""

from collections.abc import Callable

from precall.engine.errors import ModelUnavailable, PrecallError


class DeviceHealth:
    """Told of every pass, ordinary ones and probes. For one event loop; listeners are called on it."""

    def __init__(self, model: str) -> None:
        """``model`` is how faults call it, as in "the reranker"."""
        self._faults: dict[int, PrecallError] = {0: ModelUnavailable(f"{model} has computed nothing yet")}
        self._listeners: list[Callable[[], object]] = []

    @property
    def fault(self) -> PrecallError | None:
        """Why the last pass failed, of some worker; None if that of each worked."""
        return next(iter(self._faults.values()), None)

    def listen(self, listener: Callable[[], object]) -> None:
        """Call ``listener`` whenever passes begin to fail, and when they work again."""
        self._listeners.append(listener)

    def worked(self, worker: int = 0) -> None:
        before = self.fault
        self._faults.pop(worker, None)
        self._tell_if_turned(before)

    def failed(self, error: PrecallError, worker: int = 0) -> None:
        before = self.fault
        self._faults[worker] = error
        self._tell_if_turned(before)

    def _tell_if_turned(self, before: PrecallError | None) -> None:
        if (before is None) != (self.fault is None):
            for listener in self._listeners:
                listener()
