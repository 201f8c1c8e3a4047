"""The store against a model in plain Python, over random lives; and an index that follows its outcomes."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from precall.engine.errors import AlreadyExists
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.memory.memory import Memory, MemoryState, Source
from precall.engine.memory.outcomes import DeleteOutcome, WriteOutcome
from precall.engine.memory.prepared import PreparedMemory
from precall.engine.memory.store import TenantStore

RUNGS = (Rung(("a",)), Rung(("a", "u")), Rung(("a", "v")), Rung(("b", "u")))
rungs = st.sampled_from(RUNGS)
readers = st.none() | rungs


@dataclass(frozen=True)
class Statement:
    id: str
    rung: Rung
    key: str
    at: int
    conversation: str
    origins: tuple[str, ...]
    stored_at: int = 0
    superseded_at: int | None = None

    @property
    def current(self) -> bool:
        return self.superseded_at is None

    def was_current_at(self, moment: int) -> bool:
        return self.stored_at <= moment and (self.superseded_at is None or self.superseded_at > moment)


@dataclass
class Model:
    """What DESIGN.md says of a tenant's memories, over a list."""

    statements: list[Statement] = field(default_factory=list)
    version: int = 0

    def write(self, batch: list[Statement], moment: int) -> None:
        self.version += 1
        for new in (replace(each, stored_at=moment) for each in batch):
            for place, old in enumerate(self.statements):
                if new.key and (old.rung, old.key, old.current) == (new.rung, new.key, True):
                    if new.at >= old.at:
                        self.statements[place] = replace(old, superseded_at=moment)
                    else:
                        new = replace(new, superseded_at=moment)
                    break
            self.statements.append(new)

    def destroy(self, named: Callable[[Statement], bool]) -> set[str]:
        doomed: set[str] = {item.id for item in self.statements if named(item)}
        while True:
            heads = {(x.rung, x.key) for x in self.statements if x.id in doomed and x.current and x.key}
            grown = {
                item.id
                for item in self.statements
                if item.id in doomed or (item.rung, item.key) in heads or doomed.intersection(item.origins)
            }
            if grown == doomed:
                break
            doomed = grown
        self.statements = [item for item in self.statements if item.id not in doomed]
        self.version += bool(doomed)
        return doomed


