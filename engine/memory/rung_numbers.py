"""The numbers that a file's rungs have in it."""

import sqlite3

from precall.engine.memory.ladder import Rung
from precall.engine.memory.rows import encode_rung


class RungNumbers:
    """Those of one transaction; to be dropped with it, or when a part of it is undone."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._numbers: dict[Rung, int] = {}

    def number(self, rung: Rung) -> int:
        """A rung that has none gets one."""
        number = self._numbers.get(rung)
        if number is None:
            number = self._numbers[rung] = self._stored(encode_rung(rung))
        return number

    def _stored(self, path: str) -> int:
        row = self._connection.execute("SELECT number FROM rungs WHERE path = ?", (path,)).fetchone()
        if row is not None:
            return int(row[0])
        number = self._connection.execute("INSERT INTO rungs (path) VALUES (?)", (path,)).lastrowid
        assert number is not None, "an INSERT of a row has its number"
        return number
