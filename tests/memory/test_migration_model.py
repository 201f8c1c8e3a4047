"""Random lives of a tenant that changes its model, against a dict of what each model made of what stands."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from precall.engine.errors import MigrationRefused
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.memory.memory import IndexedMemory, MemoryKind, Source
from precall.engine.memory.migration import MigrationState, StoredModel
from precall.engine.memory.outcomes import DeleteOutcome
from precall.engine.memory.prepared import PreparedMemory
from precall.engine.memory.store import TenantStore
from tests.memory.migrating import ALIKE, NEW, OLD, backfill, by_models, loaded, made_by, start, vector_of

RUNGS = (Rung(("a",)), Rung(("a", "u")))
START = datetime(2024, 5, 1, tzinfo=UTC)

memories = st.fixed_dictionaries(
    {
        "rung": st.sampled_from(RUNGS),
        "key": st.sampled_from(("", "", "k")),
        "minutes": st.integers(0, 5).map(lambda step: 20 * step),
        "is_turn": st.booleans(),
        "is_filled": st.booleans(),
    }
)


class MigrationMachine(RuleBasedStateMachine):
    def __init__(self, prepare: Callable[..., PreparedMemory], new_folder: Callable[[], Path]) -> None:
        super().__init__()
        self.prepare = prepare
        self.path = new_folder() / "t.db"
        TenantStore.create(
            self.path, tenant_id="t", ladder=Ladder(), model_fingerprint="model-1", dimension=8
        ).close()
        self.store = TenantStore.open(self.path)
        self.serial = 0
        self.version = 0
        self.state: MigrationState | None = None
        self.old, self.new = OLD, OLD
        self.standing: dict[str, tuple[Rung, str, int, bool]] = {}
        """Id -> rung, key, minute and whether it is current, in order of arrival."""
        self.beside: set[str] = set()
        """Whose new vector is made, and not moved or removed."""
        self.unsettled: set[str] = set()

    @property
    def serving(self) -> StoredModel:
        is_old = self.state in (None, MigrationState.BACKFILLING, MigrationState.ROLLED_BACK)
        return self.old if is_old else self.new

    @property
    def other(self) -> StoredModel | None:
        if self.state is MigrationState.BACKFILLING:
            return self.new
        return self.old if self.state is MigrationState.SWITCHED else None

    @initialize(data=st.data(), drawn=st.lists(memories, min_size=6, max_size=6), steps=st.integers(0, 3))
    def begin(self, data: st.DataObject, drawn: list[dict[str, Any]], steps: int) -> None:
        """Somewhere on the way: it is far for lives that begin with nothing."""
        self.write(drawn)
        for _ in range(steps):
            self.go_on(data)

    @rule(drawn=st.lists(memories, min_size=1, max_size=3))
    def write(self, drawn: list[dict[str, Any]]) -> None:
        self.version += 1
        batch: list[PreparedMemory] = []
        for each in drawn:
            self.serial += 1
            identity = f"m{self.serial}"
            moment = START + timedelta(minutes=each["minutes"])
            prepared = by_models(
                self.store,
                self.prepare(
                    identity,
                    each["rung"],
                    key=each["key"],
                    kind=MemoryKind.EPISODE if each["is_turn"] else MemoryKind.FACT,
                    source=Source("x" if each["is_turn"] else "", identity),
                    event_time=moment,
                    said_time=moment,
                ),
            )
            if self.state is MigrationState.BACKFILLING and not each["is_filled"]:
                prepared = replace(prepared, other_vector=None)
            elif self.other is not None:
                self.beside.add(identity)
            batch.append(prepared)
            self.arrive(identity, each["rung"], each["key"], each["minutes"])
        outcome = self.store.write(batch)
        for indexed in (*outcome.added, *outcome.reweighed):
            self.is_of_both_models(indexed)

    def arrive(self, identity: str, rung: Rung, key: str, minute: int) -> None:
        is_current = True
        for name, (where, held, at, current) in self.standing.items():
            if key and current and (where, held) == (rung, key):
                is_current = minute >= at
                self.standing[name] = (where, held, at, not is_current)
        self.standing[identity] = (rung, key, minute, is_current)

    def is_of_both_models(self, indexed: IndexedMemory) -> None:
        identity = indexed.memory.id
        assert indexed.vector.tobytes() == vector_of(self.serving, identity).tobytes()
        if self.other is not None and identity in self.beside:
            assert indexed.other_vector is not None
            assert indexed.other_vector.tobytes() == vector_of(self.other, identity).tobytes()
        else:
            assert indexed.other_vector is None

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        if self.standing:
            ids = data.draw(st.lists(st.sampled_from(sorted(self.standing)), min_size=1, max_size=3))
            self.go(self.store.delete(ids, visible_from=None), set(ids))

    @rule(data=st.data(), drawn=st.lists(memories, min_size=1, max_size=2))
    def go_on_and_change_something(self, data: st.DataObject, drawn: list[dict[str, Any]]) -> None:
        self.go_on(data)
        self.each_model_has_its_own()
        self.write(drawn)
        self.each_model_has_its_own()
        self.delete(data)

    @rule(rung=st.sampled_from(RUNGS))
    def forget(self, rung: Rung) -> None:
        there = {name for name, each in self.standing.items() if rung.is_visible_from(each[0])}
        self.go(self.store.forget_scope(rung), there)

    def go(self, outcome: DeleteOutcome, named: set[str]) -> None:
        heads = {self.standing[name][:2] for name in named if self.standing[name][3]}
        keys = {head for head in heads if head[1]}
        gone = named | {name for name, each in self.standing.items() if each[:2] in keys}
        assert {each.id for each in outcome.deleted} == gone
        for name in gone:
            del self.standing[name]
        self.beside -= gone
        self.unsettled -= gone
        self.version += bool(gone)
        for indexed in outcome.reweighed:
            self.is_of_both_models(indexed)

    @rule(data=st.data())
    def go_on(self, data: st.DataObject) -> None:
        """A step that is allowed now: with rules of their own few lives would come far."""
        if self.state is MigrationState.BACKFILLING:
            step = data.draw(
                st.sampled_from((self.fill, self.fill_and_switch, self.fill_and_switch, self.roll_back))
            )
        elif self.state is MigrationState.SWITCHED:
            step = data.draw(st.sampled_from((self.finish, self.finish, self.roll_back)))
        elif self.state is MigrationState.FINISHING:
            step = self.settle
        elif self.state is MigrationState.ROLLED_BACK and self.beside:
            step = data.draw(st.sampled_from((self.settle, self.start)))
        else:
            step = self.start
        step(data)

    def start(self, data: st.DataObject) -> None:
        serving = self.serving
        model = data.draw(st.sampled_from([each for each in (OLD, NEW, ALIKE) if each != serving]))
        start(self.store, model)
        self.state, self.old, self.new = MigrationState.BACKFILLING, serving, model
        self.beside.clear()

    def fill(self, data: st.DataObject) -> None:
        limit = data.draw(st.integers(1, 4))
        lacking = [name for name in self.standing if name not in self.beside][:limit]
        assert [each.text.split()[1] for each in self.store.lacking(limit)] == lacking
        backfill(self.store, limit=limit, batches=1)
        self.beside.update(lacking)

    def fill_and_switch(self, _: st.DataObject) -> None:
        if self.beside != set(self.standing):
            with pytest.raises(MigrationRefused, match="memories have a vector"):
                self.store.switch_migration()
        backfill(self.store, limit=5)
        self.beside.update(self.standing)
        self.store.switch_migration()
        self.state = MigrationState.SWITCHED

    def roll_back(self, _: st.DataObject) -> None:
        self.store.roll_back_migration()
        self.state = MigrationState.ROLLED_BACK

    def finish(self, _: st.DataObject) -> None:
        self.store.finish_migration()
        self.state = MigrationState.FINISHING
        self.unsettled, self.beside = set(self.standing), set()

    def settle(self, data: st.DataObject) -> None:
        limit = data.draw(st.integers(1, 4))
        more = self.store.settle_migration(limit)
        if self.state is MigrationState.ROLLED_BACK:
            self.beside -= set([name for name in self.standing if name in self.beside][:limit])
            assert more == bool(self.beside)
        else:
            assert more == bool(self.unsettled)
            self.unsettled -= set([name for name in self.standing if name in self.unsettled][:limit])
            if not more:
                self.state = MigrationState.FINISHED

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = TenantStore.open(self.path)

    @invariant()
    def each_model_has_its_own(self) -> None:
        store = self.store
        store.check_integrity()
        assert (store.version, store.serving, store.other) == (self.version, self.serving, self.other)
        for rung in RUNGS:
            there = [name for name, each in self.standing.items() if each[0] == rung]
            current = [name for name in there if self.standing[name][3]]
            assert loaded(store, rung) == made_by(self.serving, current)
            now = datetime.now(UTC)
            assert [each.memory.id for each in store.load_rung_as_of(rung, now)] == current
            if self.other is not None:
                expected = made_by(self.other, [name for name in current if name in self.beside])
                assert loaded(store, rung, self.other.fingerprint) == expected
        migration = store.migration
        assert (migration.state if migration else None) == self.state
        if migration is not None:
            is_settled = self.state in (MigrationState.FINISHING, MigrationState.FINISHED)
            done = len(self.standing) - len(self.unsettled) if is_settled else len(self.beside)
            assert (migration.done, migration.total) == (done, len(self.standing))

    def teardown(self) -> None:
        self.store.close()


def test_no_life_mixes_two_models(
    prepare: Callable[..., PreparedMemory], tmp_path_factory: pytest.TempPathFactory
) -> None:
    class Life(MigrationMachine):
        def __init__(self) -> None:
            super().__init__(prepare, lambda: tmp_path_factory.mktemp("life"))

    run_state_machine_as_test(
        Life,
        settings=settings(
            max_examples=35,
            stateful_step_count=10,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
