"""Events are strung together from bytes that were made before: they must be what protobuf makes of them."""

import numpy as np
import pytest

from precall.engine.anticipation.events import Push, PushedMemory, StreamEvent
from precall.engine.anticipation.stamp import stamp_of
from precall.proto import anticipation_pb2
from precall.server.mapping.events import EventMapper
from precall.server.mapping.memories import memory_message
from tests.fakes.memories import DANA, indexed
from tests.fakes.world import CARD, DIMENSION, LADDER, embed_words


def pushed(number: int, text: str, predictor: str) -> PushedMemory:
    made = indexed(f"m{number}", DANA, vector=embed_words(text), text=text, event=1_770_000_000.0 + number)
    return PushedMemory(made, "user", predictor)


def plain(push: Push) -> anticipation_pb2.Push:
    """The same through protobuf alone."""
    message = anticipation_pb2.Push(session_id=push.session_id, push_id=push.push_id, last=push.last)
    message.version = push.version
    for item in push.items:
        impacts = item.indexed.impacts
        made = message.items.add(rung="user", predictor=item.predictor, stamp=stamp_of(item.indexed))
        made.memory.CopyFrom(memory_message(item.indexed.memory, LADDER))
        made.impacts.terms.extend(impacts)
        made.impacts.weights = np.array(list(impacts.values()), "<f4").tobytes()
    return message


@pytest.mark.parametrize("words", [1, 40, 4_000])
def test_a_push_is_what_protobuf_makes_of_it_the_first_time_and_later(words: int) -> None:
    mapper = EventMapper(LADDER, CARD.fingerprint, DIMENSION)
    items = [pushed(number, f"pune {number} " + "tea " * words, "co_use") for number in range(3)]
    for sequence, predictor in ((1, "co_use"), (300, "neighbours")):
        again = [PushedMemory(item.indexed, "user", predictor) for item in items]
        push = Push(session_id="s", push_id=sequence, version=7, items=again)
        body = mapper.serialized(StreamEvent(sequence, push, confirm=True))
        event = anticipation_pb2.WatchEvent.FromString(body)
        assert (event.sequence, event.confirm, event.WhichOneof("event")) == (sequence, True, "push")
        assert event == mapper.message(StreamEvent(sequence, push, confirm=True))
        assert event.push.vectors.count == 3
        event.push.ClearField("vectors")
        assert event.push == plain(push)


def test_an_empty_push_has_no_items() -> None:
    event = EventMapper(LADDER, CARD.fingerprint, DIMENSION).message(
        StreamEvent(1, Push(session_id="s", push_id=1, version=1))
    )
    assert event.push.session_id == "s" and not event.push.items and not event.push.HasField("vectors")
