"""Many rows at a time into an index: the same that they make one by one, and no damaged row in it."""

import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from precall.engine.errors import TenantQuarantined
from precall.engine.index.filter import MemoryFilter
from precall.engine.index.partition import Partition, PartitionSettings
from precall.engine.memory import decoded_memory, kept_memories, reading
from precall.engine.memory.decoded_memory import decode_said, verified_contents, verified_said
from precall.engine.memory.kept_memories import KeptMemories
from precall.engine.memory.ladder import Ladder
from precall.engine.memory.memory import Memory, MemoryKind, Source
from precall.engine.memory.rows import (
    CURRENT,
    CURRENT_CHECKSUM,
    INDEXED_COLUMNS,
    SAID,
    indexed_checksum,
    said_bytes,
)
from precall.engine.memory.store import TenantStore
from tests.memory.conftest import DANA, DIMENSION, Prepare

LADDER = Ladder(("customer", "user"))
FAR = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
WORDS = st.text('abc «"\\\n\u0000,[]{}é東😀', max_size=6)
MOMENTS = st.none() | st.datetimes(datetime(1900, 1, 1), datetime(2_000, 1, 1), timezones=st.just(UTC))

FIELDS = st.fixed_dictionaries(
    {
        "text": WORDS.map("said ".__add__),
        "kind": st.sampled_from(MemoryKind),
        "pinned": st.booleans(),
        "confidence": st.floats(0, 1),
        "importance": st.floats(0, 1),
        "valid_from": MOMENTS,
        "valid_until": st.none() | st.just(FAR),
        "expires_at": st.none() | st.just(FAR - timedelta(microseconds=1)),
        "questions": st.lists(WORDS, max_size=2).map(tuple),
        "metadata": st.dictionaries(WORDS, WORDS, max_size=2),
        "source": st.builds(Source, st.sampled_from(["", "c1", "c2"]), WORDS, WORDS),
        "key": st.sampled_from(["", "", "", "k1", "k2", '"],["']),
    }
)


def by_blocks(store: TenantStore, exact_below: int = 10**9) -> Partition:
    partition = Partition(DANA, DIMENSION, PartitionSettings(exact_below=exact_below))
    partition.fill(store.load_blocks(DANA))
    partition.check_integrity()
    return partition


def one_by_one(store: TenantStore, exact_below: int = 10**9) -> Partition:
    partition = Partition(DANA, DIMENSION, PartitionSettings(exact_below=exact_below))
    for indexed in store.load_rung(DANA):
        partition.apply(added=[indexed])
    return partition


def assert_same(filled: Partition, built: Partition) -> None:
    """Slot by slot: rows, columns, postings, and what every filter lets through."""
    ours, expected = filled.all(), built.all()
    assert [each.memory for each in ours] == [each.memory for each in expected]
    assert [each.impacts for each in ours] == [each.impacts for each in expected]
    assert [list(each.impacts) for each in ours] == [list(each.impacts) for each in expected]
    for mine, theirs in zip(ours, expected, strict=True):
        np.testing.assert_array_equal(mine.vector, theirs.vector)
    for column in ("importance", "event_seconds", "servable_from", "servable_until"):
        np.testing.assert_array_equal(getattr(filled._set, column), getattr(built._set, column))
    assert vars(filled.statistics()) == vars(built.statistics())
    assert sorted(filled._windows._windowed.array()) == sorted(built._windows._windowed.array())
    for memory in [each.memory for each in expected]:
        asked = MemoryFilter(
            kinds=frozenset({memory.kind}),
            metadata=memory.metadata,
            conversation_ids=frozenset({memory.source.conversation_id} - {""}),
            keys=frozenset({memory.key} - {""}),
            pinned_only=memory.pinned,
            event_from=memory.event_time,
        )
        assert filled.count(asked) == built.count(asked) >= 1


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=st.lists(FIELDS, min_size=1, max_size=12), data=st.data())
def test_a_partition_that_is_filled_equals_one_that_grew(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    prepare: Prepare,
    said: list[dict[str, Any]],
    data: st.DataObject,
) -> None:
    monkeypatch.setattr(reading, "_BLOCK_ROWS", data.draw(st.integers(1, 5)))
    path = tmp_path_factory.mktemp("block") / "acme.db"
    store = TenantStore.create(
        path, tenant_id="acme", ladder=LADDER, model_fingerprint="model-1", dimension=DIMENSION
    )
    store.write([prepare(f"m{n}", at=n, **fields) for n, fields in enumerate(said)])
    filled, built = by_blocks(store), one_by_one(store)
    assert_same(filled, built)
    ids = [each.memory.id for each in built.all()]
    leaving = data.draw(st.lists(st.sampled_from(ids), unique=True))
    store.close()
    for partition in (filled, built):  # what was never decoded leaves as completely
        partition.apply(removed=leaving)
        partition.check_integrity()
    assert_same(filled, built)


