"""How the server's answer and the cache's are put together."""

from datetime import UTC, datetime, timedelta

from precall.client import Memory, MemorySource, ReadItem, ScoreParts
from precall.client.outcome import join

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def item(name: str, total: float, *, created: int = 1, predictor: str = "") -> ReadItem:
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
    return ReadItem(memory, ScoreParts(total, total, 0, 0, total, 0), "user", timedelta(0), predictor)


def told(items: tuple[ReadItem, ...]) -> list[tuple[str, float, str]]:
    return [(each.memory.id, each.score.total, each.predictor) for each in items]


def test_the_servers_items_keep_their_order_and_scores_and_learn_who_brought_them() -> None:
    answered = [item("a", 0.9), item("b", 0.8), item("c", 0.8)]
    held = [item("c", 0.85, predictor="rung"), item("old", 0.95, predictor="rung")]
    joined = join(answered, held, since=5, limit=10)
    assert told(joined) == [("a", 0.9, ""), ("b", 0.8, ""), ("c", 0.8, "rung")]


def test_what_was_written_since_stands_where_its_total_puts_it_and_nothing_grows() -> None:
    answered = [item("a", 0.9), item("b", 0.5)]
    held = [item("new", 0.7, created=6, predictor="written"), item("newer", 0.1, created=7)]
    assert told(join(answered, held, since=5, limit=2)) == [("a", 0.9, ""), ("new", 0.7, "written")]
    assert [name for name, _, _ in told(join(answered, held, since=6, limit=4))] == ["a", "b", "newer"]
    assert join([], [], since=0, limit=3) == ()
