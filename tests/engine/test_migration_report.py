"""What an operator is told of a migration: texts that were cut, and a line of the log for each step."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from precall.engine.memory.ladder import Ladder
from tests.engine.conftest import new, write
from tests.engine.two_models import NEW, OLD, POISON, TwoModels, finish, idle, start
from tests.fakes.clock import FakeClock

LADDER = Ladder(("customer", "user"))
LONG = "four words and some more"


async def test_texts_that_the_new_model_reads_in_part_are_counted(tmp_path: Path, clock: FakeClock) -> None:
    models = TwoModels(tmp_path, clock, new=replace(NEW, max_tokens=3))
    try:
        engine = await models.start()
        tenant = await engine.create_tenant("t", LADDER)
        await write(tenant, new("a", LONG), new("b", "three words only"), new("c", LONG))

        async def cut() -> int:
            return (await tenant.migrating.report()).texts_cut

        assert await cut() == 0, "there is no migration"
        await start(engine, tenant, models.new)
        assert await cut() == 2
        await write(tenant, new("d", LONG), new("e", "short"), request_id="once")
        await write(tenant, new("d", LONG), new("e", "short"), request_id="once")
        assert await cut() == 3, "a write that stores both vectors counts, and once"
        await tenant.migrating.switch()
        assert await cut() == 3
        await tenant.migrating.roll_back()
        assert await cut() == 0
    finally:
        await models.close()


async def test_each_step_and_each_stop_is_a_line_of_the_log(
    tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="precall.engine.migration.log")
    models = TwoModels(tmp_path, clock)
    try:
        engine = await models.start()
        tenant = await engine.create_tenant("t", LADDER)
        models.new.poisoned = True
        await write(tenant, new("a", "pune tea"), new("b", f"pune {POISON}"))
        await tenant.migrating.start(engine.models.named(NEW.name))
        await idle(tenant)
        models.new.poisoned = False
        await start(engine, tenant, models.new)
        await tenant.migrating.switch()
        await finish(tenant)
    finally:
        await models.close()
    records = [vars(each) for each in caplog.records if each.name == "precall.engine.migration.log"]
    assert {each["tenant"] for each in records} == {"t"}
    told = [each.get("state") or each["error"].split(":")[0] for each in records]
    assert told == ["backfilling", "NUMERICS", "backfilling", "ready", "switched", "finishing", "finished"]
    steps = [each for each in records if "state" in each]
    assert {(each["from"], each["to"]) for each in steps} == {(OLD.fingerprint, NEW.fingerprint)}
    assert [each["levelname"] for each in records if "error" in each] == ["WARNING"]
    assert POISON not in caplog.text, "nobody's words stand in the log"
