"""What was said, and whether it says anything new."""

import numpy as np

from precall.engine.anticipation.conversation import ANSWERS_KEPT, USED_IDS_KEPT, Conversation, Turn, TurnRole
from precall.engine.anticipation.cue import Cue


def user(text: str) -> Turn:
    return Turn(TurnRole.USER, text)


def test_a_partial_gives_way_to_the_next_and_to_the_finished_turn() -> None:
    conversation = Conversation(turns_kept=2)
    conversation.observe(user("trip to"), partial=True)
    assert conversation.speaking and conversation.latest == user("trip to")
    conversation.observe(user("trip to Pune"), partial=False)
    assert not conversation.speaking and conversation.latest == user("trip to Pune")
    for text in ("a", "b"):
        conversation.observe(user(text), partial=False)
    assert list(conversation.recent(9)) == [user("a"), user("b")]


def test_grammar_alone_says_nothing_new_and_a_finished_turn_always_does() -> None:
    conversation = Conversation(turns_kept=9)
    said = ["trip", "trip to", "trip to the", "trip to the Pune", "trip to the Pune"]
    news = [bool(conversation.observe(user(text), partial=True)) for text in said]
    assert news == [True, False, False, True, False]
    assert conversation.observe(user("trip to the Pune"), partial=False)
    assert conversation.observe(user("trip"), partial=True)


def test_what_a_finished_turn_was_built_on_is_kept_for_a_few_answers() -> None:
    conversation = Conversation(turns_kept=9)
    assert conversation.observe(Turn(TurnRole.ASSISTANT, "a", ("x",)), partial=True) == Cue.SAID
    assert not conversation.used, "an answer that is not finished may yet be built on more"
    answer = Turn(TurnRole.ASSISTANT, "a", ("x", "y", "x"))
    assert conversation.observe(answer, partial=False) == Cue.SAID | Cue.USED
    assert conversation.observe(user("b"), partial=False) == Cue.SAID
    assert conversation.used == (("x", "y"),)
    for number in range(ANSWERS_KEPT):
        many = tuple(f"{number} {n}" for n in range(USED_IDS_KEPT + 5))
        conversation.observe(Turn(TurnRole.ASSISTANT, "c", many), partial=False)
    assert len(conversation.used) == ANSWERS_KEPT
    assert [len(ids) for ids in conversation.used] == [USED_IDS_KEPT] * ANSWERS_KEPT
    assert conversation.used[0][0] == f"{ANSWERS_KEPT - 1} 0"


def test_a_vector_is_remembered_with_its_turn_until_another_model_serves() -> None:
    conversation, vector = Conversation(turns_kept=2), np.ones(2, np.float32)
    said = user("trip to Pune")
    conversation.observe(said, partial=False)
    conversation.note_vector(said, vector)
    assert conversation.recent(1)[0].vector is vector
    for text in ("a", "b"):
        conversation.observe(Turn(TurnRole.USER, text, vector=vector), partial=False)
    conversation.note_vector(said, vector)  # it is past
    conversation.observe(Turn(TurnRole.USER, "c", vector=vector), partial=True)
    conversation.forget_vectors()
    assert [turn.text for turn in conversation.recent(2)] == ["a", "b"]
    assert conversation.latest == user("c") and conversation.latest.vector is None
    assert all(turn.vector is None for turn in conversation.recent(2))
