"""What speaks for an answer of a cache that is not complete, and against it."""

from collections.abc import Sequence

import pytest
from pushes import SCOPE, Stored, coverage, push, rung_claim
from settable import FINGERPRINT, term_vector

from precall.client import cache as cache_module
from precall.client.cache import SessionCache
from precall.client.lookup import Lookup
from precall.scoring.approximation import Approximation
from precall.scoring.calibration import CalibratedPart, Calibration
from precall.scoring.coverage import Decision
from precall.scoring.evidence import NAMES, Evidence
from precall.scoring.query_terms import QueryTerms
from precall.scoring.ranking import RankingWeights
from precall.scoring.vocabulary import Vocabulary

NOW = 1_700_000_500.0
ASKED = "when does dana fly to goa with her dog"


def held(number: int, text: str) -> Stored:
    return Stored(id=f"id-{number}", text=text)


ITEMS = [held(number, f"dana goa memory {'abcdefghijkl'[number]}") for number in range(12)]


def calibration(intercept: float) -> Calibration:
    part = CalibratedPart(Evidence(**dict.fromkeys(NAMES, 0.0)), intercept, sure=1.0, borderline=0.0)
    return Calibration(FINGERPRINT, part, part, "made up")


@pytest.fixture
def certain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A calibration that is sure of everything."""
    monkeypatch.setattr(cache_module, "CALIBRATIONS", {FINGERPRINT: calibration(5.0)})


def make_cache(
    items: Sequence[Stored] = ITEMS,
    query: str = "dana goa",
    *,
    floor: float = 0.9,
    negated: bool = False,
    vocabulary: bytes = b"",
) -> SessionCache:
    """It holds the items of a rung of 100 and knows which query they answer."""
    cache = SessionCache(SCOPE, max_items=100, max_bytes=10_000_000)
    cache.adopt(fingerprint=FINGERPRINT, maximum_age=600.0)
    rung = [*items, *(Stored(text=f"filler {number}") for number in range(100 - len(items)))]
    claim = rung_claim("user", rung, complete=False)
    claim.vocabulary = vocabulary
    covered = coverage(query, floor)
    covered.negated = negated
    whole = rung_claim("customer", [], complete=True)
    cache.apply(push(items, rungs=[claim, whole], covers=covered), elapsed=0.0)
    cache.check_integrity()
    return cache


def look_up(
    cache: SessionCache, question: str, *, limit: int = 3, elapsed: float = 0.0, **arguments: object
) -> Lookup:
    return cache.lookup(
        term_vector(question),
        QueryTerms.of(question),
        question=question,
        limit=limit,
        now=NOW,
        elapsed=elapsed,
        weights=RankingWeights(),
        **arguments,  # type: ignore[arg-type]
    )


def test_a_model_without_a_calibration_serves_proofs_alone() -> None:
    assert look_up(make_cache(), "dana goa").decision is Decision.BORDERLINE
    assert look_up(make_cache(floor=0.01), "dana goa").decision is Decision.SURE


@pytest.mark.usefixtures("certain")
def test_a_calibration_decides_what_is_not_proven() -> None:
    found = look_up(make_cache(), "dana goa")
    assert found.decision is Decision.SURE and found.confidence == pytest.approx(5.0)
    assert len(found.found) == 3, "a cache looks at ten to judge and gives what was asked for"


def test_an_unsure_calibration_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    for intercept, decision in ((0.5, Decision.BORDERLINE), (-0.5, Decision.MISS)):
        monkeypatch.setattr(cache_module, "CALIBRATIONS", {FINGERPRINT: calibration(intercept)})
        assert look_up(make_cache(), "dana goa").decision is decision


@pytest.mark.usefixtures("certain")
@pytest.mark.parametrize("negated", [False, True])
def test_a_denial_needs_a_query_that_denied_too(negated: bool) -> None:
    found = look_up(make_cache(negated=negated), "dana not goa")
    assert found.decision is (Decision.SURE if negated else Decision.BORDERLINE)
    assert look_up(make_cache(floor=0.01), "not dana goa").decision is Decision.SURE, "it is proven"


@pytest.mark.usefixtures("certain")
@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("how much does dana pay in goa", "dana goa pays 200 euros"),
        ("how long is dana in goa", "dana goa for three weeks"),
        ("how many dogs has dana in goa", "dana goa two dogs"),
        ("when is dana in goa", "dana goa in May 2023"),
    ],
)
def test_a_question_for_a_value_needs_an_item_that_holds_one(question: str, text: str) -> None:
    assert look_up(make_cache(), question, limit=10).decision is Decision.BORDERLINE
    with_value = make_cache([held(20, text), *ITEMS[:11]])
    assert look_up(with_value, question, limit=10).decision is Decision.SURE


@pytest.mark.usefixtures("certain")
def test_what_happened_answers_when() -> None:
    """An episode says when: its date stands beside it."""
    cache = make_cache()
    assert look_up(cache, "when was dana in goa", limit=10).decision is Decision.BORDERLINE
    episodes = [held(number, each.text) for number, each in enumerate(ITEMS)]
    again = SessionCache(SCOPE, max_items=100, max_bytes=10_000_000)
    again.adopt(fingerprint=FINGERPRINT, maximum_age=600.0)
    message = push(
        episodes,
        rungs=[
            rung_claim("user", [*episodes, *ITEMS], complete=False),
            rung_claim("customer", [], complete=True),
        ],
        covers=coverage("dana goa", 0.9),
    )
    for item in message.items:
        item.memory.kind = "MEMORY_KIND_EPISODE"  # type: ignore[assignment]
    again.apply(message, elapsed=0.0)
    assert look_up(again, "when was dana in goa", limit=10).decision is Decision.SURE


@pytest.mark.parametrize(
    ("vocabulary", "decision"),
    [
        (["dana", "goa"], Decision.SURE),
        (["dana", "goa", "zebra"], Decision.BORDERLINE),
        (None, Decision.BORDERLINE),
    ],
)
def test_a_word_that_stands_nowhere_adds_nothing_to_the_bound(
    vocabulary: list[str] | None, decision: Decision
) -> None:
    """Without the rung's vocabulary the new word could stand in any memory that is not held."""
    data = b"" if vocabulary is None else Vocabulary.of(vocabulary).data
    cache = make_cache(floor=0.45, vocabulary=data)
    vector = term_vector("dana goa")  # as near as can be: what is left to doubt is the word
    found = cache.lookup(
        vector,
        QueryTerms.of("dana goa zebra"),
        limit=3,
        now=NOW,
        elapsed=0.0,
        weights=RankingWeights(),
    )
    assert found.decision is decision


