"""Whatever happens to a conversation, each weight is the one that follows from what stands; and an index that
follows the outcomes alone has the same.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from precall.engine.memory import reading
from precall.engine.memory.group import AskedWrite
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.memory.memory import IndexedMemory, MemoryKind, MemoryState, Source
from precall.engine.memory.outcomes import DeleteOutcome, NetEffect, WriteOutcome
from precall.engine.memory.placement import Placement
from precall.engine.memory.prepared import PreparedMemory
from precall.engine.memory.store import TenantStore
from tests.memory.weighing import weights

RUNGS = (Rung(("a",)), Rung(("a", "u")))
START = datetime(2024, 5, 1, tzinfo=UTC)
WORDS = ("pune", "visa", "train", "lamp", "tea")

memories = st.fixed_dictionaries(
    {
        "rung": st.sampled_from(RUNGS),
        "text": st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join),
        "kind": st.sampled_from((MemoryKind.EPISODE,) * 4 + (MemoryKind.FACT,)),
        "minutes": st.integers(0, 8).map(lambda step: 30 * step),
        "key": st.sampled_from(("", "", "", "k", "l")),
        "conversation": st.sampled_from(("x", "x", "x", "y", "")),
        "lifetime": st.none() | st.none() | st.integers(1, 9),
    }
)


class ConversationMachine(RuleBasedStateMachine):
    def __init__(self, prepare: Callable[..., PreparedMemory], new_folder: Callable[[], Path]) -> None:
        super().__init__()
        self.prepare = prepare
        self.path = new_folder() / "t.db"
        TenantStore.create(
            self.path, tenant_id="t", ladder=Ladder(), model_fingerprint="f", dimension=8
        ).close()
        self.seconds = START.timestamp()
        self.store = self.opened()
        self.ids: list[str] = []
        self.followed: dict[str, IndexedMemory] = {}

    def opened(self) -> TenantStore:
        return TenantStore.open(self.path, clock=lambda: self.seconds)

    @rule(batches=st.lists(st.lists(memories, min_size=1, max_size=4), min_size=1, max_size=3))
    def write(self, batches: list[list[dict[str, Any]]]) -> None:
        results = self.store.write_group([AskedWrite([self.prepared(m) for m in batch]) for batch in batches])
        outcomes = [each for each in results if isinstance(each, WriteOutcome)]
        assert len(outcomes) == len(batches), results
        effect = NetEffect.of(outcomes)
        for removed in effect.removed:
            del self.followed[removed.id]
        for indexed in effect.reweighed:
            # What one batch changes the next may change back; it is then told in vain, which harms nobody.
            assert len(batches) > 1 or indexed.impacts != self.followed[indexed.memory.id].impacts
            self.followed[indexed.memory.id] = indexed
        for indexed in effect.added:
            assert indexed.memory.id not in self.followed
            self.followed[indexed.memory.id] = indexed

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        if self.ids:
            doomed = data.draw(st.lists(st.sampled_from(self.ids), min_size=1, max_size=3))
            self.follow(self.store.delete(doomed, visible_from=None))

    @rule(rung=st.sampled_from(RUNGS))
    def forget_scope(self, rung: Rung) -> None:
        self.follow(self.store.forget_scope(rung))

    @rule(conversation=st.sampled_from("xy"), turn=st.sampled_from(("", "turn-1", "turn-2")))
    def forget_source(self, conversation: str, turn: str) -> None:
        self.follow(self.store.forget_source(Source(conversation, turn), visible_from=None))

    @rule(seconds=st.integers(1, 9), limit=st.integers(1, 3))
    def expire(self, seconds: int, limit: int) -> None:
        self.seconds += seconds
        while self.store.expiry_is_due:
            self.follow(self.store.destroy_expired(limit=limit))

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = self.opened()

    @invariant()
    def weights_are_those_of_what_stands(self) -> None:
        with self.store._database.reading() as connection:
            stored = list(reading.stream_all(connection, Placement.read(connection).view(None)))
        expected = weights([indexed.memory for indexed in stored])
        assert {indexed.memory.id: indexed.impacts for indexed in stored} == expected
        current = [indexed for indexed in stored if indexed.memory.state is MemoryState.CURRENT]
        assert {i: (each.memory, each.impacts) for i, each in self.followed.items()} == {
            each.memory.id: (each.memory, each.impacts) for each in current
        }

    def teardown(self) -> None:
        self.store.close()

    def follow(self, outcome: DeleteOutcome) -> None:
        for removed in outcome.removed:
            del self.followed[removed.id]
        for indexed in outcome.reweighed:
            assert indexed.impacts != self.followed[indexed.memory.id].impacts
            self.followed[indexed.memory.id] = indexed

    def prepared(self, drawn: dict[str, Any]) -> PreparedMemory:
        identity = f"m{len(self.ids)}"
        self.ids.append(identity)
        lifetime = drawn["lifetime"]
        ends = None if lifetime is None else datetime.fromtimestamp(self.seconds + lifetime, UTC)
        return self.prepare(
            identity,
            drawn["rung"],
            text=drawn["text"],
            kind=drawn["kind"],
            key=drawn["key"],
            event_time=START + timedelta(minutes=drawn["minutes"]),
            source=Source(drawn["conversation"], f"turn-{len(self.ids) % 3}"),
            expires_at=ends,
        )


def test_weights_follow_what_stands_through_random_lives(
    prepare: Callable[..., PreparedMemory], tmp_path_factory: pytest.TempPathFactory
) -> None:
    class Life(ConversationMachine):
        def __init__(self) -> None:
            super().__init__(prepare, lambda: tmp_path_factory.mktemp("life"))

    run_state_machine_as_test(
        Life,
        settings=settings(
            max_examples=40,
            stateful_step_count=15,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
