"""Room on the disk that is kept for destroying: a full disk must not keep anybody from freeing space."""

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

RESERVE_NAME: Final = ".reserve"
RESERVE_BYTES: Final = 8 * 1024 * 1024
"""Enough to fold a write-ahead log of the usual length into its file, and for a destruction after that."""


class Reserve:
    """A file of `RESERVE_BYTES` in the data folder that is given up when a destruction needs the room.

    Thread-safe. Best effort: where there is no room for the file there is no reserve, and no error; nor is
    there one without a folder.
    """

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / RESERVE_NAME
        self._guard = threading.Lock()
        self._held = False
        self.fill()

    @property
    def held(self) -> bool:
        return self._held

    def fill(self) -> None:
        """Take the room, if there is any, unless it is held already."""
        with self._guard:
            if self._held or self._path is None:
                return
            try:
                descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
                try:
                    os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
                finally:
                    os.close(descriptor)
            except OSError:
                self._remove()  # a part of it would help nobody
            else:
                self._held = True

    def release(self) -> None:
        """Give the room up, for whoever comes first."""
        with self._guard:
            self._held = False
            self._remove()

    def _remove(self) -> None:
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)


NO_RESERVE: Final = Reserve(None)
