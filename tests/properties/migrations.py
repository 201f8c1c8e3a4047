"""Changing a tenant's model, step by step, in the middle of everything else."""

import asyncio
from collections.abc import Awaitable
from random import Random
from typing import TypeVar

import pytest
from hypothesis import strategies as st

from precall.engine.memory.ladder import Rung
from precall.engine.memory.migration import MigrationState
from tests.properties import draws
from tests.properties.actions import action
from tests.properties.crash import files_of_a_step
from tests.properties.model_change import STEPS, Answer
from tests.properties.service import Found, Refused
from tests.properties.upheavals import Upheavals
from tests.properties.vectors import MODELS, other_than

AnswerT = TypeVar("AnswerT")

_ONWARD = "onward"
steps = st.sampled_from((_ONWARD,) * 8 + STEPS)
models = st.sampled_from(MODELS)
back = st.sampled_from((False, False, True))
waits = st.sampled_from((True, True, False))


class Migrations(Upheavals):
    """Every step answers as the model says, and what it leaves is what the model has."""

    def travel(self, tenant: str, count: int) -> None:
        """Take so many steps from one model towards the other, and some memories on the way."""
        for number in range(count):
            self.take_onward(tenant, back=False)
            if number == 0:
                self.rest(tenant)
            chance = Random(number)
            batch = self.some_batch(chance, tenant, 3)
            self.write_batch(tenant, batch, self.some_given(chance, tenant, batch))
        self.stands_as_it_should(tenant)

    @action(6, tenant=draws.tenants, step=steps, goal=models, back=back, waits=waits)
    def change_the_model(self, tenant: str, step: str, goal: str, back: bool, waits: bool) -> None:
        """Mostly the step that is next; else any, which is mostly refused."""
        if waits:
            self.stands_as_it_should(tenant)
        if step == _ONWARD:
            self.take_onward(tenant, back=back)
        else:
            self.take(tenant, step, goal)

    def take_onward(self, tenant: str, *, back: bool) -> None:
        change = self.model(tenant).change
        self.take(tenant, change.onward(back=back), other_than(change.serving))

    def take(self, tenant: str, step: str, goal: str) -> None:
        change = self.model(tenant).change
        expected = change.answer(step, goal)
        before = self.do(self.service.standing(tenant))
        reason = self.refusal_of(tenant, step, goal)
        if reason:
            assert reason == "MIGRATION_REFUSED" and expected is not Answer.DONE, (step, goal, change)
            assert not change.at_rest or self.do(self.service.standing(tenant)) == before
        else:
            assert expected is not Answer.REFUSED, (step, goal, change)
            self.model(tenant).take(step, goal)
        self.touch(tenant)

    def refusal_of(self, tenant: str, step: str, goal: str) -> str:
        """Why the step was not taken; empty: it was."""
        try:
            self.do(self.service.step(tenant, step, goal))
        except Refused as refusal:
            return refusal.reason
        return ""

    def stands_as_it_should(self, tenant: str) -> None:
        """Once nothing is done in the background, nothing is left to be done."""
        self.rest(tenant)
        change, stored = self.model(tenant).change, len(self.model(tenant).statements)
        standing = self.do(self.service.standing(tenant))
        if change.state is None:
            assert standing is None
            return
        assert standing is not None
        backfilled = change.state is MigrationState.BACKFILLING
        assert standing.state == ("READY" if backfilled else change.state.name), standing
        assert (standing.origin, standing.goal) == (change.origin, change.goal)
        assert standing.serving == change.serving and not standing.error
        assert standing.total == stored
        assert standing.done == (0 if change.state is MigrationState.ROLLED_BACK else stored)

    def part(self) -> None:
        """Nobody holds anything, under a lease, that a change would have to wait for."""

    @action(2, chance=draws.chances, tenant=draws.tenants, reader=draws.rungs, text=draws.texts, back=back)
    def change_the_model_beside_others(
        self, chance: Random, tenant: str, reader: Rung, text: str, back: bool
    ) -> None:
        """A write and searches come at the same time as a step: nobody fails, and nothing is lost."""
        self.part()
        self.rest(tenant)
        change = self.model(tenant).change
        step, before = change.onward(back=back), change.serving
        batch = self.some_batch(chance, tenant, 2)
        reads = bool(chance.randrange(2))

        async def look() -> list[Found]:
            asked = (self.service.search(tenant, reader, text, limit=5) for _ in range(3))
            return await asyncio.gather(*asked)

        if reads:
            answers = self.do(_both(self.service.step(tenant, step, other_than(before)), look()))
        else:
            request = self.service.write(tenant, batch, self.request_id(tenant))
            wrote = self.do(_both(self.service.step(tenant, step, other_than(before)), request))
        if reads:  # while the vectors of both models are still known
            for found in answers:
                serving = {before, change.would_serve(step)}
                self.check_search(tenant, reader, text, found, limit=5, by=serving)
        self.model(tenant).take(step, other_than(before))
        self.touch(tenant)
        if not reads:
            self.wrote(tenant, batch, wrote)

    @action(2, tenant=draws.tenants, back=back, count=st.sampled_from((1, 2, 3, 100)))
    def crash_in_a_step(self, tenant: str, back: bool, count: int) -> None:
        """At the ``count``-th transaction of a step and of the work that it leaves, else after all of it: the
        file says itself whether the step was taken, and the operator takes it again if it was not.
        """
        for each in draws.TENANTS:
            self.stands_as_it_should(each)
        change = self.model(tenant).change
        step, goal = change.onward(back=back), other_than(change.serving)
        before = self.do(self.service.standing(tenant))
        files = self.new_folder() / "data"
        with files_of_a_step(count, self.service.data_dir, files):
            self.do(self.service.step(tenant, step, goal))
            self.do(self.service.rest(tenant))
        self.restart(files)
        after = self.do(self.service.standing(tenant))
        if (after and after.state) == (before and before.state):
            self.do(self.service.step(tenant, step, goal))
        self.model(tenant).take(step, goal)
        self.stands_as_it_should(tenant)
        self.touch(tenant)

    @action(1, chance=draws.chances, alone=models)
    def serve_with_one_model(self, chance: Random, alone: str) -> None:
        """Tenants that need another one are refused; those on their way to another one stay on their way."""
        both, self.models = self.models, (alone,)
        self.restart(self.service.data_dir)
        for tenant in draws.TENANTS:
            change = self.model(tenant).change
            batch = self.some_batch(chance, tenant, 2)
            if change.needed != {alone}:
                with pytest.raises(Refused, match="MODEL_FINGERPRINT_MISMATCH"):
                    self.do(self.service.search(tenant, draws.ACME, "pune", limit=1))
                continue
            self.wrote(tenant, batch, self.do(self.service.write(tenant, batch, None)))
            self.look(tenant, draws.DANA, "pune tea rent")
            if change.state is MigrationState.BACKFILLING:
                change.at_rest = False  # nobody made the new model's vectors of what was just written
                with pytest.raises(Refused, match="MIGRATION_REFUSED"):
                    self.do(self.service.step(tenant, "switch", ""))
        self.models = both
        self.restart(self.service.data_dir)

    @action(3, tenant=draws.tenants, reader=draws.rungs, text=draws.texts, by=models, past=st.booleans())
    def search_by_a_vector(self, tenant: str, reader: Rung, text: str, by: str, past: bool) -> None:
        """Of a model that the tenant has whole; another one's cannot be compared."""
        as_of = self.moments[-1] if past else None
        asked = self.service.search(tenant, reader, text, limit=5, as_of=as_of, by=by)
        if by in self.model(tenant).change.answering:
            found = self.do(asked)
            self.check_search(tenant, reader, text, found, limit=5, as_of=as_of, by={by})
        else:
            with pytest.raises(Refused, match="MODEL_FINGERPRINT_MISMATCH"):
                self.do(asked)


async def _both(step: Awaitable[None], asked: Awaitable[AnswerT]) -> AnswerT:
    """What was asked for beside the step. Raises what either raises."""
    _, answer = await asyncio.gather(step, asked)
    return answer
