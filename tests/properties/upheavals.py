"""What must change nothing: evictions, restarts, crashes, backups, moves to another tenant."""

from pathlib import Path
from random import Random

import numpy as np
from hypothesis import strategies as st

from tests.properties import draws
from tests.properties.actions import action
from tests.properties.changes import Changes
from tests.properties.crash import CrashPoint, files_of_a_crash
from tests.properties.life import Told
from tests.properties.model import Model
from tests.properties.moving import Exported, moved
from tests.properties.service import Destroyed, Given, Wrote
from tests.properties.vectors import embed

points = st.sampled_from(CrashPoint)


class Upheavals(Changes):
    """``backups``: a tenant's latest one, and what had been told until then."""

    backups: dict[str, tuple[Path, Told]]

    @action(3, restarts=st.booleans(), turned=st.booleans())
    def forget_what_is_in_memory(self, restarts: bool, turned: bool) -> None:
        """``turned``: what was the next model is the model from now on, and the other way round."""
        if restarts:
            if turned:
                self.models = self.models[::-1]
            self.restart(self.service.data_dir)
        else:
            self.do(self.service.evict())

    def restart(self, data_dir: Path) -> None:
        self.do(self.service.stop())
        self.do(self.service.start(data_dir, self.models))

    def rest(self, tenant: str) -> None:
        """Nothing is left to do in the background."""
        self.do(self.service.rest(tenant))
        self.model(tenant).change.at_rest = True

    @action(2, chance=draws.chances, tenant=draws.tenants, point=points, deletes=st.booleans())
    def crash(self, chance: Random, tenant: str, point: CrashPoint, deletes: bool) -> None:
        """In the middle of a change; the caller asks again, as one does who has heard nothing."""
        request_id = self.request_id(tenant)
        batch, ids = self.some_batch(chance, tenant, 2), draws.some_of(chance, self.model(tenant).ids())
        given = self.some_given(chance, tenant, batch)
        deletes = deletes and bool(ids)

        async def request() -> Wrote | Destroyed:
            if deletes:
                return await self.service.delete(tenant, ids, draws.DANA, request_id)
            return await self.service.write(tenant, batch, request_id, given)

        for each in draws.TENANTS:  # files that change while they are copied are no crash's
            self.rest(each)
        files = self.new_folder() / "data"
        with files_of_a_crash(point, self.service.data_dir, files):
            lost = self.do(request())
        self.restart(files)
        answer = self.do(request())
        happened = point is not CrashPoint.BEFORE_THE_COMMIT
        assert answer.replayed == happened and vars(answer) | {"replayed": False} == vars(lost)
        if isinstance(lost, Wrote):
            self.wrote(tenant, batch, lost, given)
        else:
            reach = draws.DANA
            self.destroyed(
                tenant, lambda each: each.id in ids and each.said.rung.is_visible_from(reach), lost
            )
        self.remember(tenant, request, lost)

    @action(1, tenant=draws.tenants, checks=st.booleans())
    def back_up(self, tenant: str, checks: bool) -> None:
        """``checks``: look inside as well, once nothing is done in the background; else in its midst."""
        if checks:
            self.rest(tenant)
            self.do(self.service.check(tenant))
        told = self.told[tenant]
        path = self.do(self.service.back_up(tenant, self.new_folder()))
        self.backups[tenant] = (path, Told(told.model.copy(), told.serial, list(told.again)))

    @action(1, tenant=draws.tenants, how=st.sampled_from(("restored", "moved", "moved", "new")))
    def replace_a_tenant(self, tenant: str, how: str) -> None:
        if how == "moved":
            self.move(tenant)
        elif how == "restored" and tenant in self.backups:
            self.restore(tenant)
        elif how == "new":
            self.begin_again(tenant)

    def restore(self, tenant: str) -> None:
        """A backup holds what stood then, and the requests that were answered by then."""
        path, told = self.backups[tenant]
        self.do(self.service.drop(tenant))
        self.do(self.service.restore(path, tenant))
        serial = self.told[tenant].serial
        self.told[tenant] = Told(told.model.copy(), serial, list(told.again))
        self.touch(tenant)

    def move(self, tenant: str) -> None:
        """Export a tenant, and import it into a new one of its name: the same but for when it was stored, and
        for the model, which is what new tenants get.
        """
        batches = moved(self.service.data_dir, tenant, self.new_folder() / "memories.jsonl", self.clock)
        self.do(self.service.drop(tenant))
        self.do(self.service.create(tenant))
        old, told = self.told[tenant].model, Told(self.new_model(), self.told[tenant].serial)
        # What has expired stays behind with all that hangs on it, as if the sweep had come first.
        moment = self.clock.wall()
        old.destroy(lambda each: each.has_expired(moment))
        self.told[tenant] = told
        for lines in batches:
            batch = [line.memory for line in lines]
            given = [self.given_by(line, old) for line in lines]
            answer = self.do(self.service.write(tenant, batch, None, given))
            self.wrote(tenant, batch, answer, given)
        for rung in draws.RUNGS:
            now = self.clock.wall()
            assert told.model.listed(rung, now, include_history=True) == old.listed(
                rung, now, include_history=True
            )
        assert {each.id: each.said for each in told.model.statements} == {
            each.id: each.said for each in old.statements
        }
        self.touch(tenant)

    def given_by(self, line: Exported, old: Model) -> Given | None:
        """The vector of an exported line, where a new tenant can use it. It is the serving model's."""
        statement = next(each for each in old.statements if each.id == line.memory.id)
        words = statement.words_for(line.fingerprint)
        assert line.fingerprint == old.change.serving
        assert np.abs(line.vector - embed(line.fingerprint, words)).max() < 1e-3
        return Given(line.fingerprint, words) if line.fingerprint == self.models[0] else None

    def begin_again(self, tenant: str) -> None:
        """A tenant that is deleted leaves nothing to the next one of its name."""
        self.do(self.service.drop(tenant))
        self.do(self.service.create(tenant))
        self.told[tenant] = Told(self.new_model(), self.told[tenant].serial)
        self.touch(tenant)
