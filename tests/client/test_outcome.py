"""How the server's answer and the cache's are put together."""

from read_items import read_item

from precall.client import ReadItem
from precall.client.outcome import join


def told(items: tuple[ReadItem, ...]) -> list[tuple[str, float, str]]:
    return [(each.memory.id, each.score.total, each.predictor) for each in items]


def test_the_servers_items_keep_their_order_and_scores_and_learn_who_brought_them() -> None:
    answered = [read_item("a", 0.9), read_item("b", 0.8), read_item("c", 0.8)]
    held = [read_item("c", 0.85, predictor="rung"), read_item("old", 0.95, predictor="rung")]
    joined = join(answered, held, since=5, limit=10)
    assert told(joined) == [("a", 0.9, ""), ("b", 0.8, ""), ("c", 0.8, "rung")]


def test_what_was_written_since_stands_where_its_total_puts_it_and_nothing_grows() -> None:
    answered = [read_item("a", 0.9), read_item("b", 0.5)]
    held = [read_item("new", 0.7, created=6, predictor="written"), read_item("newer", 0.1, created=7)]
    assert told(join(answered, held, since=5, limit=2)) == [("a", 0.9, ""), ("new", 0.7, "written")]
    assert [name for name, _, _ in told(join(answered, held, since=6, limit=4))] == ["a", "b", "newer"]
    assert join([], [], since=0, limit=3) == ()
