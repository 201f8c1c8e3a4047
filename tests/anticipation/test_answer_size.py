import pytest

from precall.engine.anticipation.recent_turns import answer_size


@pytest.mark.parametrize(
    ("room", "size"), [(0, 200), (64, 64), (200, 200), (256, 200), (600, 300), (1024, 512), (4096, 512)]
)
def test_an_answer_is_half_of_the_room_within_its_bounds(room: int, size: int) -> None:
    assert answer_size(room, least=200, most=512) == size
