import pytest

from precall.scoring.stemming import stem


# Pairs from the examples in Porter's paper, one or more for each step.
@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("caresses", "caress"), ("ponies", "poni"), ("cats", "cat"), ("feed", "feed"), ("agreed", "agre"),
        ("plastered", "plaster"), ("bled", "bled"), ("motoring", "motor"), ("sing", "sing"),
        ("conflated", "conflat"), ("hopping", "hop"), ("falling", "fall"), ("filing", "file"),
        ("happy", "happi"), ("sky", "sky"), ("relational", "relat"), ("rational", "ration"),
        ("vietnamization", "vietnam"), ("triplicate", "triplic"), ("formative", "form"),
        ("goodness", "good"), ("revival", "reviv"), ("adoption", "adopt"), ("probate", "probat"),
        ("rate", "rate"), ("cease", "ceas"), ("controll", "control"), ("roll", "roll"), ("is", "is"),
    ],
)  # fmt: skip
def test_stems_as_the_paper_says(word: str, expected: str) -> None:
    assert stem(word) == expected


def test_inflections_of_one_word_meet() -> None:
    assert len({stem(word) for word in ("travel", "travels", "traveled", "traveling")}) == 1
