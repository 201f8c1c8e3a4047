"""What the light encoder's table counts as answered and as wrong."""

import numpy as np
import pytest

from precall.bench.light import LightConversation
from precall.bench.quality_methods import EncodedSet
from precall.bench.quality_sets import LabelledQuery, unconnected
from precall.scoring.approximation import Approximation

APPROXIMATION = Approximation(distance=0.5, score=0.05)


@pytest.fixture
def exact() -> EncodedSet:
    """Memories that no word tells apart, evenly over a quarter of a circle; asked is for either end."""
    angles = np.linspace(0.0, np.pi / 2, 40)
    memories = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    labelled = unconnected(
        "circle",
        [f"memory {'abcdefghij'[row % 10]}" for row in range(40)],
        [LabelledQuery("first", (0,)), LabelledQuery("last", (39,))],
    )
    return EncodedSet(labelled, memories[[0, -1]], memories, ("latin",))


def test_the_models_own_vectors_are_never_wrong(exact: EncodedSet) -> None:
    conversation = LightConversation(exact, exact.queries)
    reads = list(conversation.reads(APPROXIMATION))
    assert len(reads) == 2 and all(read.right and read.lead > 0 for read in reads)
    assert conversation.agreement().top_ten_overlap == 1.0


def test_what_finds_the_other_end_is_wrong(exact: EncodedSet) -> None:
    conversation = LightConversation(exact, exact.queries[::-1].copy())
    assert not any(read.right for read in conversation.reads(APPROXIMATION))
    assert conversation.agreement().top_ten_overlap == 0.0


def test_a_lead_is_counted_in_what_the_error_may_make_of_it(exact: EncodedSet) -> None:
    conversation = LightConversation(exact, exact.queries)
    narrow = [read.lead for read in conversation.reads(APPROXIMATION)]
    wide = [read.lead for read in conversation.reads(Approximation(distance=0.5, score=0.1))]
    np.testing.assert_allclose(narrow, 2 * np.array(wide), rtol=1e-6)
