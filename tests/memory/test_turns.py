"""A turn's keyword weights take in what was said just before it, and nothing else, whatever becomes of it."""

import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from precall.engine.errors import AlreadyExists, TenantQuarantined
from precall.engine.memory import turns
from precall.engine.memory.group import AskedWrite
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import IndexedMemory, MemoryKind, Source
from precall.engine.memory.outcomes import DeleteOutcome, RemovedMemory, WriteOutcome
from precall.engine.memory.prepared import PreparedMemory
from precall.engine.memory.store import TenantStore
from precall.scoring.keyword import document_impacts
from precall.scoring.terms import ANALYZER_VERSION

ACME, DANA, EVE = Rung(("acme",)), Rung(("acme", "dana")), Rung(("acme", "eve"))
TALK = Source("talk")
Prepare = Callable[..., PreparedMemory]


@pytest.fixture
def say(prepare: Prepare) -> Prepare:
    """``say(word, at=minutes, **fields)``: a turn of one conversation that says one word, its id too."""

    def turn(word: str, rung: Rung = DANA, *, at: float = 0, **fields: Any) -> PreparedMemory:
        fields = {"text": word, "kind": MemoryKind.EPISODE, "source": TALK} | fields
        return prepare(word, rung, at=at / 60, **fields)

    return turn


def impacts_of(indexed: Iterable[IndexedMemory]) -> dict[str, dict[str, float]]:
    return {each.memory.id: dict(each.impacts) for each in indexed}


def words(store: TenantStore, rung: Rung = DANA) -> dict[str, str]:
    """Id -> the words that find it, in order of their weight."""
    return {
        identity: " ".join(sorted(impacts, key=impacts.__getitem__, reverse=True))
        for identity, impacts in impacts_of(store.load_rung(rung)).items()
    }


def test_a_turn_takes_in_the_two_before_it_at_their_shares(store: TenantStore, say: Prepare) -> None:
    outcome = store.write([say("pune", at=0), say("visa", at=1), say("train", at=2), say("lamp", at=3)])
    assert words(store) == {
        "pune": "pune",
        "visa": "visa pune",
        "train": "train visa pune",
        "lamp": "lamp train visa",
    }
    loaded = impacts_of(store.load_rung(DANA))
    assert loaded["train"] == document_impacts(["train"], [["visa"], ["pune"]])
    assert impacts_of(outcome.added) == loaded and outcome.reweighed == ()


def test_turns_follow_one_another_over_batches_and_questions_count_as_words(
    store: TenantStore, say: Prepare
) -> None:
    store.write([say("pune", at=0, questions=("which city",))])
    outcome = store.write([say("visa", at=1)])
    assert impacts_of(outcome.added)["visa"] == document_impacts(["visa"], [["pune", "citi"]])
    assert words(store)["visa"].split()[0] == "visa"


@pytest.mark.parametrize(
    "stranger",
    [
        {"kind": MemoryKind.FACT},
        {"kind": MemoryKind.EVENT},
        {"source": Source()},
        {"source": Source("another talk")},
        {"source": Source(uri="talk")},
        {"rung": EVE},
        {"rung": ACME},
    ],
)
def test_nothing_comes_in_from_elsewhere_and_nothing_goes_there(
    store: TenantStore, say: Prepare, stranger: dict[str, Any]
) -> None:
    other = {"at": 0.5} | stranger
    store.write([say("pune", at=0), say("stranger", **other), say("visa", at=1)])
    assert words(store)["visa"] == "visa pune"
    assert words(store, other.get("rung", DANA))["stranger"] == "stranger"


def test_an_hour_of_silence_ends_what_is_taken_in(store: TenantStore, say: Prepare) -> None:
    store.write([say("pune", at=0), say("visa", at=60), say("lamp", at=120 + 1 / 60), say("tea", at=121)])
    assert words(store) == {"pune": "pune", "visa": "visa pune", "lamp": "lamp", "tea": "tea lamp"}


def test_turns_that_are_two_hours_apart_are_weighed_anew_as_well(store: TenantStore, say: Prepare) -> None:
    store.write([say("visa", at=60), say("lamp", at=120)])
    late = store.write([say("pune", at=0)])
    assert words(store) == {"pune": "pune", "visa": "visa pune", "lamp": "lamp visa pune"}
    gone = store.delete(["pune"], visible_from=None)
    assert words(store) == {"visa": "visa", "lamp": "lamp visa"}
    for outcome in (late, gone):
        assert [each.memory.id for each in outcome.reweighed] == ["visa", "lamp"]


