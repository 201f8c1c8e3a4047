"""Lives of a server on loopback: other tenants' keys, a pinned key, agents that read from their caches."""

from collections import Counter
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
from tests.properties.ranking import check_answer, scored
from tests.properties.service import Refused
from tests.properties.upheavals import Upheavals
from tests.properties.vectors import embed
from tests.properties.wire_path import WirePath

PINNED = draws.DANA


class WireLife(Upheavals, Looks):
    service: WirePath

    def __init__(self, new_folder: NewFolder, sources: Counter[str]) -> None:
        super().__init__(new_folder)
        self.backups = {}
        self.sources = sources

    @initialize(budget=st.sampled_from((1, 10**9)), seed=st.integers(0, 10**6))
    def start(self, budget: int, seed: int) -> None:
        settings = PartitionSettings(exact_below=3)
        self.begin(WirePath(self.clock, Tightness(budget_bytes=budget, partitions=settings)))
        self.settle(seed)

    @action(3, tenant=draws.tenants, reader=draws.rungs, text=draws.texts, limit=draws.limits)
    def begin_a_conversation(self, tenant: str, reader: Rung, text: str, limit: int) -> None:
        self.read(tenant, reader, text, limit)

    def read(self, tenant: str, reader: Rung, text: str, limit: int) -> None:
        """In the agent's process: whoever answers, it is what the server would have answered."""
        model, now = self.model(tenant), self.clock.wall()
        read = self.do(self.read_in_session(tenant, reader, text, limit, model.version))
        self.sources[read.source] += 1
        assert read.status in ("hit", "empty"), read.reason
        assert read.version == model.version
        corpus = model.current(reader)
        best = scored(model, corpus, text, now=now, embed=embed)
        allowed = [each for each in corpus if each.may_be_served(now)]
        words = {each.id: (each.said.rung.values, each.said.text) for each in allowed}
        for item in read.items:
            scope = tuple(
                item.memory.scope[level] for level in ("customer", "user") if level in item.memory.scope
            )
            assert words[item.memory.id] == (scope, item.memory.text)
        hits = [(item.memory.id, item.score.total) for item in read.items]
        check_answer(hits, [best[each.id] for each in allowed], limit, (tenant, reader, text, read.source))

    async def read_in_session(self, tenant: str, reader: Rung, text: str, limit: int, version: int) -> Read:
        session = await self.service.session(tenant, reader)
        return await session.read(text, limit=limit, min_version=version)

    def look(self, tenant: str, reader: Rung, text: str) -> None:
        """An agent that is in a conversation sees the same as one who asks the server."""
        super().look(tenant, reader, text)
        if (tenant, reader) in self.service.sessions:
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
