"""Lives of a server on loopback: other tenants' keys, a pinned key, agents that read from their caches."""

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, run_state_machine_as_test

from precall.client import Read
from precall.engine.index.partition import PartitionSettings
from precall.engine.memory.ladder import Rung
from precall.proto import retrieval_pb2
from tests.properties import draws
from tests.properties.actions import action
from tests.properties.conftest import lives
from tests.properties.engine_path import Tightness
from tests.properties.life import NewFolder
from tests.properties.looks import Looks
from tests.properties.migrations import Migrations
from tests.properties.model import Model
from tests.properties.model_change import Answer
from tests.properties.ranking import check_answer, scored
from tests.properties.service import Refused
from tests.properties.vectors import other_than
from tests.properties.wire_path import WirePath

PINNED = draws.DANA


class WireLife(Migrations, Looks):
    service: WirePath

    def __init__(self, new_folder: NewFolder, sources: Counter[str]) -> None:
        super().__init__(new_folder)
        self.backups = {}
        self.sources = sources

    @initialize(budget=st.sampled_from((1, 10**9)), seed=st.integers(0, 10**6), travelled=st.integers(0, 3))
    def start(self, budget: int, seed: int, travelled: int) -> None:
        """``travelled``: steps that one tenant has taken to the next model."""
        settings = PartitionSettings(exact_below=3)
        self.begin(WirePath(self.clock, Tightness(budget_bytes=budget, partitions=settings)))
        self.settle(seed)
        self.travel(draws.TENANTS[0], travelled)

    @action(
        3,
        tenant=draws.tenants,
        reader=draws.rungs,
        text=draws.texts,
        limit=draws.limits,
        fits=st.sampled_from((True, True, False)),
    )
    def begin_a_conversation(self, tenant: str, reader: Rung, text: str, limit: int, fits: bool) -> None:
        """``fits``: whether the agent has an encoder of the model that serves, or of the other one."""
        self.read(tenant, reader, text, limit, fits=fits)

    def take(self, tenant: str, step: str, goal: str) -> None:
        """An agent that is in a conversation when another model serves comes back to it by itself."""
        change = self.model(tenant).change
        before, after = change.serving, change.would_serve(step)
        changes = change.answer(step, goal) is Answer.DONE and before != after
        if changes:  # somebody has an encoder of the model that comes
            self.do(self.service.session(tenant, draws.DANA, after))
        sessions = {rung: s for (named, rung), s in self.service.agents.sessions.items() if named == tenant}
        pushes = {rung: session.state.pushes for rung, session in sessions.items()}
        old = self.model(tenant).copy()
        super().take(tenant, step, goal)
        if change.serving == before:
            return
        for rung, session in sessions.items():
            self.read(tenant, rung, "pune tea rent", 50, by=((old, before), (self.model(tenant), after)))
            self.do(self.service.agents.come_back(session, pushes[rung]))
            read = self.read(tenant, rung, "pune tea rent", 50)
            assert session.state.encoder_ready == (self.service.agents.encoders[session] == after)
            assert not session.state.encoder_ready or read.source == "cache"
            self.sources[f"{read.source}, come back"] += 1

    def part(self) -> None:
        """Until an agent has come back from a change of the model, whatever is taken from it waits for its
        lease, which ends by a clock that stands still.
        """
        self.do(self.service.agents.hang_up())

    def read(
        self,
        tenant: str,
        reader: Rung,
        text: str,
        limit: int,
        *,
        fits: bool = True,
        by: Sequence[tuple[Model, str]] = (),
    ) -> Read:
        """In the agent's process: whoever answers, it is what the server would have answered.

        ``by``: models of which any may have answered, each with the memories that know its vectors; empty:
        the one that serves.
        """
        model, now = self.model(tenant), self.clock.wall()
        serving = model.change.serving
        encoder = serving if fits else other_than(serving)
        read = self.do(self.read_in_session(tenant, reader, text, limit, model.version, encoder))
        self.sources[read.source] += 1
        assert read.status in ("hit", "empty"), read.reason
        assert read.version == model.version, (read, model.version)
        corpus = model.current(reader)
        allowed = [each for each in corpus if each.may_be_served(now)]
        words = {each.id: (each.said.rung.values, each.said.text) for each in allowed}
        for item in read.items:
            scope = tuple(
                item.memory.scope[level] for level in ("customer", "user") if level in item.memory.scope
            )
            assert words[item.memory.id] == (scope, item.memory.text)
        hits = [(item.memory.id, item.score.total) for item in read.items]
        answers = [
            scored(memories, memories.current(reader), text, now=now, by=fingerprint)
            for memories, fingerprint in by or ((model, serving),)
        ]
        # As an answer does not name its model, it is that one's whose totals are the nearest.
        best = min(answers, key=lambda best: sum(abs(best[name].total - total) for name, total in hits))
        check_answer(hits, [best[each.id] for each in allowed], limit, (tenant, reader, text, read.source))
        return read

    async def read_in_session(
        self, tenant: str, reader: Rung, text: str, limit: int, version: int, encoder: str
    ) -> Read:
        session = await self.service.session(tenant, reader, encoder)
        return await session.read(text, limit=limit, min_version=version)

    def look(self, tenant: str, reader: Rung, text: str) -> None:
        """An agent that is in a conversation sees the same as one who asks the server."""
        super().look(tenant, reader, text)
        if (tenant, reader) in self.service.agents.sessions:
            self.read(tenant, reader, text, 50)

    @action(1, tenant=draws.tenants, reader=draws.rungs, text=draws.texts)
    def search_accurately(self, tenant: str, reader: Rung, text: str) -> None:
        """A reranker orders what is found; it finds nothing that may not be found."""
        mode = retrieval_pb2.SEARCH_MODE_ACCURATE
        found = self.do(self.service.search(tenant, reader, text, limit=50, mode=mode))
        model = self.model(tenant)
        allowed = [each for each in model.current(reader) if each.may_be_served(self.clock.wall())]
        self.check_words(found, allowed, (tenant, reader, text))
        assert len(found.hits) == len(allowed)

    @action(1, chance=draws.chances, tenant=draws.tenants, rung=draws.rungs)
    def come_with_a_pinned_key(self, chance: Random, tenant: str, rung: Rung) -> None:
        """It reads in line with its rung, and changes nothing but its own."""
        key = self.do(self.service.new_key(tenant, PINNED))
        if rung.is_in_line_with(PINNED):
            found = self.do(self.service.search(tenant, rung, "pune tea", limit=50, key=key))
            self.check_search(tenant, rung, "pune tea", found, limit=50)
        else:
            for asked in (
                self.service.search(tenant, rung, "pune tea", limit=50, key=key),
                self.service.page(tenant, rung, size=5, key=key),
            ):
                with pytest.raises(Refused, match="PERMISSION_DENIED"):
                    self.do(asked)
        if rung != PINNED:
            (memory,) = self.some_batch(chance, tenant, 1)
            if memory.rung != PINNED:
                with pytest.raises(Refused, match="PERMISSION_DENIED"):
                    self.do(self.service.write(tenant, [memory], None, key=key))
            above = [each.id for each in self.model(tenant).statements if each.said.rung == draws.ACME]
            for memory_id in draws.some_of(chance, above):
                with pytest.raises(Refused, match="PERMISSION_DENIED"):
                    self.do(self.service.delete(tenant, [memory_id], PINNED, None, key=key))
        self.touch(tenant)


def test_a_server_is_its_model(new_folder: NewFolder) -> None:
    sources: Counter[str] = Counter()
    run_state_machine_as_test(lambda: WireLife(new_folder, sources), settings=lives(6, 20))
    assert sources["cache"], "agents read from their caches"
    assert sources["cache, come back"], "and do so when another model serves"
