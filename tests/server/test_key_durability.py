"""A key that was issued, and more so one that was revoked, is so after a power loss."""

from pathlib import Path

from precall.server.keys import KeyStore


def test_a_change_of_the_keys_waits_for_the_disk(tmp_path: Path) -> None:
    """No test here can cut the power; SQLite promises to survive it under these settings."""
    store = KeyStore(tmp_path / "keys.db")
    values = [
        store._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "journal_mode")
    ]
    store.close()
    assert values == [2, "wal"]