def test_a_late_turn_is_taken_in_by_those_behind_it(store: TenantStore, say: Prepare) -> None:
    store.write([say("pune", at=0), say("lamp", at=2), say("tea", at=3), say("dog", at=4)])
    outcome = store.write([say("visa", at=1)])
    assert words(store) == {
        "pune": "pune",
        "lamp": "lamp visa pune",
        "tea": "tea lamp visa",
        "dog": "dog tea lamp",
        "visa": "visa pune",
    }
    assert [each.memory.id for each in outcome.reweighed] == ["lamp", "tea"]
    assert (
        impacts_of((*outcome.added, *outcome.reweighed)).items() <= impacts_of(store.load_rung(DANA)).items()
    )
    assert outcome.removed == ()
    store.check_integrity()


def test_in_a_batch_the_moment_counts_and_not_the_order(store: TenantStore, say: Prepare) -> None:
    outcome = store.write([say("lamp", at=2), say("visa", at=1), say("pune", at=0)])
    assert words(store) == {"lamp": "lamp visa pune", "visa": "visa pune", "pune": "pune"}
    assert impacts_of(outcome.added) == impacts_of(store.load_rung(DANA)) and outcome.reweighed == ()


def test_of_one_moment_the_order_of_arrival_counts(store: TenantStore, say: Prepare) -> None:
    store.write([say("pune"), say("visa")])
    store.write([say("lamp")])
    assert words(store) == {"pune": "pune", "visa": "visa pune", "lamp": "lamp visa pune"}


def test_a_corrected_turn_takes_the_place_of_what_it_corrects(store: TenantStore, say: Prepare) -> None:
    store.write([say("pune", at=0), say("pizza", at=1, key="turn-2"), say("lamp", at=2), say("tea", at=3)])
    outcome = store.write([say("visa", at=1, key="turn-2")])
    expected = {
        "pune": "pune", "visa": "visa pune", "lamp": "lamp visa pune", "tea": "tea lamp visa",
    }  # fmt: skip
    assert words(store) == expected
    assert outcome.removed == (RemovedMemory("pizza", DANA),)
    assert [each.memory.id for each in outcome.reweighed] == ["lamp", "tea"]


def test_history_is_found_by_its_own_words(store: TenantStore, say: Prepare) -> None:
    store.write([say("pune", at=0), say("pizza", at=1, key="turn-2")])
    store.write([say("visa", at=1, key="turn-2"), say("late", at=0.5, key="turn-2")])
    with store._database.reading() as connection:
        rows = connection.execute("SELECT id, impact_terms FROM memories WHERE state = 1").fetchall()
    assert dict(rows) == {"pizza": '["pizza"]', "late": '["late"]'}
    store.check_integrity()


def destroy(how: str, store: TenantStore) -> DeleteOutcome:
    match how:
        case "delete":
            return store.delete(["secret"], visible_from=None)
        case "forget_source":
            return store.forget_source(Source("talk", "turn-2"), visible_from=None)
        case "origin":
            return store.delete(["origin"], visible_from=None)
        case _:
            return store.destroy_expired(limit=9)


@pytest.mark.parametrize("how", ["delete", "forget_source", "origin", "expiry"])
def test_the_words_of_a_destroyed_turn_leave_those_behind_it(
    store: TenantStore, tmp_path: Path, prepare: Prepare, say: Prepare, how: str
) -> None:
    secret = say(
        "secret",
        at=1,
        text="zqhidden",
        questions=("zqasked",),
        source=Source("talk", "turn-2", memory_ids=("origin",)),
        expires_at=say("pune", at=5).memory.event_time,
    )
    store.write(
        [prepare("origin", ACME), say("pune", at=0), secret, say("lamp", at=2), say("tea", at=3),
         say("dog", at=4)]
    )  # fmt: skip
    assert words(store)["lamp"].split()[1:] == ["zqhidden", "zqask", "pune"]
    before = impacts_of(store.load_rung(DANA))
    outcome = destroy(how, store)
    assert words(store) == {
        "pune": "pune",
        "lamp": "lamp pune",
        "tea": "tea lamp pune",
        "dog": "dog tea lamp",
    }
    assert [each.memory.id for each in outcome.reweighed] == ["lamp", "tea"]
    after = impacts_of(store.load_rung(DANA))
    assert impacts_of(outcome.reweighed) == {name: after[name] for name in ("lamp", "tea")}
    assert after["dog"] == before["dog"]
    assert not store.erasure_is_pending
    content = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"zqhidden" not in content and b"zqask" not in content
    store.check_integrity()


def test_neighbours_that_go_together_leave_a_true_rest(store: TenantStore, say: Prepare) -> None:
    store.write([say(word, at=at) for at, word in enumerate(("pune", "visa", "lamp", "tea", "dog"))])
    outcome = store.delete(["visa", "lamp"], visible_from=None)
    assert words(store) == {"pune": "pune", "tea": "tea pune", "dog": "dog tea pune"}
    assert [each.memory.id for each in outcome.reweighed] == ["tea", "dog"]