class StoreMachine(RuleBasedStateMachine):
    def __init__(self, prepare: Callable[..., PreparedMemory], new_folder: Callable[[], Path]) -> None:
        super().__init__()
        self.prepare = prepare
        self.path = new_folder() / "t.db"
        TenantStore.create(
            self.path, tenant_id="t", ladder=Ladder(), model_fingerprint="f", dimension=8
        ).close()
        self.model = Model()
        self.moment = 1_000_000_000
        """Unix seconds; every write has its own."""
        self.store = self.opened()
        self.followed: dict[str, Rung] = {}
        self.serial = 0
        self.again: list[Callable[[], WriteOutcome | DeleteOutcome]] = []

    @rule(data=st.data(), size=st.integers(1, 4))
    def write(self, data: st.DataObject, size: int) -> None:
        batch: list[Statement] = []
        for _ in range(size):
            known = [item.id for item in self.model.statements + batch]
            self.serial += 1
            batch.append(
                Statement(
                    id=f"m{self.serial}",
                    rung=data.draw(rungs),
                    key=data.draw(st.sampled_from(["", "k", "l"])),
                    at=data.draw(st.integers(-2, 2)),
                    conversation=data.draw(st.sampled_from(["", "x", "y"])),
                    origins=tuple(data.draw(st.lists(st.sampled_from(known), max_size=2))) if known else (),
                )
            )
        call = functools.partial(
            self.store_write, [self.prepared(item) for item in batch], request_id=f"r{self.serial}"
        )
        self.moment += 1
        outcome = call()
        self.model.write(batch, self.moment)
        self.again.append(call)
        states = {item.id: item.current for item in self.model.statements}
        assert [(item.id, item.state is MemoryState.CURRENT) for item in outcome.written] == [
            (item.id, states[item.id]) for item in batch
        ]
        for removed in outcome.removed:
            assert self.followed.pop(removed.id) == removed.rung
        for added in outcome.added:
            self.followed[added.memory.id] = added.memory.rung

    @rule(data=st.data())
    def write_a_taken_id(self, data: st.DataObject) -> None:
        if self.model.statements:
            taken = data.draw(st.sampled_from(self.model.statements))
            with pytest.raises(AlreadyExists):
                self.store.write([self.prepare("fresh", key="k"), self.prepared(taken)])

    @rule(data=st.data(), reader=readers)
    def delete(self, data: st.DataObject, reader: Rung | None) -> None:
        known = [item.id for item in self.model.statements]
        ids = data.draw(st.lists(st.sampled_from([*known, "never"]), min_size=1, max_size=3))
        call = functools.partial(self.store_delete, ids, visible_from=reader, request_id=self.next_request())
        outcome = call()
        seen = {i.id for i in self.model.statements if reader is None or i.rung.is_visible_from(reader)}
        assert set(outcome.missing_ids) == set(ids) - seen
        self.follow(outcome, lambda item: item.id in seen and item.id in ids)
        self.again.append(call)

    @rule(rung=rungs)
    def forget_scope(self, rung: Rung) -> None:
        self.follow(self.store.forget_scope(rung), lambda item: rung.is_visible_from(item.rung))

    @rule(conversation=st.sampled_from(["x", "y"]), reader=readers)
    def forget_source(self, conversation: str, reader: Rung | None) -> None:
        self.follow(
            self.store.forget_source(Source(conversation), visible_from=reader),
            lambda item: (
                item.conversation == conversation and (reader is None or item.rung.is_visible_from(reader))
            ),
        )

    @rule(data=st.data())
    def ask_again(self, data: st.DataObject) -> None:
        if self.again:
            assert data.draw(st.sampled_from(self.again))().replayed

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = self.opened()

    @rule(data=st.data(), rung=rungs)
    def ask_how_it_stood(self, data: st.DataObject, rung: Rung) -> None:
        moment = data.draw(st.integers(1_000_000_000, self.moment + 1))
        when = datetime.fromtimestamp(moment, UTC)
        stored = [item for item in self.model.statements if item.rung == rung and item.stored_at <= moment]
        then = [item.id for item in stored if item.was_current_at(moment)]
        assert [item.memory.id for item in self.store.load_rung_as_of(rung, when)] == then
        assert [memory.id for memory in self.pages(rung, as_of=when)] == then
        with_history = self.pages(rung, as_of=when, include_history=True)
        assert [(memory.id, memory.state is MemoryState.CURRENT) for memory in with_history] == [
            (item.id, item.was_current_at(moment)) for item in stored
        ]

    def pages(self, rung: Rung, **asked: Any) -> list[Memory]:
        """All of them, two at a time."""
        memories: list[Memory] = []
        token = ""
        while True:
            page = self.store.list_rung(rung, limit=2, after_token=token, **asked)
            memories += page.memories
            token = page.next_token
            if not token:
                return memories
            assert len(page.memories) == 2

    def opened(self) -> TenantStore:
        return TenantStore.open(self.path, clock=lambda: self.moment)

    @invariant()
    def store_holds_what_the_model_holds(self) -> None:
        self.store.check_integrity()
        assert self.store.version == self.model.version
        for rung in RUNGS:
            expected = [item for item in self.model.statements if item.rung == rung]
            page = self.store.list_rung(rung, limit=1000, include_history=True)
            assert [
                (memory.id, memory.key, memory.state is MemoryState.CURRENT) for memory in page.memories
            ] == [(item.id, item.key, item.current) for item in expected]
            loaded = {item.memory.id for item in self.store.load_rung(rung)}
            assert loaded == {item.id for item in expected if item.current}
            assert loaded == {identity for identity, where in self.followed.items() if where == rung}

    def teardown(self) -> None:
        self.store.close()

    def follow(self, outcome: DeleteOutcome, named: Callable[[Statement], bool]) -> None:
        assert {item.id for item in outcome.deleted} == self.model.destroy(named)
        for removed in outcome.removed:
            assert self.followed.pop(removed.id) == removed.rung

    def prepared(self, item: Statement) -> PreparedMemory:
        source = Source(conversation_id=item.conversation, memory_ids=item.origins)
        return self.prepare(item.id, item.rung, key=item.key, at=item.at, source=source)

    def next_request(self) -> str:
        self.serial += 1
        return f"r{self.serial}"

    def store_write(self, batch: list[PreparedMemory], *, request_id: str) -> WriteOutcome:
        return self.store.write(batch, request_id=request_id)

    def store_delete(self, ids: list[str], *, visible_from: Rung | None, request_id: str) -> DeleteOutcome:
        return self.store.delete(ids, visible_from=visible_from, request_id=request_id)


def test_random_lives_follow_the_model(
    prepare: Callable[..., PreparedMemory], tmp_path_factory: pytest.TempPathFactory
) -> None:
    class Life(StoreMachine):
        def __init__(self) -> None:
            super().__init__(prepare, lambda: tmp_path_factory.mktemp("life"))

    run_state_machine_as_test(
        Life,
        settings=settings(
            max_examples=30,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