def test_a_word_that_was_written_since_counts_although_the_vocabulary_lacks_it() -> None:
    question = "dana goa zebra"
    cache = make_cache(floor=0.45, vocabulary=Vocabulary.of(["dana", "goa"]).data)
    written = rung_claim("user", [held(30, "zebra")], complete=False)
    written.statistics.documents = 101
    cache.apply(push(push_id=2, version=2, rungs=[written]), elapsed=0.0)
    found = cache.lookup(
        term_vector("dana goa"),
        QueryTerms.of(question),
        limit=3,
        now=NOW,
        elapsed=0.0,
        weights=RankingWeights(),
    )
    assert found.decision is Decision.BORDERLINE


def test_counts_from_before_an_interruption_prove_nothing() -> None:
    """Another memory with the word may have been written meanwhile."""
    question = "dana goa zebra"
    items = [*ITEMS, held(40, "zebra")]
    whole = rung_claim("customer", [], complete=True)
    claim = rung_claim("user", items, complete=False)
    claim.statistics.documents = 100
    decisions = []
    for interrupted in (False, True):
        cache = make_cache(items, vocabulary=Vocabulary.of(["dana", "goa", "zebra"]).data)
        cache.apply(push(push_id=2, rungs=[claim, whole]), elapsed=0.0)
        if interrupted:
            cache.go_on()
        cache.apply(push(push_id=3, rungs=[whole], covers=coverage("dana goa", 0.45)), elapsed=0.0)
        found = cache.lookup(
            term_vector("dana goa"),
            QueryTerms.of(question),
            limit=3,
            now=NOW,
            elapsed=0.0,
            weights=RankingWeights(),
        )
        decisions.append(found.decision)
    assert decisions == [Decision.SURE, Decision.BORDERLINE]


@pytest.mark.usefixtures("certain")
@pytest.mark.parametrize("loss", ["refused", "aged", "unreadable"])
def test_after_a_loss_no_coverage_is_believed_until_the_server_knows(loss: str) -> None:
    """What the server believes to be held backs its next claims as well."""
    cache = make_cache()
    elapsed = 0.0
    if loss == "refused":
        damaged = push([held(50, "dana goa lost")], push_id=2)
        damaged.vectors.data = bytes(len(damaged.vectors.data))
        assert cache.apply(damaged, elapsed=0.0).refused
    elif loss == "unreadable":
        broken = rung_claim("user", ITEMS, complete=False)
        broken.vocabulary = b"abc"
        cache.apply(push(push_id=2, rungs=[broken]), elapsed=0.0)
    else:
        cache.apply(push([held(50, "dana goa late")], push_id=2), elapsed=300.0)
        elapsed = 700.0
        look_up(cache, "dana goa", elapsed=elapsed)
    more = [held(60 + number, f"dana goa more {number}") for number in range(12)]
    cache.apply(push(more, push_id=3, covers=coverage("dana goa", 0.01, coverage_id=3)), elapsed=elapsed)
    assert look_up(cache, "dana goa", elapsed=elapsed).decision is Decision.MISS
    again = push(more, push_id=4, reset=True, covers=coverage("dana goa", 0.01, coverage_id=4))
    cache.apply(again, elapsed=elapsed)
    assert look_up(cache, "dana goa", elapsed=elapsed).decision is Decision.SURE
    cache.check_integrity()


@pytest.mark.usefixtures("certain")
def test_what_aged_after_it_was_named_is_missed_in_what_follows() -> None:
    """It was named when the session came back, and dropped before the answer to that came."""
    cache = make_cache()
    look_up(cache, "dana goa", elapsed=700.0)
    cache.go_on()
    more = [held(60 + number, f"dana goa more {number}") for number in range(12)]
    cache.apply(push(more, push_id=2, covers=coverage("dana goa", 0.01, coverage_id=2)), elapsed=700.0)
    assert look_up(cache, "dana goa", elapsed=700.0).decision is Decision.MISS


def test_a_vocabulary_that_cannot_be_read_withdraws_the_claims() -> None:
    cache = make_cache()
    broken = rung_claim("user", ITEMS, complete=False)
    broken.vocabulary = b"abc"
    assert not cache.apply(push(push_id=2, rungs=[broken]), elapsed=0.0).settled
    assert look_up(cache, "dana goa").decision is Decision.MISS


@pytest.mark.usefixtures("certain")
def test_an_approximate_vector_is_sure_by_proof_alone() -> None:
    near, exact = Approximation(0.3, 0.1), Approximation(0.0, 0.0)
    assert look_up(make_cache(), "dana goa", approximation=near).decision is Decision.BORDERLINE
    assert look_up(make_cache(floor=0.01), "dana goa", approximation=exact).decision is Decision.SURE