def test_what_goes_with_a_whole_rung_weighs_nothing_anew(store: TenantStore, say: Prepare) -> None:
    store.write([say("pune", at=0), say("visa", at=1), say("other", EVE, at=0)])
    outcome = store.forget_scope(DANA)
    assert outcome.reweighed == () and len(outcome.deleted) == 2
    assert words(store, EVE) == {"other": "other"}


def test_a_replay_weighs_nothing_anew(store: TenantStore, say: Prepare) -> None:
    store.write([say("pune", at=0), say("lamp", at=2)])
    late = store.write([say("visa", at=1)], request_id="w")
    gone = store.delete(["pune"], visible_from=None, request_id="d")
    assert late.reweighed and gone.reweighed
    again: list[WriteOutcome | DeleteOutcome] = [
        store.write([say("visa", at=1)], request_id="w"),
        store.delete(["pune"], visible_from=None, request_id="d"),
    ]
    assert [(each.replayed, each.reweighed) for each in again] == [(True, ()), (True, ())]


def test_what_is_refused_weighs_nothing_anew(store: TenantStore, say: Prepare) -> None:
    store.write([say("pune", at=0), say("lamp", at=2)])
    before = impacts_of(store.load_rung(DANA))
    with pytest.raises(Exception, match="taken"):
        store.write([say("visa", at=1), say("pune", at=3)])
    assert impacts_of(store.load_rung(DANA)) == before
    store.write([say("tea", at=3)])
    assert words(store)["tea"] == "tea lamp pune", "what was undone left no terms in memory"


def test_what_is_undone_in_a_group_leaves_no_words_for_the_next(store: TenantStore, say: Prepare) -> None:
    """The number of an undone row is given to the next one."""
    store.write([say("pune", at=0)])
    refused = [say("secret", at=1), say("pune", at=1)]
    results = store.write_group(
        [AskedWrite(each) for each in (refused, [say("lamp", at=2)], [say("tea", at=3)])]
    )
    assert [type(each) for each in results] == [AlreadyExists, WriteOutcome, WriteOutcome]
    assert words(store) == {"pune": "pune", "lamp": "lamp pune", "tea": "tea lamp pune"}


def test_damage_is_found_and_not_copied_into_the_weights_of_others(
    store: TenantStore, tmp_path: Path, say: Prepare
) -> None:
    store.write([say("pune", at=0)])
    connection = sqlite3.connect(tmp_path / "acme.db")
    connection.execute("UPDATE memories SET text = 'tune'")
    connection.commit()
    connection.close()
    with pytest.raises(TenantQuarantined, match="pune"):
        store.write([say("visa", at=1)])
    assert store.version == 1


def test_neighbours_are_found_by_the_index_however_long_the_talk(store: TenantStore, say: Prepare) -> None:
    store.write([say("pune")])
    with store._database.reading() as connection:
        for query in (turns._BEFORE, turns._BEHIND):
            names = {"rung": 1, "conversation": b"", "event_time": 0, "number": 0, "latest": 0}
            plan = " ".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", names))
            assert "memories_by_turn (rung=? AND conversation_digest=? AND" in plan, plan
            assert "TEMP B-TREE" not in plan, plan


def test_a_file_of_another_analyser_is_weighed_anew_when_it_is_opened(
    store: TenantStore, tmp_path: Path, say: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write([say("pune", at=0), say("visa", at=1), say("old", at=2, key="k"), say("tea", at=3)])
    store.write([say("new", at=2, key="k")])
    store.close()
    path = tmp_path / "acme.db"
    monkeypatch.setattr("precall.engine.memory.renewal.ANALYZER_VERSION", ANALYZER_VERSION + 1)
    monkeypatch.setattr(
        "precall.engine.memory.prepared.analyze", lambda text: [f"{word}x" for word in text.split()]
    )
    with TenantStore.open(path)._database.reading() as connection:
        renewed = dict(connection.execute("SELECT id, impact_terms FROM memories").fetchall())
        version = connection.execute("SELECT analyzer_version FROM meta").fetchone()[0]
    assert renewed == {
        "pune": '["punex"]',
        "visa": '["visax","punex"]',
        "old": '["oldx"]',
        "new": '["newx","visax","punex"]',
        "tea": '["teax","newx","visax"]',
    }
    assert version == ANALYZER_VERSION + 1
    TenantStore.open(path).check_integrity()
    monkeypatch.setattr("precall.engine.memory.renewal.Turns", None)
    assert TenantStore.open(path).version == 2, "only once"
