"""A promise about vectors of another model is no promise."""

from pushes import EVENT_SECONDS, SCOPE, Stored, coverage, push, rung_claim
from settable import FINGERPRINT, term_vector

from precall.client.cache import SessionCache
from precall.scoring.coverage import Decision
from precall.scoring.query_terms import QueryTerms
from precall.scoring.ranking import RankingWeights

QUESTION = "is Dana allergic to peanuts"
HELD = [Stored(text="Dana is allergic to peanuts", importance=0.9)]


def decision_under(fingerprint: str) -> Decision:
    """Of a read that is just what the coverage answers, whose vector is said to be of this model."""
    cache = SessionCache(SCOPE, max_items=100, max_bytes=1_000_000)
    cache.adopt(fingerprint=FINGERPRINT, maximum_age=600)
    many = HELD + [Stored(text=f"filler {number}") for number in range(50)]
    claims = [rung_claim("user", many, complete=False), rung_claim("customer", [], complete=True)]
    covers = coverage(QUESTION, floor=0.2)
    covers.query_vector.model_fingerprint = fingerprint
    cache.apply(push(HELD, rungs=claims, covers=covers), elapsed=0.0)
    return cache.lookup(
        term_vector(QUESTION),
        QueryTerms.of(QUESTION),
        limit=1,
        now=EVENT_SECONDS + 86_400.0,
        elapsed=0.0,
        weights=RankingWeights(),
    ).decision


def test_a_coverage_of_another_model_covers_nothing() -> None:
    assert decision_under(FINGERPRINT) is Decision.SURE
    assert decision_under("another-model") is Decision.MISS
