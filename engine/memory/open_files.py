"""How many tenants' files stay open while nobody uses them."""

import threading
from itertools import islice
from typing import Final, Protocol

DESCRIPTORS_A_FILE: Final = 11
"""At most, of a file at rest: a writer and four idle readers (`Database`) with a descriptor each for the file
and for its log, and one for the index that the connections share.
"""


class Restable(Protocol):
    """A file that its owner opens again when it is next used."""

    def rest(self) -> bool:
        """Close it, unless somebody uses it at this moment; returns whether it is closed now."""
        ...


class OpenFiles:
    """Closes the files that were used least recently when more than ``limit`` are open. Thread-safe.

    A file in use is never closed, so there are as many more as are being used at once.
    """

    def __init__(self, limit: int) -> None:
        """``limit``: 1 or more."""
        self._limit = limit
        self._guard = threading.Lock()
        self._recent: dict[Restable, None] = {}  # the least recently used first

    def __len__(self) -> int:
        return len(self._recent)

    def __contains__(self, file: Restable) -> bool:
        return file in self._recent

    def used(self, file: Restable) -> None:
        """``file`` was opened or used just now. Closing others waits for the disk."""
        with self._guard:
            self._recent.pop(file, None)
            self._recent[file] = None
            surplus = list(islice(self._recent, max(0, len(self._recent) - self._limit)))
            for other in surplus:
                del self._recent[other]
        for other in surplus:
            if not other.rest():
                with self._guard:  # somebody began to use it meanwhile
                    self._recent.setdefault(other)

    def gone(self, file: Restable) -> None:
        """``file`` was closed by its owner."""
        with self._guard:
            self._recent.pop(file, None)
