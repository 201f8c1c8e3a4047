"""One tenant's file: what is written, superseded, replayed, destroyed and read."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from precall.engine.errors import (
    AlreadyExists,
    InvalidInput,
    InvalidScope,
    InvalidVector,
    NotFound,
    StorageUnavailable,
    TenantNotFound,
)
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import MemoryKind, MemoryState, Source
from precall.engine.memory.outcomes import RemovedMemory
from precall.engine.memory.prepared import PreparedMemory
from precall.engine.memory.requests import RETENTION_MICROSECONDS
from precall.engine.memory.store import TenantStore
from precall.scoring.keyword import document_impacts

ACME, DANA, EVE = Rung(("acme",)), Rung(("acme", "dana")), Rung(("acme", "eve"))
Prepare = Callable[..., PreparedMemory]


def ids(store: TenantStore, rung: Rung = DANA) -> list[str]:
    return [item.memory.id for item in store.load_rung(rung)]


def test_every_field_comes_back(store: TenantStore, prepare: Prepare) -> None:
    store.write([prepare("origin")])
    early = datetime(1955, 3, 1, 12, 0, 0, 123_456, tzinfo=UTC)
    written = prepare(
        "m",
        event_time=early,
        kind=MemoryKind.PREFERENCE,
        key="seat\x00ing",
        text="Likes the aisle \N{SEAT}\x00, “really”",
        confidence=0.0,
        importance=1.0,
        valid_from=early,
        valid_until=datetime(2031, 1, 1, tzinfo=UTC),
        expires_at=datetime(2040, 1, 1, tzinfo=UTC),
        source=Source("call-7", "turn-2", "crm://dana", ("origin",)),
        questions=("Where does Dana sit?",),
        metadata={"lang": "en", "": ""},
        pinned=True,
    )
    outcome = store.write([written])
    [memory] = store.get(["m"], visible_from=DANA).memories
    for name in written.memory.__slots__:
        assert getattr(memory, name) == getattr(written.memory, name), name
    assert (memory.state, memory.created_version, memory.superseded_version) == (MemoryState.CURRENT, 2, 0)
    assert (memory.tokens_given, memory.tokens_used) == (9, 7)
    [added] = outcome.added
    assert added.memory == memory
    assert added.vector.dtype == np.float16
    assert np.array_equal(added.vector, written.vector)
    assert added.impacts == document_impacts(written.terms)
    reloaded = {indexed.memory.id: indexed.impacts for indexed in store.load_rung(DANA)}
    assert reloaded["m"] == added.impacts


def test_settings_survive_reopening(store: TenantStore, tmp_path: Path) -> None:
    store.lease_horizon = 1_714_521_600.25
    store.close()
    store.close()
    with pytest.raises(StorageUnavailable, match="closed"):
        _ = store.version
    reopened = TenantStore.open(tmp_path / "acme.db")
    assert reopened.lease_horizon == 1_714_521_600.25
    assert (reopened.tenant_id, reopened.ladder.levels) == ("acme", ("customer", "user"))
    assert (reopened.model_fingerprint, reopened.dimension, reopened.version) == ("model-1", 8, 0)
    with pytest.raises(InvalidInput):
        reopened.lease_horizon = float("nan")
    reopened.close()


def test_making_refuses_to_overwrite_and_opening_to_make(store: TenantStore, tmp_path: Path) -> None:
    with pytest.raises(AlreadyExists):
        TenantStore.create(
            tmp_path / "acme.db",
            tenant_id="acme",
            ladder=store.ladder,
            model_fingerprint="other",
            dimension=8,
        )
    with pytest.raises(TenantNotFound):
        TenantStore.open(tmp_path / "nobody.db")
    assert {path.name for path in tmp_path.iterdir()} <= {"acme.db", "acme.db-wal", "acme.db-shm"}


@pytest.mark.parametrize(("second", "wins"), [(-1, False), (0, True), (1, True)])
def test_event_time_decides_and_a_tie_goes_to_the_later_arrival(
    store: TenantStore, prepare: Prepare, second: int, wins: bool
) -> None:
    store.write([prepare("first", key="city", at=0)])
    outcome = store.write([prepare("second", key="city", at=second)])
    [written] = outcome.written
    standing, filed = ("second", "first") if wins else ("first", "second")
    assert ids(store) == [standing]
    assert [item.memory.id for item in outcome.added] == (["second"] if wins else [])
    assert outcome.removed == ((RemovedMemory("first", DANA),) if wins else ())
    assert written.superseded_ids == (("first",) if wins else ())
    assert written.state is (MemoryState.CURRENT if wins else MemoryState.SUPERSEDED)
    [history] = store.get([filed], visible_from=DANA).memories
    assert (history.state, history.superseded_version) == (MemoryState.SUPERSEDED, 2)


def test_a_batch_is_written_in_its_order_under_one_version(store: TenantStore, prepare: Prepare) -> None:
    outcome = store.write(
        [
            prepare("a", key="city", at=5),
            prepare("b", key="city", at=9),
            prepare("c", key="city", at=7),
            prepare("d", EVE, key="city", at=1),
        ]
    )
    assert outcome.version == store.version == 1
    assert [item.state for item in outcome.written] == [
        MemoryState.SUPERSEDED,
        MemoryState.CURRENT,
        MemoryState.SUPERSEDED,
        MemoryState.CURRENT,
    ]
    assert outcome.written[1].superseded_ids == ("a",)
    assert [item.memory.id for item in outcome.added] == ["b", "d"]
    assert outcome.removed == ()
    assert [memory.id for memory in store.history(DANA, "city").memories] == ["b", "c", "a"]
    store.check_integrity()


def test_a_refused_batch_leaves_nothing(store: TenantStore, prepare: Prepare) -> None:
    store.write([prepare("taken", key="city", at=1)])
    good = prepare("good", EVE, key="city", at=2)
    nan = np.full(8, np.nan, np.float16)
    bad: list[tuple[PreparedMemory, type[Exception]]] = [
        (prepare("taken"), AlreadyExists),
        (prepare("good"), AlreadyExists),
        (prepare("x", source=Source(memory_ids=("never",))), NotFound),
        (prepare("x", source=Source(memory_ids=("x",))), NotFound),
        (prepare(""), InvalidInput),
        (prepare("a\x00b"), InvalidInput),
        (prepare("x", text="\ud800"), InvalidInput),
        (prepare("x", said_time=datetime(2024, 1, 1)), InvalidInput),
        (prepare("x", Rung(("acme", "dana", "deeper"))), InvalidScope),
        (prepare("x", Rung(())), InvalidScope),
        (PreparedMemory(prepare("x").memory, nan, (), prepare("x").usage), InvalidVector),
        (PreparedMemory(prepare("x").memory, nan[:7], (), prepare("x").usage), InvalidVector),
        (PreparedMemory(prepare("x").memory, nan * 0 + 0, (), prepare("x").usage), InvalidVector),
    ]
    for prepared, error in bad:
        with pytest.raises(error) as caught:
            store.write([good, prepared], request_id="r")
        assert caught.value.metadata["position"] == "1"  # type: ignore[attr-defined]
        assert "item 1:" in str(caught.value)
    with pytest.raises(InvalidInput, match="empty"):
        store.write([])
    assert (store.version, store.rungs(), ids(store)) == (1, (DANA,), ["taken"])
    assert not store.write([good], request_id="r").replayed


def test_the_same_request_twice_is_one_write(store: TenantStore, prepare: Prepare) -> None:
    batch = [prepare("a", key="city"), prepare("b", key="city", at=3)]
    assert store.replayed_write([item.memory for item in batch], request_id="r") is None
    first = store.write(batch, request_id="r")
    store.delete(["b"], visible_from=None)
    ids_made_again = [prepare("a2", key="city", text=batch[0].memory.text, at=8), batch[1]]
    replay = store.write(ids_made_again, request_id="r")
    assert replay == store.replayed_write([item.memory for item in batch], request_id="r")
    assert (replay.version, replay.written, replay.replayed) == (first.version, first.written, True)
    assert (replay.added, replay.removed) == ((), ())
    assert (store.version, ids(store)) == (2, [])
    for other in ([prepare("c")], batch[:1]):
        with pytest.raises(InvalidInput, match="request_id"):
            store.write(other, request_id="r")
    with pytest.raises(InvalidInput, match="request_id"):
        store.delete(["a"], visible_from=None, request_id="r")
    with pytest.raises(InvalidInput):
        store.write([prepare("c")], request_id="")


def test_a_replayed_delete_spares_what_came_later(store: TenantStore, prepare: Prepare) -> None:
    store.write([prepare("a")])
    first = store.delete(["a", "gone"], visible_from=DANA, request_id="r")
    nothing = store.delete(["b"], visible_from=DANA, request_id="none")
    assert (first.version, nothing.version, nothing.missing_ids) == (2, 2, ("b",))
    store.write([prepare("a"), prepare("b")])
    replay = store.delete(["gone", "a"], visible_from=DANA, request_id="r")
    assert (replay.deleted, replay.missing_ids, replay.replayed) == (first.deleted, ("gone",), True)
    assert store.delete(["b"], visible_from=DANA, request_id="none").replayed
    assert ids(store) == ["a", "b"]


def test_requests_are_forgotten_in_the_end(store: TenantStore, tmp_path: Path, prepare: Prepare) -> None:
    now = [1_000_000_000.0]
    timed = TenantStore.open(tmp_path / "acme.db", clock=lambda: now[0])
    timed.write([prepare("a")], request_id="old")
    now[0] += RETENTION_MICROSECONDS / 1e6
    timed.write([prepare("b")], request_id="new")
    assert timed.replayed_write([prepare("a").memory], request_id="old") is not None
    now[0] += 1
    timed.write([prepare("c")], request_id="newer")
    assert timed.replayed_write([prepare("a").memory], request_id="old") is None
    assert timed.replayed_write([prepare("b").memory], request_id="new") is not None
    timed.close()


def test_deleting_a_current_statement_takes_its_history(store: TenantStore, prepare: Prepare) -> None:
    store.write([prepare(name, key="city", at=at) for at, name in enumerate("abc")])
    store.write([prepare("other", key="street"), prepare("plain"), prepare("eve", EVE, key="city")])
    only = store.delete(["b"], visible_from=DANA)
    assert [(item.id, item.was_current) for item in only.deleted] == [("b", False)]
    assert only.removed == ()
    whole = store.delete(["c", "c"], visible_from=DANA)
    assert [(item.id, item.rung, item.was_current) for item in whole.deleted] == [
        ("a", DANA, False),
        ("c", DANA, True),
    ]
    assert whole.removed == (RemovedMemory("c", DANA),)
    assert (ids(store), ids(store, EVE)) == (["other", "plain"], ["eve"])
    store.check_integrity()


def test_deleting_reaches_what_was_derived_on_any_rung(store: TenantStore, prepare: Prepare) -> None:
    store.write([prepare("fact"), prepare("bystander")])
    store.write([prepare("old", ACME, key="summary", at=-5)])
    store.write(
        [
            prepare("summary", ACME, key="summary", source=Source(memory_ids=("fact", "bystander"))),
            prepare("digest", EVE, source=Source(memory_ids=("summary", "summary"))),
        ]
    )
    assert [item.id for item in store.delete(["fact"], visible_from=DANA).deleted] == [
        "fact", "old", "summary", "digest",
    ]  # fmt: skip
    assert store.rungs() == (DANA,)
    with pytest.raises(NotFound, match="does not exist"):
        store.write([prepare("late", source=Source(memory_ids=("fact",)))])
    store.check_integrity()


def test_forgetting_a_scope_takes_the_rungs_below_and_no_other(store: TenantStore, prepare: Prepare) -> None:
    look_alikes = [Rung(("acme, inc",)), Rung(('acme"', "x")), Rung(("acm",)), Rung(("acme-", "dana"))]
    rungs = [ACME, DANA, EVE, *look_alikes]
    store.write([prepare(f"m{number}", rung) for number, rung in enumerate(rungs)])
    outcome = store.forget_scope(ACME, request_id="r")
    assert {item.rung for item in outcome.deleted} == {ACME, DANA, EVE}
    assert store.rungs() == tuple(sorted(look_alikes))
    assert store.forget_scope(ACME, request_id="r").deleted == outcome.deleted
    assert store.forget_scope(ACME).version == outcome.version


def test_forgetting_a_source_matches_every_given_field(store: TenantStore, prepare: Prepare) -> None:
    def say(identity: str, rung: Rung, call: str, turn: str, uri: str = "") -> PreparedMemory:
        return prepare(identity, rung, source=Source(call, turn, uri))

    store.write(
        [
            say("a", DANA, "call", "1"),
            say("b", DANA, "call", "2", "crm://x"),
            say("c", DANA, "chat", "1", "crm://x"),
            say("d", EVE, "call", "1"),
            say("e", ACME, "call", "1"),
        ]
    )
    turn = store.forget_source(Source("call", "1"), visible_from=DANA)
    assert [item.id for item in turn.deleted] == ["a", "e"]
    both = store.forget_source(Source("chat", "", "crm://x"), visible_from=DANA)
    assert [item.id for item in both.deleted] == ["c"]
    uri = store.forget_source(Source(uri="crm://x"), visible_from=None)
    assert [item.id for item in uri.deleted] == ["b"]
    assert ids(store, EVE) == ["d"]
    for vague in (Source(), Source(turn_id="1"), Source("call", memory_ids=("d",))):
        with pytest.raises(InvalidInput):
            store.forget_source(vague, visible_from=None)


def test_two_users_never_see_or_touch_each_other(store: TenantStore, prepare: Prepare) -> None:
    store.write([prepare("dana", DANA, key="k"), prepare("eve", EVE, key="k"), prepare("acme", ACME)])
    everything = ["eve", "acme", "dana", "eve"]
    seen = store.get(everything, visible_from=DANA)
    assert [memory.id for memory in seen.memories] == ["acme", "dana"]
    assert seen.missing_ids == ("eve",)
    assert [memory.id for memory in store.get(everything, visible_from=ACME).memories] == ["acme"]
    assert store.delete(["eve"], visible_from=DANA).missing_ids == ("eve",)
    assert store.delete(["dana"], visible_from=ACME).missing_ids == ("dana",)
    assert [memory.id for memory in store.history(EVE, "k").memories] == ["eve"]
    assert (ids(store), ids(store, EVE), ids(store, ACME)) == (["dana"], ["eve"], ["acme"])
    assert set(store.memory_by_ids(["dana", "eve", "none"])) == {"dana", "eve"}


def test_pages_are_whole_and_stay_in_step_with_writes(store: TenantStore, prepare: Prepare) -> None:
    store.write([prepare(f"m{number}") for number in range(7)])
    store.write([prepare("k1", key="k"), prepare("k2", key="k")])
    first = store.list_rung(DANA, limit=3)
    assert [memory.id for memory in first.memories] == ["m0", "m1", "m2"]
    store.delete(["m2", "m3"], visible_from=DANA)
    second = store.list_rung(DANA, limit=3, after_token=first.next_token)
    assert [memory.id for memory in second.memories] == ["m4", "m5", "m6"]
    last = store.list_rung(DANA, limit=3, after_token=second.next_token)
    assert ([memory.id for memory in last.memories], last.next_token) == (["k2"], "")
    whole = store.list_rung(DANA, limit=100, include_history=True, after_token=second.next_token)
    assert [memory.id for memory in whole.memories] == ["k1", "k2"]
    rare = store.list_rung(DANA, limit=2, matching=lambda memory: memory.id in {"m0", "m6", "k2"})
    assert [memory.id for memory in rare.memories] == ["m0", "m6"]
    assert rare.next_token
    for token, limit in (("x", 3), ("-1", 3), ("9" * 30, 3), ("", 0)):
        with pytest.raises(InvalidInput):
            store.list_rung(DANA, limit=limit, after_token=token)


def test_counts_and_history_of_nothing(store: TenantStore, prepare: Prepare) -> None:
    assert (store.counts(), store.rungs(), store.history(DANA, "k").memories) == ((), (), ())
    store.write([prepare("a", key="k"), prepare("b", key="k"), prepare("c", ACME)])
    counts = [(count.rung, count.current, count.superseded) for count in store.counts()]
    assert counts == [(ACME, 1, 0), (DANA, 1, 1)]
    with pytest.raises(InvalidInput):
        store.history(DANA, "")


def test_a_stream_sees_one_state_while_others_write(store: TenantStore, prepare: Prepare) -> None:
    store.write([prepare(f"m{number}") for number in range(600)])
    stream = store.load_rung(DANA)
    next(stream)
    store.delete([f"m{number}" for number in range(100, 600)], visible_from=DANA)
    assert store.erasure_is_pending
    assert sum(1 for _ in stream) == 599
    store.write([prepare("later")])
    assert not store.erasure_is_pending
    assert len(ids(store)) == 101


def test_a_writer_derives_only_from_what_it_knows(store: TenantStore, prepare: Prepare) -> None:
    """What stands elsewhere is missing in the very words of what was never there."""
    eve, acme = Rung(("acme", "eve")), Rung(("acme",))
    store.write([prepare("hers", eve), prepare("ours", acme), prepare("mine")])
    told = []
    for origin in ("hers", "none"):
        with pytest.raises(NotFound) as caught:
            store.write([prepare("x"), prepare("y", source=Source(memory_ids=(origin,)))], branch=DANA)
        told.append((caught.value.message.replace(origin, "…"), caught.value.metadata))
    assert told[0] == told[1] and told[0][1] == {"position": "1"}
    store.write([prepare("d", source=Source(memory_ids=("ours", "mine")))], branch=DANA)
    store.write([prepare("s", acme, source=Source(memory_ids=("hers", "d")))], branch=acme)
    store.check_integrity()


def test_words_over_their_limit_are_refused_in_look_ups_too(store: TenantStore) -> None:
    with pytest.raises(InvalidInput, match="at most 512"):
        store.history(DANA, "k" * 513)
    with pytest.raises(InvalidInput, match=r"source\.uri .* at most 512"):
        store.forget_source(Source(uri="u" * 513), visible_from=None)
