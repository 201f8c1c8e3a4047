"""Which queries are split, and into what."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precall.engine.retrieval.splitting import MOST_PARTS, split_query

COMPOUND = [
    (
        "What does Dana drink, and where did Eli move?",
        ("What does Dana drink", "where did Eli move?"),
    ),
    (
        "Where does Dana live, what does Eli drink and who is Bob Marley's wife?",
        ("Where does Dana live", "what does Eli drink", "who is Bob Marley's wife?"),
    ),
    (
        "Where does Dr. Rao live in St. Louis and what does Eli drink?",
        ("Where does Dr. Rao live in St. Louis", "what does Eli drink?"),
    ),
    ("Did Anna marry Bob and did Carl leave Rome", ("Did Anna marry Bob", "did Carl leave Rome")),
    ("Dana's allergies; Eli's birthday party", ("Dana's allergies", "Eli's birthday party")),
    (
        "Where is Dana's school? Where is Eli's office? Thanks a lot.",
        ("Where is Dana's school?", "Where is Eli's office? Thanks a lot."),
    ),
    ("Any allergies? What does Dana eat? Where does Eli work?",
     ("Any allergies? What does Dana eat?", "Where does Eli work?")),
    (
        "राम पुणे में कब आया और श्याम मुंबई में क्या करता है?",
        ("राम पुणे में कब आया", "श्याम मुंबई में क्या करता है?"),
    ),
    (
        "Dana kahan rehti hai aur Eli kya kaam karta hai?",
        ("Dana kahan rehti hai", "Eli kya kaam karta hai?"),
    ),
    ("达娜住在哪里\uff1f伊莱喝什么茶\uff1f", ("达娜住在哪里\uff1f", "伊莱喝什么茶\uff1f")),
]  # fmt: skip

WHOLE = [
    "",
    "?;??",
    "Where do Dana and Eli live?",
    "What did Anna and Bob do when the war ended?",
    "When Dana was in Pune, where did she live?",
    "What did Melanie paint and where did she show it?",
    "What did Melanie paint and where did she show her sunset picture?",
    "What does Nate do that he loves and can make money from?",
    "When did Dana meet people on a hike and have a bad time?",
    "Was September a good month for Nate and Joanna? Answer yes or no.",
    "I plan a trip to Pune. What food does Dana like? Any allergies?",
    "Today we learned to bake. What does Dana eat? Where does Eli work?",
    "今天我们学了烤面包。达娜住在哪里\uff1f伊莱喝什么茶\uff1f",
    "राम और श्याम पुणे में कब मिले?",
    "Dana prefers tea and lives in Pune",
    "What is tea? and " * 200,
]


@pytest.mark.parametrize(("query", "parts"), COMPOUND)
def test_a_compound_question_becomes_its_parts(query: str, parts: tuple[str, ...]) -> None:
    assert split_query(query) == parts


@pytest.mark.parametrize("query", WHOLE)
def test_what_does_not_fall_into_parts_that_stand_alone_is_left_whole(query: str) -> None:
    assert split_query(query) == ()


def test_what_is_asked_beyond_the_most_parts_stays_in_the_last() -> None:
    asked = [
        f"Where is the {name} office of Acme?" for name in ("first", "second", "third", "fourth", "last")
    ]
    parts = split_query(" ".join(asked))
    assert len(parts) == MOST_PARTS
    assert parts[-1].endswith("the fourth office of Acme? Where is the last office of Acme?")


@given(
    st.lists(
        st.sampled_from(
            [
                "where",
                "is",
                "Dana",
                "tea",
                "and",
                ",",
                ";",
                "?",
                "what",
                "did",
                "Eli",
                "it",
                "और",
                "कब",
                "\uff1f",
            ]
        ),
        max_size=40,
    )
)
def test_no_word_but_a_conjunction_is_lost(words: list[str]) -> None:
    query = " ".join(words)
    parts = split_query(query)
    assert len(parts) != 1 and len(parts) <= MOST_PARTS
    if parts:
        dropped = re.compile(r"[\s,;]+|\band\b|और")
        assert dropped.sub("", " ".join(parts)) == dropped.sub("", query)
        assert all(part in query and part == part.strip() != "" for part in parts)
