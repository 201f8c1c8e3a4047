# ruff: noqa: RUF001 - letters and digits of other scripts are meant
import pytest

from precall.scoring.value_kinds import MOST_CHARACTERS, ValueKind, asked_kind, holds

QUESTIONS = {
    ValueKind.TIME: [
        "When did Dana fly to Pune?",
        "  when's the flight",
        "and do you know when is the flight?",
        "What time does the train leave?",
        "Which month is her birthday in?",
        "How long ago did they move?",
        "How many years ago was that?",
        "वह कब आएगी?",
        "kitne baje nikalna hai",
        "meeting kab hai",
        "你什么时候去？",
        "火车几点开",
        "متى وصلت الرسالة؟",
    ],
    ValueKind.AMOUNT: [
        "How much did the ticket cost?",
        "What's the monthly rent?",
        "What was her old salary",
        "कितने रुपये लगे?",
        "kitne paise hue",
        "这个多少钱",
        "بكم التذكرة",
    ],
    ValueKind.DURATION: [
        "How long does the flight take?",
        "How many hours did she wait?",
        "कितने दिन रुकोगे?",
        "kitne ghante lage",
        "你等了多久",
        "住了几个月",
        "كم ساعة انتظرت",
    ],
    ValueKind.NUMBER: [
        "How many dogs does she have?",
        "how old is Dana",
        "That is great! How many dogs are there? Tell me.",
        "ok. how often does she fly",
        "What's the phone number of the hotel?",
        "उसके कितने भाई हैं?",
        "kitne log aaye",
        "你有多少本书",
        "كم كتابا عندك",
    ],
}
PLAIN = [
    "What did Dana say when she arrived?",
    "Where does she live?",
    "Tell me about the time in Pune",
    "It is great how much strength people have. Bye!",
    "She told me how many dogs she has.",
    "Is there as much as before?",
    "वह कहाँ रहती है?",
    "她住在哪里",
    "أين تسكن",
    "",
]
HELD = {
    ValueKind.TIME: [
        "at 18:30",
        "by 7 pm",
        "in 2019",
        "on 3rd",
        "next week",
        "a year ago",
        "in May we moved",
        "May 5",
        "Sundays",
        "कल मिलेंगे",
        "कल ५ बजे",
        "kal aana",
        "3月5日",
        "٥/٦/٢٠٢٣",
        "أمس",
    ],
    ValueKind.AMOUNT: ["it cost $5", "forty euros", "₹२००", "200 rupaye", "三百元", "٥٠ دولار"],
    ValueKind.DURATION: [
        "for 5 hours",
        "three long years",
        "a couple of weeks",
        "a week",
        "१२ दिन",
        "do hafte, teen mahine",
        "三天",
        "٣ أيام",
        "since childhood",
    ],
    ValueKind.NUMBER: [
        "every weekend",
        "2 dogs",
        "two dogs",
        "दो भाई",
        "२ भाई",
        "teen log",
        "两本书",
        "٣ كتب",
        "ثلاثة كتب",
    ],
}
LACKING = {
    ValueKind.TIME: ["she may march on", "a Sunless place", "Pune"],
    ValueKind.AMOUNT: ["it was 5 hours", "a poundcake", "centsless"],
    ValueKind.DURATION: ["the year 2019 was good", "5 dogs", "hours and hours"],
    ValueKind.NUMBER: ["a tall dog", "often", "tennis", "कुछ भाई", "dosti"],
}


@pytest.mark.parametrize(
    ("kind", "question"), [(k, q) for k, questions in QUESTIONS.items() for q in questions]
)
def test_a_question_asks_for_its_kind(kind: ValueKind, question: str) -> None:
    assert asked_kind(question) is kind


@pytest.mark.parametrize("question", PLAIN)
def test_other_questions_ask_for_none(question: str) -> None:
    assert asked_kind(question) is None


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in HELD.items() for text in texts])
def test_a_text_holds_a_value(kind: ValueKind, text: str) -> None:
    assert holds(text, kind)


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind, texts in LACKING.items() for text in texts]
)
def test_a_text_lacks_a_value(kind: ValueKind, text: str) -> None:
    assert not holds(text, kind)


def test_only_the_beginning_of_a_long_text_counts() -> None:
    assert holds("x" * (MOST_CHARACTERS - 1) + "5", ValueKind.NUMBER)
    assert not holds("x" * MOST_CHARACTERS + "5", ValueKind.NUMBER)
