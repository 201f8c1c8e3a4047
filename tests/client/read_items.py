"""Makes items of a read's answer."""

from datetime import UTC, datetime, timedelta

from precall.client import Memory, MemorySource, ReadItem, ScoreParts

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def read_item(name: str, total: float, *, created: int = 1, predictor: str = "") -> ReadItem:
    """``name``: id and text. ``created``: the version that wrote it."""
    memory = Memory(
        id=name,
        scope={"user": "dana"},
        kind="fact",
        state="current",
        text=name,
        key="",
        confidence=1.0,
        importance=0.5,
        event_time=NOW,
        said_time=NOW,
        valid_from=None,
        valid_until=None,
        expires_at=None,
        source=MemorySource(),
        questions=(),
        metadata={},
        pinned=False,
        created_version=created,
        superseded_version=0,
        created_at=NOW,
    )
    return ReadItem(memory, ScoreParts(total, total, 0.0, 0.0, total, 0.0), "user", timedelta(0), predictor)