def test_codes_are_made_of_all_blocks_at_once(
    store: TenantStore, prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_BLOCK_ROWS", 7)
    store.write([prepare(f"m{n}", text=f"word{n % 5} tea") for n in range(60)])
    filled = by_blocks(store, exact_below=20)
    assert filled.quantized and len(filled) == 60
    assert {each.memory.id for each in filled.all()} == {f"m{n}" for n in range(60)}


def test_what_was_read_is_decoded_once(store: TenantStore, prepare: Prepare) -> None:
    store.write([prepare("m1")])
    partition = by_blocks(store)
    assert partition.memory("m1") is partition.memory("m1") is not None
    assert partition.memory("m2") is None


def test_good_rows_are_verified_together(
    store: TenantStore, prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each would be encoded alone, and a rung would load as surely and in more time."""
    store.write([prepare(f"m{n}", text='100 % "tea"\n\u2028 é', importance=n / 4) for n in range(3)])

    def one_by_one(row: object) -> bytes:
        raise AssertionError("a row was looked at by itself")

    monkeypatch.setattr(decoded_memory, "verified_said", one_by_one)
    assert len(by_blocks(store)) == 3


def test_a_row_that_is_equal_to_others_and_written_otherwise_is_read_as_it_was_written() -> None:
    """0.0 and -0.0, which SQLite does not tell apart in its own files; nor does what encodes many at once."""
    rows = []
    for identity, importance in (("m1", 0.0), ("m2", -0.0)):
        said = [identity, "fact", 0, 1.0, importance, *[None] * (len(SAID) - 5)]
        content = said_bytes('["acme"]', said)
        rows.append((CURRENT, 0, None, CURRENT_CHECKSUM, crc32(content), '["acme"]', *said))
    assert verified_contents(rows, tuple(zip(*rows, strict=True))) == [verified_said(row) for row in rows]


def test_blocks_say_how_many_memories_follow(
    store: TenantStore, prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_BLOCK_ROWS", 2)
    store.write([prepare(f"m{n}", key="k" if n < 3 else "") for n in range(7)])  # two become history
    assert [(len(block), block.following) for block in store.load_blocks(DANA)] == [(2, 3), (2, 1), (1, 0)]


def test_a_reader_who_decodes_late_brings_nothing_back(
    store: TenantStore, prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write([prepare("m1")])
    [block] = store.load_blocks(DANA)
    kept = KeptMemories()
    kept.extend(block.ids, block.contents)

    def decode_slowly(content: bytes) -> Memory:
        monkeypatch.setattr(kept_memories, "decode_said", decode_said)
        kept.pop("m1")  # while the reader decodes
        return decode_said(content)

    monkeypatch.setattr(kept_memories, "decode_said", decode_slowly)
    assert kept.get("m1") is not None
    assert "m1" not in kept and kept.get("m1") is None


def test_an_empty_rung_has_no_blocks(store: TenantStore) -> None:
    assert list(store.load_blocks(DANA)) == []


DAMAGE = {
    "text": "text || '.'", "kind": "'event'", "pinned": "1 - pinned", "confidence": "0.25",
    "importance": "0.25", "event_time": "event_time + 1", "said_time": "said_time + 1",
    "valid_from": "5", "valid_until": "5", "expires_at": "9000000000000000", "key": "'other'",
    "created_at": "created_at - 1", "created_version": "created_version + 1",
    "tokens_given": "8", "tokens_used": "8", "conversation_id": "'other'", "turn_id": "'other'",
    "uri": "'other'", "derived_from": "'[\"m9\"]'", "questions": "'[\"why\"]'",
    "metadata": "'{\"a\":\"b\"}'", "id": "'m9'", "fate_checksum": "fate_checksum + 1",
    "said_checksum": "said_checksum + 1", "vector": "zeroblob(length(vector))",
    "impact_terms": "'[\"a\",\"b\",\"c\"]'", "impact_weights": "zeroblob(length(impact_weights))",
    "indexed_checksum": "indexed_checksum + 1",
}  # fmt: skip


@pytest.mark.parametrize("column", DAMAGE)
def test_a_damaged_row_among_good_ones_is_refused(
    store: TenantStore, tmp_path: Path, prepare: Prepare, column: str
) -> None:
    store.write([prepare(f"m{n}", key=f"k{n}", text="tea in pune") for n in range(3)])
    assert len(by_blocks(store)) == 3
    connection = sqlite3.connect(tmp_path / "acme.db")
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute(f"UPDATE memories SET {column} = {DAMAGE[column]} WHERE id = 'm1'")
    connection.commit()
    connection.close()
    with pytest.raises(TenantQuarantined):
        by_blocks(store)
    with pytest.raises(TenantQuarantined):
        one_by_one(store)


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
def test_a_vector_that_is_not_finite_is_refused_although_its_checksum_fits(
    store: TenantStore, tmp_path: Path, prepare: Prepare, number: float
) -> None:
    store.write([prepare(f"m{n}", text="tea in pune") for n in range(3)])
    connection = sqlite3.connect(tmp_path / "acme.db")
    terms, weights = connection.execute("SELECT impact_terms, impact_weights FROM memories").fetchone()
    vector = np.array([number] + [0.0] * (DIMENSION - 1), "<f2").tobytes()
    connection.execute(
        "UPDATE memories SET vector = ?, indexed_checksum = ? WHERE id = 'm1'",
        (vector, indexed_checksum(vector, terms, weights)),
    )
    connection.commit()
    connection.close()
    with pytest.raises(TenantQuarantined):
        list(store.load_blocks(DANA))


def test_every_column_that_is_served_was_damaged() -> None:
    """All but what says where and in which state a row stands: another rung or history is another query."""
    read = {column.strip().partition(".")[2] for column in INDEXED_COLUMNS.split(",")}
    assert read - DAMAGE.keys() == {"path", "state", "superseded_version", "superseded_at"}
