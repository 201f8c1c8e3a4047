"""What only looks: searches of now and of then, lists, histories, look-ups."""

from random import Random

import pytest
from hypothesis import strategies as st

from precall.engine.index.filter import MemoryFilter
from precall.engine.memory.ladder import Rung
from tests.properties import draws
from tests.properties.actions import action
from tests.properties.life import Life
from tests.properties.service import Refused, Seen


class Looks(Life):
    """Every look is compared with what the model shows."""

    @action(
        3,
        tenant=draws.tenants,
        reader=draws.rungs,
        text=draws.texts,
        asked=draws.asked_filters,
        limit=draws.limits,
    )
    def search(self, tenant: str, reader: Rung, text: str, asked: MemoryFilter | None, limit: int) -> None:
        version = self.model(tenant).version
        found = self.do(
            self.service.search(tenant, reader, text, limit=limit, asked=asked, min_version=version)
        )
        self.check_search(tenant, reader, text, found, limit=limit, asked=asked)

    @action(
        4,
        chance=draws.chances,
        reader=draws.rungs,
        text=draws.texts,
        asked=draws.asked_filters,
        limit=draws.limits,
    )
    def search_the_past(
        self,
        chance: Random,
        reader: Rung,
        text: str,
        asked: MemoryFilter | None,
        limit: int,
    ) -> None:
        """Of both tenants, who may be at the same version at the same moment."""
        moment = chance.choice(self.moments)
        for tenant in draws.TENANTS:
            found = self.do(self.service.search(tenant, reader, text, limit=limit, asked=asked, as_of=moment))
            self.check_search(tenant, reader, text, found, limit=limit, asked=asked, as_of=moment)

    def ask_for_a_version_to_come(self, tenant: str, reader: Rung) -> None:
        version = self.model(tenant).version + 1
        with pytest.raises(Refused, match="VERSION_NOT_REACHED"):
            self.do(self.service.search(tenant, reader, "pune", limit=1, min_version=version))

    @action(
        2,
        chance=draws.chances,
        tenant=draws.tenants,
        rung=draws.rungs,
        asked=draws.asked_filters,
        include_history=st.booleans(),
        past=st.booleans(),
    )
    def list_by_pages(
        self,
        chance: Random,
        tenant: str,
        rung: Rung,
        asked: MemoryFilter | None,
        include_history: bool,
        past: bool,
    ) -> None:
        as_of = chance.choice(self.moments) if past else None
        listed: list[Seen] = []
        token = ""
        while True:
            page = self.do(
                self.service.page(
                    tenant,
                    rung,
                    size=2,
                    token=token,
                    asked=asked,
                    include_history=include_history,
                    as_of=as_of,
                )
            )
            listed += page.memories
            token = page.next_token
            if not token:
                break
            assert len(page.memories) == 2, "only the last page may be short"
        assert [(each.id, each.current) for each in listed] == self.model(tenant).listed(
            rung, self.clock.wall(), asked=asked, include_history=include_history, as_of=as_of
        )

    @action(2, chance=draws.chances, tenant=draws.tenants, reader=draws.rungs, key=draws.keys)
    def look_up(self, chance: Random, tenant: str, reader: Rung, key: str) -> None:
        self.ask_for_history(tenant, reader, key)
        self.get(chance, tenant, reader)
        self.ask_for_a_version_to_come(tenant, reader)

    def ask_for_history(self, tenant: str, rung: Rung, key: str) -> None:
        history = self.do(self.service.history(tenant, rung, key))
        assert [each.id for each in history] == self.model(tenant).history(rung, key, self.clock.wall())

    def get(self, chance: Random, tenant: str, reader: Rung) -> None:
        known = [*self.model(tenant).ids(), draws.memory_id(10**9)]
        ids = draws.some_of(chance, known, most=1 + chance.randrange(4))
        found = self.do(self.service.get(tenant, ids, reader))
        assert [each.id for each in found] == self.model(tenant).found(ids, reader, self.clock.wall())
