"""The session cache alone: what it takes, what it claims, what it answers."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pushes import EVENT_SECONDS, SCOPE, Stored, coverage, push, pushed_item, rung_claim, whole_rungs
from settable import DIMENSION, FINGERPRINT, term_vector

from precall.client.cache import MAX_COVERAGES, SessionCache
from precall.client.lookup import Lookup
from precall.client.pushed import Refusal
from precall.scoring import ranking, terms
from precall.scoring.coverage import Decision
from precall.scoring.fusion import Fusion, keyword_share
from precall.scoring.keyword import KeywordIndex
from precall.scoring.query_terms import QueryTerms
from precall.scoring.ranking import Candidates, RankingWeights

WEIGHTS = RankingWeights()
NOW = EVENT_SECONDS + 86_400.0


def make_cache(
    *, max_items: int = 100, max_bytes: int = 1_000_000, maximum_age: float = 600.0
) -> SessionCache:
    cache = SessionCache(SCOPE, max_items=max_items, max_bytes=max_bytes)
    cache.adopt(fingerprint=FINGERPRINT, maximum_age=maximum_age)
    return cache


def look_up(cache: SessionCache, query: str, *, limit: int = 3, elapsed: float = 0.0) -> Lookup:
    return cache.lookup(
        term_vector(query), QueryTerms.of(query), limit=limit, now=NOW, elapsed=elapsed, weights=WEIGHTS
    )


def ids(lookup: Lookup) -> list[str]:
    return [found.item.memory.id for found in lookup.found]


FACTS = [
    Stored(text="Dana is allergic to peanuts", importance=0.9),
    Stored(text="Dana flies to Pune next month"),
    Stored(text="Acme closes at six", scope={"customer": "acme"}),
]


def test_whole_rungs_answer_with_authority() -> None:
    cache = make_cache()
    applied = cache.apply(whole_rungs(FACTS, reset=True, version=7), elapsed=0.0)
    assert applied.settled and applied.added == 3 and not applied.refused
    found = look_up(cache, "which allergy does Dana have: peanuts")
    assert found.decision is Decision.COMPLETE
    assert found.found[0].item.memory.text == "Dana is allergic to peanuts"
    assert cache.version == 7 and set(cache.complete_rungs) == {"customer", "user"}
    cache.check_integrity()


def test_vectors_are_exactly_those_sent() -> None:
    cache = make_cache()
    cache.apply(whole_rungs(FACTS), elapsed=0.0)
    found = {each.item.memory.id: each.ranked.dense for each in look_up(cache, "Pune").found}
    for stored in FACTS:
        assert found[stored.id] == pytest.approx(
            float(stored.vector.astype(np.float32) @ term_vector("Pune")), abs=1e-6
        )


def test_claims_take_effect_with_the_last_part() -> None:
    cache = make_cache()
    claims = [rung_claim("user", FACTS[:2], complete=True), rung_claim("customer", FACTS[2:], complete=True)]
    cache.apply(push(FACTS[:2], reset=True, last=False, rungs=claims, version=4), elapsed=0.0)
    assert cache.items == 2 and cache.version == 0 and not cache.settled
    assert look_up(cache, "Pune").decision is Decision.MISS
    cache.apply(push(FACTS[2:], reset=True, last=True, rungs=claims, version=4), elapsed=0.0)
    assert cache.items == 3, "the second part of a push with `reset` must not drop the first"
    assert look_up(cache, "Pune").decision is Decision.COMPLETE


def test_a_reset_drops_items_and_claims() -> None:
    cache = make_cache()
    cache.apply(whole_rungs(FACTS, push_id=1), elapsed=0.0)
    cache.apply(push(FACTS[:1], push_id=2, reset=True, last=False), elapsed=0.0)
    assert cache.items == 1 and not cache.settled and not cache.complete_rungs
    cache.check_integrity()


@pytest.mark.parametrize(
    ("stored", "refusal"),
    [
        (Stored(text="nobody's", id=""), Refusal.OWNERLESS),
        (Stored(text="no scope", scope={"user": ""}), Refusal.FOREIGN),
        (Stored(text="another user's", scope={"customer": "acme", "user": "eve"}), Refusal.FOREIGN),
        (Stored(text="another customer's", scope={"customer": "evil"}), Refusal.FOREIGN),
        (Stored(text="below", scope={**SCOPE, "device": "phone"}), Refusal.FOREIGN),
    ],
)
def test_foreign_and_ownerless_items_are_refused(stored: Stored, refusal: Refusal) -> None:
    cache = make_cache()
    cache.apply(whole_rungs(FACTS, push_id=1), elapsed=0.0)
    applied = cache.apply(whole_rungs([stored], push_id=2), elapsed=0.0)
    assert applied.refused == {refusal: 1} and not applied.settled
    assert cache.items == 3
    assert look_up(cache, "Pune").decision is Decision.MISS, "a push that cannot be trusted costs the claims"
    cache.check_integrity()


def test_an_item_without_a_scope_is_refused() -> None:
    message = whole_rungs(FACTS[:1])
    message.items[0].memory.ClearField("scope")
    cache = make_cache()
    assert cache.apply(message, elapsed=0.0).refused == {Refusal.OWNERLESS: 1}
    assert cache.items == 0


@pytest.mark.parametrize("fingerprint", ["another-model", ""])
def test_vectors_of_another_model_are_refused(fingerprint: str) -> None:
    cache = make_cache()
    applied = cache.apply(whole_rungs(FACTS, fingerprint=fingerprint), elapsed=0.0)
    assert applied.refused == {Refusal.FINGERPRINT: 3} and cache.items == 0


def test_damaged_vectors_are_refused() -> None:
    cache = make_cache()
    not_a_number = push(FACTS[:1])
    not_a_number.vectors.data = np.full(DIMENSION, np.nan, "<f2").tobytes()
    zero = push(FACTS[:1])
    zero.vectors.data = bytes(2 * DIMENSION)
    short = push(FACTS[:1])
    short.vectors.data = b"\0"
    too_few = push(FACTS[:2])
    too_few.vectors.CopyFrom(push(FACTS[:1]).vectors)
    for message in (not_a_number, zero, short, too_few):
        assert set(cache.apply(message, elapsed=0.0).refused) == {Refusal.DAMAGED}
        assert cache.items == 0


def test_damaged_impacts_are_refused() -> None:
    message = push(FACTS[:1])
    message.items[0].impacts.weights = b"\0\0\0\0"
    cache = make_cache()
    assert cache.apply(message, elapsed=0.0).refused == {Refusal.DAMAGED: 1}


def test_the_same_id_replaces() -> None:
    cache = make_cache()
    cache.apply(whole_rungs(FACTS), elapsed=0.0)
    newer = dataclasses.replace(FACTS[0], text="Dana eats peanuts again")
    cache.apply(push([newer], push_id=2), elapsed=0.0)
    assert cache.items == 3
    assert look_up(cache, "peanuts").found[0].item.memory.text == "Dana eats peanuts again"
    cache.check_integrity()


def test_bounds_cost_the_claims_and_never_grow() -> None:
    cache = make_cache(max_items=2)
    applied = cache.apply(whole_rungs(FACTS), elapsed=0.0)
    assert applied.refused == {Refusal.FULL: 1} and cache.items == 2
    assert look_up(cache, "Pune").decision is Decision.MISS
    size = pushed_item(FACTS[0]).ByteSize() + 2 * DIMENSION
    by_bytes = make_cache(max_bytes=size)
    assert by_bytes.apply(whole_rungs(FACTS[:2]), elapsed=0.0).refused == {Refusal.FULL: 1}
    by_bytes.check_integrity()


def test_an_eviction_unmakes_a_complete_rung_until_it_is_claimed_anew() -> None:
    cache = make_cache()
    cache.apply(whole_rungs(FACTS), elapsed=0.0)
    cache.apply(push(push_id=2, evicted=[FACTS[0].id], last=False), elapsed=0.0)
    assert look_up(cache, "Pune").decision is Decision.MISS
    cache.apply(push(push_id=2, version=2), elapsed=0.0)
    assert cache.complete_rungs == ("customer",)
    claim = rung_claim("user", FACTS[1:2], complete=True)
    cache.apply(push(push_id=3, rungs=[claim], version=3), elapsed=0.0)
    assert look_up(cache, "Pune").decision is Decision.COMPLETE


def test_a_claim_that_contradicts_what_is_held_is_not_believed() -> None:
    cache = make_cache()
    claims = [rung_claim("user", FACTS[:2], complete=True), rung_claim("customer", FACTS[2:], complete=True)]
    cache.apply(push(FACTS[:1], rungs=claims), elapsed=0.0)
    assert look_up(cache, "Pune").decision is not Decision.COMPLETE


def test_a_damaged_claim_voids_all_claims() -> None:
    cache = make_cache()
    cache.apply(whole_rungs(FACTS), elapsed=0.0)
    broken = push(push_id=2, rungs=[rung_claim("user", FACTS[:2], complete=True)])
    broken.rungs[0].statistics.document_frequencies = b"\0\0\0\0"
    assert not cache.apply(broken, elapsed=0.0).settled
    assert look_up(cache, "Pune").decision is Decision.MISS


def test_a_deleted_memory_is_gone_and_the_rest_stays_complete() -> None:
    cache = make_cache()
    cache.apply(whole_rungs(FACTS, version=1), elapsed=0.0)
    assert cache.invalidate([FACTS[0].id, "unknown"], version=2, superseded=False) == 1
    found = look_up(cache, "peanuts", limit=10)
    assert found.decision is Decision.COMPLETE and FACTS[0].id not in ids(found)
    cache.check_integrity()


def test_a_superseded_memory_suspends_the_claims_until_its_successor_arrives() -> None:
    cache = make_cache()
    cache.apply(whole_rungs(FACTS, version=1), elapsed=0.0)
    cache.invalidate([FACTS[1].id], version=2, superseded=True)
    assert not cache.current and look_up(cache, "Pune").decision is Decision.MISS
    successor = Stored(text="Dana flies to Goa next month")
    now_there = [FACTS[0], successor]
    cache.apply(
        push([successor], push_id=2, version=2, rungs=[rung_claim("user", now_there, complete=True)]),
        elapsed=0.0,
    )
    assert cache.current and look_up(cache, "Goa").decision is Decision.COMPLETE


def test_a_heartbeat_confirms_a_version_only_after_a_whole_push() -> None:
    cache = make_cache()
    cache.confirm(9)
    assert cache.version == 0
    cache.apply(whole_rungs(FACTS, version=3), elapsed=0.0)
    cache.confirm(9)
    cache.confirm(5)
    assert cache.version == 9


def test_items_leave_by_age_however_often_they_are_read() -> None:
    cache = make_cache(maximum_age=100.0)
    cache.apply(whole_rungs(FACTS), elapsed=0.0)
    for elapsed in (50.0, 99.9):
        assert look_up(cache, "peanuts", elapsed=elapsed).decision is Decision.COMPLETE
    cache.apply(push(FACTS[:1], push_id=2), elapsed=90.0)
    late = look_up(cache, "peanuts", elapsed=100.0)
    assert ids(late) == [FACTS[0].id] and late.decision is Decision.MISS
    assert cache.aged
    cache.check_integrity()


def test_coverage_serves_what_is_sure_and_no_more() -> None:
    cache = make_cache()
    big_rung = FACTS[:2] + [Stored(text=f"filler {number}") for number in range(50)]
    claims = [rung_claim("user", big_rung, complete=False), rung_claim("customer", FACTS[2:], complete=True)]
    question = "is Dana allergic to peanuts"
    cache.apply(push(FACTS, rungs=claims, covers=coverage(question, floor=0.2)), elapsed=0.0)
    assert look_up(cache, question, limit=1).decision is Decision.SURE
    assert look_up(cache, question, limit=10).decision is Decision.BORDERLINE, "fewer held than asked for"
    assert look_up(cache, "quarterly report deadline", limit=1).decision is Decision.MISS
    cache.apply(push(push_id=2, retired=[1]), elapsed=0.0)
    assert look_up(cache, question, limit=1).decision is Decision.MISS


def test_totals_and_judgement_follow_what_the_model_reads() -> None:
    """Where its model cannot read a query, words decide: for what is held, and for what may not be."""
    hindi = [Stored(text="पुणे की ट्रेन"), Stored(text="train from Pune to Goa")]
    totals = {}
    for scripts in ((), ("latin",)):
        cache = make_cache()
        cache.adopt(fingerprint=FINGERPRINT, maximum_age=600, scripts=scripts)
        claims = [rung_claim("user", hindi, complete=False), rung_claim("customer", [], complete=True)]
        cache.apply(push(hindi, rungs=claims, covers=coverage("पुणे", floor=0.2)), elapsed=0.0)
        found = look_up(cache, "पुणे", limit=1)
        assert found.decision is Decision.SURE
        totals[scripts] = found.found[0].ranked
    share = keyword_share(QueryTerms.of("पुणे"), ("latin",))
    assert totals["latin",].relevance == pytest.approx(
        Fusion(3.0, share).relevance(
            np.float32([totals["latin",].dense]), np.float32([totals["latin",].keyword])
        )[0]
    )
    assert totals["latin",].relevance != pytest.approx(totals[()].relevance)


def test_a_server_of_other_formulas_is_asked_for_every_read() -> None:
    cache = make_cache()
    cache.adopt(fingerprint=FINGERPRINT, maximum_age=600, scores_alike=False)
    cache.apply(whole_rungs(FACTS), elapsed=0.0)
    found = look_up(cache, "is Dana allergic to peanuts")
    assert found.decision is Decision.MISS and found.found, "what is held may still help in an outage"


@pytest.mark.parametrize("share", [0.0, -0.5, 1.5, float("nan")])
def test_a_coverage_of_no_share_that_there_is_withdraws_the_claims(share: float) -> None:
    cache = make_cache()
    damaged = coverage("peanuts", 0.1)
    damaged.keyword_share = share
    applied = cache.apply(whole_rungs(FACTS, covers=damaged), elapsed=0.0)
    assert not applied.settled and look_up(cache, "peanuts").decision is Decision.MISS


def test_coverages_are_bounded_and_of_one_model() -> None:
    cache = make_cache()
    for number in range(MAX_COVERAGES + 5):
        cache.apply(push(push_id=number, covers=coverage("a", 0.1, coverage_id=number)), elapsed=0.0)
    foreign = coverage("b", 0.0, coverage_id=999)
    foreign.query_vector.model_fingerprint = "another-model"
    cache.apply(push(push_id=1000, covers=foreign), elapsed=0.0)
    cache.check_integrity()


def test_an_incomplete_rung_weighs_terms_by_the_servers_counts() -> None:
    cache = make_cache()
    rung = FACTS[:2] + [Stored(text=f"Dana said {number}") for number in range(30)]
    claims = [rung_claim("user", rung, complete=False), rung_claim("customer", FACTS[2:], complete=True)]
    cache.apply(push(FACTS, rungs=claims), elapsed=0.0)
    statistics = cache.statistics(["dana", "peanut"])
    assert statistics.documents == 33
    assert statistics.frequencies == {"dana": 32, "peanut": 1}


def test_without_a_vector_keywords_alone_are_ranked() -> None:
    cache = make_cache()
    cache.apply(whole_rungs(FACTS), elapsed=0.0)
    found = cache.lookup(None, QueryTerms.of("peanut"), limit=1, now=NOW, elapsed=0.0, weights=WEIGHTS)
    assert found.decision is Decision.MISS and ids(found) == [FACTS[0].id]


WORDS = ("pune", "goa", "peanut", "flight", "hotel", "dog", "cat", "tea")
SCOPES = (SCOPE, {"customer": "acme"})


@st.composite
def stored_memories(draw: st.DrawFn) -> Stored:
    return Stored(
        id=f"id-{draw(st.integers(0, 11))}",
        text=" ".join(draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=5))),
        scope=draw(st.sampled_from(SCOPES)),
        importance=draw(st.sampled_from((0.0, 0.5, 1.0))),
        event_seconds=EVENT_SECONDS - draw(st.integers(0, 5)) * 86_400,
    )


STEPS = st.one_of(
    st.tuples(st.just("push"), st.lists(stored_memories(), max_size=4, unique_by=lambda each: each.id)),
    st.tuples(st.just("evict"), st.integers(0, 11)),
    st.tuples(st.just("invalidate"), st.integers(0, 11)),
    st.tuples(st.just("reset"), st.just(0)),
)


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEPS, max_size=12), query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3))
def test_the_cache_is_a_plain_dictionary_ranked_by_brute_force(steps: list, query: list[str]) -> None:
    cache = make_cache()
    model: dict[str, Stored] = {}
    for number, (kind, value) in enumerate(steps, start=1):
        if kind == "push":
            model |= {each.id: each for each in value}
            claims = [
                rung_claim(level, [each for each in model.values() if each.rung == level], complete=True)
                for level in SCOPE
            ]
            cache.apply(push(value, push_id=number, rungs=claims), elapsed=0.0)
        elif kind == "evict":
            model.pop(f"id-{value}", None)
            cache.apply(push(push_id=number, evicted=[f"id-{value}"]), elapsed=0.0)
        elif kind == "invalidate":
            model.pop(f"id-{value}", None)
            cache.invalidate([f"id-{value}"], version=number, superseded=False)
        else:
            model.clear()
            cache.apply(push(push_id=number, reset=True), elapsed=0.0)
        cache.check_integrity()
    claims = [
        rung_claim(level, [each for each in model.values() if each.rung == level], complete=True)
        for level in SCOPE
    ]
    cache.apply(push(push_id=1000, rungs=claims), elapsed=0.0)
    found = look_up(cache, " ".join(query), limit=5)
    assert found.decision is Decision.COMPLETE
    expected = brute_force(list(model.values()), " ".join(query), limit=5)
    assert [(each.item.memory.id, each.ranked.total) for each in found.found] == [
        (memory_id, pytest.approx(total, abs=1e-5)) for memory_id, total in expected
    ]


def brute_force(memories: list[Stored], query: str, *, limit: int) -> list[tuple[str, float]]:
    index = KeywordIndex()
    for each in memories:
        index.add(each.impacts)
    query_terms = terms.analyze(query)
    rows = [each.vector.astype(np.float32) for each in memories] or [np.zeros(DIMENSION, np.float32)]
    count = len(memories)
    ranked = ranking.rank(
        Candidates(
            ids=[each.id for each in memories],
            dense=(np.stack(rows) @ term_vector(query))[:count],
            keyword=index.scores(index.statistics().weights(query_terms)),
            importance=np.array([each.importance for each in memories], np.float32),
            event_seconds=np.array([each.event_seconds for each in memories], np.float64),
            servable_from=np.full(count, -np.inf),
            servable_until=np.full(count, np.inf),
            depth=np.array([len(each.scope) for each in memories], np.int32),
        ),
        WEIGHTS.fused(Fusion.of(query_terms)),
        now=NOW,
        limit=limit,
    )
    return [(memories[each.row].id, each.total) for each in ranked]
