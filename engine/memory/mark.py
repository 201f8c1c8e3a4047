"""A note of the newest durable version, beside the file: it tells when the file has lost what was acked.

SQLite takes a damaged write-ahead log for one that a crash has torn, and leaves out what comes after the
damage without a word. The note is written after each commit and never waited for: a crash may leave an older
one, never one that is ahead of the disk. So a file that is behind its note was damaged.
"""

import os
import struct
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final
from zlib import crc32

from precall.engine.errors import TenantQuarantined

MARK_SUFFIX: Final = "-mark"
_FORMAT: Final = struct.Struct("<QI")  # the version, and the CRC-32 of its bytes


class VersionMark:
    """Of one tenant's file. Thread-safe. Best effort: where it cannot be written there is none."""

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(database.name + MARK_SUFFIX)
        self._guard = threading.Lock()
        self._noted = 0

    def read(self) -> int:
        """The version that was durable once; 0 if nothing sound is noted."""
        try:
            content = self.path.read_bytes()[: _FORMAT.size]
        except OSError:
            return 0
        if len(content) != _FORMAT.size:
            return 0
        version, checksum = _FORMAT.unpack(content)
        return int(version) if crc32(content[:8]) == checksum else 0

    def check(self, version: int, *, name: str) -> None:
        """Raises TenantQuarantined for a file that is at an older version than it was."""
        noted = self.read()
        if noted > version:
            raise TenantQuarantined(
                f"the file of tenant {name!r} is damaged: it holds version {version}, and was at {noted}. "
                f"Restore it from a backup, or remove {self.path.name} to go on with what is left"
            )

    def note(self, version: int) -> None:
        """``version`` is durable; one that is older than the note changes nothing."""
        with self._guard:
            if version > self._noted:
                self._noted = version
                self._write(version)

    def _write(self, version: int) -> None:
        content = struct.pack("<Q", version)
        with suppress(OSError):
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.pwrite(descriptor, content + struct.pack("<I", crc32(content)), 0)
            finally:
                os.close(descriptor)
