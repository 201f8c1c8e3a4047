import pytest

from precall.scoring.negation import negates


@pytest.mark.parametrize(
    "text",
    [
        "What does she not eat?",
        "She NEVER flies",
        "he no longer works there",
        "I don\u2019t",
        "we cant",
        "without sugar",
        "वह मांस नहीं खाती",
        "mujhe chai nahi chahiye",
        "我不吃肉",
        "لا أحب القهوة",
    ],
)
def test_denials(text: str) -> None:
    assert negates(text)


@pytest.mark.parametrize(
    "text",
    ["What does she eat?", "I know Nora", "a notable knot", "cantaloupe", "वह खाती है", "我吃肉", "كلام", ""],
)
def test_other_texts(text: str) -> None:
    assert not negates(text)
