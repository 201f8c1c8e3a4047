"""Writes that share a transaction share neither version nor fate."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from precall.engine.errors import AlreadyExists, InvalidInput, NotFound, StorageUnavailable
from precall.engine.memory.group import AskedWrite
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import Source
from precall.engine.memory.outcomes import NetEffect, WriteOutcome
from precall.engine.memory.prepared import PreparedMemory
from precall.engine.memory.store import TenantStore

DANA = Rung(("acme", "dana"))
Prepare = Callable[..., PreparedMemory]


def ids(store: TenantStore) -> list[str]:
    return [item.memory.id for item in store.load_rung(DANA)]


def outcomes_of(results: Sequence[WriteOutcome | Exception]) -> list[WriteOutcome]:
    assert all(isinstance(each, WriteOutcome) for each in results), results
    return [each for each in results if isinstance(each, WriteOutcome)]


@contextmanager
def counting_commits(store: TenantStore) -> Iterator[list[str]]:
    commits: list[str] = []
    store._database._writer.set_trace_callback(lambda sql: commits.append(sql) if sql == "COMMIT" else None)
    try:
        yield commits
    finally:
        store._database._writer.set_trace_callback(None)


def test_each_write_has_its_own_version_in_one_transaction(store: TenantStore, prepare: Prepare) -> None:
    store.write([prepare("before")])
    with counting_commits(store) as commits:
        results = store.write_group([AskedWrite([prepare(f"m{n}"), prepare(f"n{n}")]) for n in range(5)])
    assert commits == ["COMMIT"]
    outcomes = outcomes_of(results)
    assert [outcome.version for outcome in outcomes] == [2, 3, 4, 5, 6]
    assert [[item.id for item in outcome.written] for outcome in outcomes] == [
        [f"m{n}", f"n{n}"] for n in range(5)
    ]
    stored = store.get(["m0", "m4"], visible_from=None).memories
    assert [memory.created_version for memory in stored] == [2, 6]
    assert store.version == 6
    store.check_integrity()


def test_a_bad_write_fails_alone_and_takes_no_version(store: TenantStore, prepare: Prepare) -> None:
    results = store.write_group(
        [
            AskedWrite([prepare("a", key="k", at=1)]),
            AskedWrite([prepare("b", key="k", at=2), prepare("a")]),  # its first memory goes with it
            AskedWrite([prepare("")]),
            AskedWrite([prepare("c", source=Source(memory_ids=("b",)))]),
            AskedWrite([]),
            AskedWrite([prepare("d", source=Source(memory_ids=("a",)))]),
        ]
    )
    assert [type(each) for each in results] == [
        WriteOutcome, AlreadyExists, InvalidInput, NotFound, InvalidInput, WriteOutcome,
    ]  # fmt: skip
    assert [each.version for each in results if isinstance(each, WriteOutcome)] == [1, 2]
    assert (store.version, ids(store)) == (2, ["a", "d"])
    store.check_integrity()


def test_a_request_that_comes_twice_in_a_group_is_one_write(store: TenantStore, prepare: Prepare) -> None:
    batch = [prepare("a", key="k")]
    again = [prepare("a2", key="k", text=batch[0].memory.text)]
    first, second, other = store.write_group(
        [AskedWrite(batch, "r"), AskedWrite(again, "r"), AskedWrite([prepare("b")], "r")]
    )
    assert isinstance(first, WriteOutcome) and isinstance(second, WriteOutcome)
    assert (first.replayed, second.replayed, second.written) == (False, True, first.written)
    assert isinstance(other, InvalidInput)
    assert (store.version, ids(store)) == (1, ["a"])


def test_a_disk_that_cannot_take_one_of_them_takes_the_others(store: TenantStore, prepare: Prepare) -> None:
    with store._database.writing() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 100}")
    large = [prepare(f"large{n}", text="long " * 4_000) for n in range(5)]
    results = store.write_group([AskedWrite([prepare("a")]), AskedWrite(large), AskedWrite([prepare("b")])])
    assert [type(each) for each in results] == [WriteOutcome, StorageUnavailable, WriteOutcome]
    assert (store.version, ids(store)) == (2, ["a", "b"])
    store.check_integrity()


def test_a_fault_of_ours_in_one_of_them_is_not_the_others(
    store: TenantStore, prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    from precall.engine.memory import writing

    encode = writing.encode_memory

    def encode_badly(
        prepared: PreparedMemory, impacts: Mapping[str, float], **named: int
    ) -> dict[str, object]:
        columns = encode(prepared, impacts, **named)
        return columns | {"kind": "no kind"} if prepared.memory.id == "bad" else columns

    monkeypatch.setattr(writing, "encode_memory", encode_badly)
    results = store.write_group([AskedWrite([prepare(name)]) for name in ("a", "bad", "b")])
    assert [type(each) for each in results] == [WriteOutcome, sqlite3.IntegrityError, WriteOutcome]
    assert (store.version, ids(store)) == (2, ["a", "b"])


def test_what_is_superseded_inside_a_group_has_no_effect_of_its_own(
    store: TenantStore, prepare: Prepare
) -> None:
    store.write([prepare("old", key="k", at=0)])
    outcomes = outcomes_of(
        store.write_group(
            [
                AskedWrite([prepare("mid", key="k", at=1), prepare("plain")]),
                AskedWrite([prepare("new", key="k", at=2)]),
                AskedWrite([prepare("late", key="k", at=1)]),
            ]
        )
    )
    assert [item.id for item in outcomes[1].removed] == ["mid"]
    effect = NetEffect.of(outcomes)
    assert [indexed.memory.id for indexed in effect.added] == ["plain", "new"]
    assert [removed.id for removed in effect.removed] == ["old"]
    assert set(ids(store)) == {"plain", "new"}
