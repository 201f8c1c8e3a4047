"""What was said, and whether it says anything new."""

from precall.engine.anticipation.conversation import Conversation, Turn, TurnRole


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
    news = [conversation.observe(user(text), partial=True) for text in said]
    assert news == [True, False, False, True, False]
    assert conversation.observe(user("trip to the Pune"), partial=False)
    assert conversation.observe(user("trip"), partial=True)
