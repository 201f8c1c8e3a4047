"""What stays in memory: what was read last, within a budget of bytes. Plain policy, for all tenants."""

import logging
from dataclasses import dataclass
from typing import Final, Protocol

from precall.engine.errors import ConfigurationError
from precall.engine.memory.registry import OPEN_FILES

MEGABYTE: Final = 1024 * 1024

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ResidencySettings:
    """``budget_bytes``: of all partitions in memory together, as `Footprint` estimates them.
    ``loads_at_once``: partitions read, or tenants opened, side by side. ``open_files``: tenants whose files
    stay open while nobody uses them.
    """

    budget_bytes: int = 2_048 * MEGABYTE
    loads_at_once: int = 2
    open_files: int = OPEN_FILES

    def __post_init__(self) -> None:
        for name in ("budget_bytes", "loads_at_once", "open_files"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"residency.{name} must be at least 1, it is {getattr(self, name)}")


class Resident(Protocol):
    """Something in memory that its owner can read from the disk again."""

    @property
    def name(self) -> str:
        """For the log."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes that it takes at this moment."""
        ...

    @property
    def in_use(self) -> bool:
        """Whether somebody holds it: a search, a session."""
        ...

    def let_go(self) -> None:
        """Its owner forgets it; whoever needs it reads it again."""
        ...


class ResidencyObserver(Protocol):
    """Called from the event loop: quick, and it must not raise."""

    def partition_loaded(self, seconds: float) -> None:
        """From the first wish for a cold partition to its being in memory, its turn waited for included."""
        ...

    def partition_evicted(self) -> None:
        """One left memory to make room."""
        ...

    def partition_oversized(self) -> None:
        """One came that alone takes more than the budget."""
        ...


class SilentObserver:
    """Tells nobody."""

    def partition_loaded(self, seconds: float) -> None: ...

    def partition_evicted(self) -> None: ...

    def partition_oversized(self) -> None: ...


class Residency:
    """Keeps to the budget: what was used least recently goes when something comes, grows or is used.

    What is in use stays, even over the budget. So a rung larger than the budget is read all the same, and
    everything that nobody holds goes; it goes itself when something else is used next.

    Only the event loop may call in.
    """

    def __init__(self, budget_bytes: int, observer: ResidencyObserver | None = None) -> None:
        self.budget_bytes = budget_bytes
        self.observer: ResidencyObserver = observer or SilentObserver()
        self.nbytes = 0
        """Of everything in memory, as last measured."""
        self._sizes: dict[Resident, int] = {}  # the least recently used first

    def __len__(self) -> int:
        return len(self._sizes)

    def admit(self, resident: Resident) -> None:
        """It has come into memory, and somebody holds it."""
        size = self._measure(resident)
        if size > self.budget_bytes:
            self.observer.partition_oversized()
            _logger.warning(
                "%s takes %d MB, the budget for all is %d MB: whatever nobody holds leaves memory; "
                "raise memory_budget_mb",
                resident.name,
                size // MEGABYTE,
                self.budget_bytes // MEGABYTE,
            )
        self.make_room()

    def used(self, resident: Resident) -> None:
        """It is wanted, and so is the last to go."""
        self._sizes[resident] = self._sizes.pop(resident)

    def grew(self, resident: Resident) -> None:
        """It was written to."""
        if resident in self._sizes:
            self._measure(resident)
            self.make_room()

    def make_room(self) -> None:
        """Keep to the budget, as far as nobody holds what would have to go."""
        if self.nbytes <= self.budget_bytes:
            return
        for resident in list(self._sizes):
            if not resident.in_use:
                self.forget(resident)
                resident.let_go()
                self.observer.partition_evicted()
                if self.nbytes <= self.budget_bytes:
                    return

    def forget(self, resident: Resident) -> None:
        """Its owner has let it go by itself."""
        self.nbytes -= self._sizes.pop(resident, 0)

    def check_integrity(self) -> None:
        """Raise AssertionError when the books disagree; for tests."""
        assert self.nbytes == sum(self._sizes.values())
        self.make_room()
        assert self.nbytes <= self.budget_bytes or all(resident.in_use for resident in self._sizes)

    def _measure(self, resident: Resident) -> int:
        """A new one comes last, one that is known keeps its place."""
        size = resident.nbytes
        self.nbytes += size - self._sizes.get(resident, 0)
        self._sizes[resident] = size
        return size
