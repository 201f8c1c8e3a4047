import json
from datetime import UTC, datetime, timedelta

import pytest

from precall.bench.locomo import (
    LocomoFormatError,
    QuestionCategory,
    load_conversation,
    load_conversations,
    load_demo_conversation,
)

# Turns and questions of the shared files, counted by hand from their JSON.
SHARED_COUNTS = {"26": (419, 199), "30": (369, 105), "41": (663, 193), "42": (629, 260), "43": (680, 242)}


def document() -> dict:
    """A small, valid conversation, with sessions out of order as JSON may hold them."""
    return {
        "speaker_a": "Ann",
        "speaker_b": "Ben",
        "session_10_date_time": "12:05 am on 2 March, 2024",
        "session_10": [{"speaker": "Ann", "dia_id": "D10:1", "text": "Late again."}],
        "session_2_date_time": "1:56 pm on 1 February, 2024",
        "session_2": [
            {"speaker": "Ben", "dia_id": "D2:1", "text": "Look!", "blip_caption": "a red boat"},
            {"speaker": "Ann", "dia_id": "D2:2", "text": "Lovely."},
        ],
        "session_11_date_time": "9:00 am on 3 March, 2024",
        "qa": [
            {"question": "What year?", "answer": 2024, "evidence": ["D2:1; D10:01", "D2:1"], "category": 2},
            {"question": "Which cat?", "evidence": ["D", "D:11:26", "D9:9"], "category": 5},
        ],
    }


@pytest.fixture
def write(tmp_path):
    def write(content: object, name: str = "7.json"):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    return write


def test_turns_come_in_the_order_of_sessions_with_their_times(write):
    conversation = load_conversation(write(document()))
    assert conversation.id == "7"
    assert conversation.speakers == ("Ann", "Ben")
    assert [turn.dia_id for turn in conversation.turns] == ["D2:1", "D2:2", "D10:1"]
    assert [turn.session for turn in conversation.turns] == [2, 2, 10]
    first, second, third = (turn.said_time for turn in conversation.turns)
    assert first == datetime(2024, 2, 1, 13, 56, tzinfo=UTC)
    assert timedelta(0) < second - first < timedelta(minutes=2)
    assert third == datetime(2024, 3, 2, 0, 5, tzinfo=UTC)


def test_the_caption_of_a_photo_is_part_of_the_turn(write):
    assert load_conversation(write(document())).turns[0].text == "Look! [photo: a red boat]"


def test_evidence_is_what_really_exists(write):
    year, cat = load_conversation(write(document())).questions
    assert (year.answer, year.category, year.evidence) == (
        "2024",
        QuestionCategory.TEMPORAL,
        ("D2:1", "D10:1"),
    )
    assert (cat.answer, cat.category, cat.evidence) == (None, QuestionCategory.ADVERSARIAL, ())


def without(key: str) -> dict:
    return {name: value for name, value in document().items() if name != key}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ([], "expected an object"),
        (without("speaker_b"), "speaker_b: expected a text"),
        (without("qa"), "qa: expected a list"),
        (without("session_2_date_time"), "session_2_date_time: expected a text"),
        ({"qa": [], "speaker_a": "A", "speaker_b": "B"}, "no session_1"),
        (document() | {"session_2_date_time": "yesterday"}, "'yesterday' is not a time like"),
        (
            document() | {"session_2": [{"speaker": "Ann", "dia_id": "D2:1"}]},
            r"session_2\[0\].text: expected",
        ),
        (document() | {"session_2": ["hello"]}, r"session_2\[0\]: expected an object"),
        (document() | {"session_2": document()["session_10"]}, "same dia_id"),
        (
            document() | {"qa": [{"question": "?", "evidence": [], "category": 9}]},
            r"qa\[0\]: category must be",
        ),
        (
            document() | {"qa": [{"question": "?", "evidence": [], "category": []}]},
            r"qa\[0\]: category must be",
        ),
        (document() | {"qa": [{"question": "?", "evidence": "D2:1", "category": 1}]}, r"qa\[0\].evidence"),
    ],
)
def test_a_malformed_file_is_named_with_the_place(write, content, message):
    with pytest.raises(LocomoFormatError, match=message) as caught:
        load_conversation(write(content))
    assert "7.json" in str(caught.value)


def test_a_folder_is_read_in_the_order_of_its_numbers(write, tmp_path):
    for name in ("10.json", "9.json"):
        write(document(), name)
    assert [conversation.id for conversation in load_conversations(tmp_path)] == ["9", "10"]
    assert [conversation.id for conversation in load_conversations(tmp_path / "9.json")] == ["9"]


def test_a_folder_without_conversations_is_an_error(tmp_path):
    with pytest.raises(LocomoFormatError, match=r"holds no \.json"):
        load_conversations(tmp_path)
    with pytest.raises(LocomoFormatError, match="no such file or folder"):
        load_conversations(tmp_path / "absent")


def test_the_shared_files_load(shared_data):
    conversations = load_conversations(shared_data / "locomo")
    assert {c.id: (len(c.turns), len(c.questions)) for c in conversations} == SHARED_COUNTS
    packed = next(q for q in conversations[0].questions if set(q.evidence) == {"D8:6", "D9:17"})
    assert packed.category is not QuestionCategory.ADVERSARIAL


def test_the_demo_conversation_is_complete():
    conversation = load_demo_conversation()
    assert len(conversation.turns) >= 90
    assert len({turn.session for turn in conversation.turns}) == 6
    assert len(conversation.questions) == 24
    assert {question.category for question in conversation.questions} >= {
        QuestionCategory.MULTI_HOP,
        QuestionCategory.TEMPORAL,
        QuestionCategory.SINGLE_HOP,
    }
    assert {turn.speaker for turn in conversation.turns} == set(conversation.speakers)


def test_every_evidence_of_the_demo_names_a_turn(project_root):
    written = json.loads((project_root / "bench" / "demo_conversation.json").read_text(encoding="utf-8"))
    loaded = load_demo_conversation()
    for entry, question in zip(written["qa"], loaded.questions, strict=True):
        assert question.evidence == tuple(entry["evidence"]) != ()
