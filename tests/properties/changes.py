"""What changes a tenant's memories: writing, superseding, destroying, time."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import strategies as st

from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import NewMemory, Source
from tests.properties import draws
from tests.properties.actions import action
from tests.properties.life import Life
from tests.properties.model import Named
from tests.properties.service import Destroyed, Given, Refused, Wrote
from tests.properties.vectors import MODELS

whole_scopes = st.sampled_from((False, False, True))


class Changes(Life):
    """Every change is told to the model as well, and what it answers is what the model says."""

    def settle(self, seed: int) -> None:
        """Both tenants have memories already, stored at several moments."""
        chance = Random(seed)
        for _ in range(3):
            for tenant in draws.TENANTS:
                batch = self.some_batch(chance, tenant, 5)
                self.wrote(tenant, batch, self.do(self.service.write(tenant, batch, None)))
            self.clock.advance(1.0)

    def some_batch(self, chance: Random, tenant: str, size: int) -> list[NewMemory]:
        told = self.told[tenant]
        batch: list[NewMemory] = []
        for _ in range(size):
            told.serial += 1
            known = [*told.model.ids(), *(each.id for each in batch)]
            batch.append(draws.some_memory(chance, told.serial, known, self.clock.wall()))
        return batch

    def some_given(self, chance: Random, tenant: str, batch: Sequence[NewMemory]) -> list[Given | None]:
        """Vectors that a writer may bring: of the models that the tenant has."""
        change = self.model(tenant).change
        models = [change.serving, change.other or change.serving]
        return [draws.some_given(chance, models) for _ in batch]

    def wrote(
        self, tenant: str, batch: Sequence[NewMemory], answer: Wrote, given: Sequence[Given | None] = ()
    ) -> None:
        expected = self.model(tenant).write(batch, self.clock.wall(), given)
        assert answer == Wrote(self.model(tenant).version, expected, replayed=False)
        self.touch(tenant)

    def destroyed(self, tenant: str, named: Named, answer: Destroyed) -> None:
        doomed = self.model(tenant).destroy(named)
        assert answer.count == len(doomed) and not answer.replayed
        assert answer.ids is None or answer.ids == doomed
        assert answer.version == self.model(tenant).version
        self.touch(tenant)

    @action(4, chance=draws.chances, tenant=draws.tenants, size=st.integers(1, 4))
    def write(self, chance: Random, tenant: str, size: int) -> None:
        batch = self.some_batch(chance, tenant, size)
        self.write_batch(tenant, batch, self.some_given(chance, tenant, batch))

    @action(3, chance=draws.chances, tenant=draws.tenants, rung=draws.rungs, key=draws.keys)
    def correct(self, chance: Random, tenant: str, rung: Rung, key: str) -> None:
        """Two statements about the same, of which the second may be older."""
        batch = self.some_batch(chance, tenant, 2)
        given = self.some_given(chance, tenant, batch)
        self.write_batch(tenant, [replace(each, rung=rung, key=key) for each in batch], given)

    def write_batch(self, tenant: str, batch: Sequence[NewMemory], given: Sequence[Given | None]) -> None:
        request_id = self.request_id(tenant)

        async def request() -> Wrote:
            return await self.service.write(tenant, batch, request_id, given)

        answer = self.do(request())
        self.wrote(tenant, batch, answer, given)
        self.remember(tenant, request, answer)

    @action(
        2,
        chance=draws.chances,
        tenant=draws.tenants,
        sizes=st.lists(st.integers(1, 2), min_size=2, max_size=3),
    )
    def write_side_by_side(self, chance: Random, tenant: str, sizes: list[int]) -> None:
        batches = [self.some_batch(chance, tenant, size) for size in sizes]

        async def all_of_them() -> list[Wrote]:
            return await asyncio.gather(*(self.service.write(tenant, batch, None) for batch in batches))

        answers = self.do(all_of_them())
        for answer, batch in sorted(zip(answers, batches, strict=True), key=lambda pair: pair[0].version):
            self.wrote(tenant, batch, answer)

    @action(1, chance=draws.chances, tenant=draws.tenants)
    def write_a_strange_vector(self, chance: Random, tenant: str) -> None:
        """Of a model that the tenant has not."""
        batch = self.some_batch(chance, tenant, 2)
        change = self.model(tenant).change
        for fingerprint in set(MODELS) - {change.serving, change.other}:
            given = [None, Given(fingerprint, "pune")]
            with pytest.raises(Refused, match="MODEL_FINGERPRINT_MISMATCH"):
                self.do(self.service.write(tenant, batch, self.request_id(tenant), given))
        self.touch(tenant)

    @action(1, chance=draws.chances, tenant=draws.tenants, taken=st.booleans())
    def write_what_cannot_be(self, chance: Random, tenant: str, taken: bool) -> None:
        good, bad = self.some_batch(chance, tenant, 2)
        known = draws.some_of(chance, self.model(tenant).ids())
        if taken and known:
            bad = replace(bad, id=known[0], source=Source())
        else:
            bad = replace(bad, source=Source(memory_ids=(draws.memory_id(10**9),)))
        with pytest.raises(Refused, match="ALREADY_EXISTS" if taken and known else "NOT_FOUND"):
            self.do(self.service.write(tenant, [good, bad], self.request_id(tenant)))
        self.touch(tenant)

    @action(3, chance=draws.chances, tenant=draws.tenants, reader=draws.rungs)
    def delete(self, chance: Random, tenant: str, reader: Rung) -> None:
        known = [*self.model(tenant).ids(), draws.memory_id(10**9)]
        ids = draws.some_of(chance, known, most=1 + chance.randrange(3))
        request_id = self.request_id(tenant)

        async def request() -> Destroyed:
            return await self.service.delete(tenant, ids, reader, request_id)

        seen = {each.id for each in self.model(tenant).statements if each.said.rung.is_visible_from(reader)}
        answer = self.do(request())
        assert answer.missing == set(ids) - seen
        self.destroyed(tenant, lambda each: each.id in seen and each.id in ids, answer)
        self.remember(tenant, request, answer)

    @action(2, tenant=draws.tenants, rung=draws.rungs, source=draws.sources, whole=whole_scopes)
    def forget(self, tenant: str, rung: Rung, source: Source, whole: bool) -> None:
        """A rung with all below it, or more often a source as seen from it."""
        if whole:
            self.forget_scope(tenant, rung)
        else:
            self.forget_source(tenant, rung, source)

    def forget_scope(self, tenant: str, rung: Rung) -> None:
        request_id = self.request_id(tenant)

        async def request() -> Destroyed:
            return await self.service.forget_scope(tenant, rung, request_id)

        answer = self.do(request())
        self.destroyed(tenant, lambda each: rung.is_visible_from(each.said.rung), answer)
        self.remember(tenant, request, answer)

    def forget_source(self, tenant: str, rung: Rung, source: Source) -> None:
        request_id = self.request_id(tenant)

        async def request() -> Destroyed:
            return await self.service.forget_source(tenant, source, rung, request_id)

        def named(each: Source) -> bool:
            return all(
                not asked or asked == has
                for asked, has in (
                    (source.conversation_id, each.conversation_id),
                    (source.turn_id, each.turn_id),
                    (source.uri, each.uri),
                )
            )

        answer = self.do(request())
        self.destroyed(
            tenant,
            lambda each: each.said.rung.is_visible_from(rung) and named(each.said.source),
            answer,
        )
        self.remember(tenant, request, answer)

    @action(2, chance=draws.chances, tenant=draws.tenants)
    def ask_again(self, chance: Random, tenant: str) -> None:
        for request, answer in draws.some_of(chance, self.told[tenant].again):
            again = self.do(request())
            assert again.replayed and (again.version, vars(again) | {"replayed": False}) == (
                answer.version,
                vars(answer),
            )
            self.touch(tenant)

    @action(3, seconds=st.sampled_from((0.0, 1.0, 1.0, 4.0, 45.0, 3_000.0)), sweeps=st.booleans())
    def let_time_pass(self, seconds: float, sweeps: bool) -> None:
        self.clock.advance(seconds)
        self.moments.append(self.clock.wall())
        if sweeps:
            self.sweep()

    def sweep(self) -> None:
        """What has expired is destroyed."""
        self.do(self.service.sweep())
        now = self.clock.wall()
        for tenant in draws.TENANTS:
            self.model(tenant).destroy(lambda each: each.has_expired(now))
        self.moments.append(now)
