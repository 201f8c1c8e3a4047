"""The last step of destroying: what was deleted stands in the write-ahead log until that is folded away."""

from contextlib import suppress

from precall.engine.errors import StorageUnavailable
from precall.engine.memory.database import Database


class Erasure:
    """Folds the log of one database. Thread-safe."""

    def __init__(self, database: Database) -> None:
        """An earlier process may have left a log behind: it is folded at once."""
        self._database = database
        self._is_pending = True
        self.try_now()

    @property
    def is_pending(self) -> bool:
        """Whether bytes of deleted memories may still stand in the log."""
        return self._is_pending

    def ask(self) -> None:
        """Something was deleted: its bytes are to go."""
        self._is_pending = True
        self.try_now()

    def try_now(self) -> None:
        """The transaction before is durable: a disk that refuses now must not make it look failed."""
        with suppress(StorageUnavailable):
            self.checkpoint()

    def checkpoint(self) -> bool:
        """Fold the log into the file, waiting for nobody; True if it is empty now."""
        done = self._database.checkpoint()
        if done:
            self._is_pending = False
        return done
