"""What has expired: no reader is shown it, every copy is destroyed, and one timer serves all tenants."""

import asyncio
from typing import Any

import pytest

from precall.engine.engine import Engine
from precall.engine.expiry_sweep import ExpirySweep
from precall.engine.memory.ladder import Ladder
from precall.engine.memory.memory import Source
from precall.engine.tenant import Tenant
from tests.engine.conftest import found, new, write
from tests.fakes.clock import FakeClock
from tests.fakes.memories import ACME, DANA, moment
from tests.fakes.stream_client import StreamClient


def at(clock: FakeClock, seconds: float) -> Any:
    return moment(clock.wall() + seconds)


async def test_searches_lists_and_pushes_agree_on_when_it_may_be_served(
    engine: Engine, tenant: Tenant, clock: FakeClock
) -> None:
    await write(
        tenant,
        new("expires", "pune", expires_at=at(clock, 10)),
        new("ends", "pune", valid_until=at(clock, 10)),
        new("begins", "pune", valid_from=at(clock, 10)),
    )
    assert set(await found(engine, tenant, "pune")) == {"expires", "ends"}
    clock.advance(10)
    assert set(await found(engine, tenant, "pune")) == {"begins"}
    listed = tenant.store.list_rung(DANA, limit=9).memories
    assert [memory.id for memory in listed] == ["ends", "begins"], "what is no longer true is still on record"


async def test_a_sweep_destroys_every_copy_of_what_expired(
    engine: Engine, tenant: Tenant, clock: FakeClock
) -> None:
    await write(tenant, new("old", "pune", key="k"))
    await write(tenant, new("brief", "pune", key="k", at=1, expires_at=at(clock, 10)), new("stays", "pune"))
    await write(tenant, new("summary", "pune", ACME, source=Source(memory_ids=("brief",))))
    stream = engine.anticipator.open_stream("t", "one", tenant.model().card)
    engine.anticipator.open_session(
        tenant_id="t", stream_id="one", session_id="s", conversation_id="", rung=DANA, ladder=tenant.ladder,
        model=tenant.model(), partitions=await tenant.partitions(DANA), version=tenant.version,
    )  # fmt: skip
    client = StreamClient("s")
    client.drain(stream)
    assert set(client.items) == {"brief", "stays", "summary"}
    sweep = ExpirySweep(lambda: [tenant], 1.0)
    await sweep.sweep()
    assert tenant.version == 3, "nothing was due"
    clock.advance(10)
    await sweep.sweep()
    client.drain(stream)
    assert set(client.items) == {"stays"}
    assert (tenant.version, tenant.expiry_is_due) == (4, False)
    assert tenant.store.get(["old", "brief"], visible_from=None, include_expired=True).memories == ()
    tenant.check_integrity()
    engine.anticipator.check_integrity()


async def test_more_than_one_step_takes_them_all_and_writes_go_on(
    engine: Engine, tenant: Tenant, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("precall.engine.tenant._EXPIRED_AT_ONCE", 2)
    await write(tenant, *(new(f"m{n}", "pune", expires_at=at(clock, n)) for n in range(1, 8)))
    clock.advance(5)
    await asyncio.gather(tenant.destroy_expired(), write(tenant, new("meanwhile", "pune")))
    stored = {memory.id for memory in tenant.store.list_rung(DANA, limit=99).memories}
    assert stored == {"m6", "m7", "meanwhile"}
    tenant.check_integrity()


async def test_a_tenant_that_cannot_is_told_of_and_holds_up_nobody(
    engine: Engine, tenant: Tenant, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    other = await engine.create_tenant("other", Ladder())
    for each in (tenant, other):
        await write(each, new(f"m-{each.id}", "pune", expires_at=at(clock, 1)))
    clock.advance(1)
    tenant.store.close()
    await ExpirySweep(lambda: [tenant, other], 1.0).sweep()
    assert not other.expiry_is_due
    assert "tenant t keeps what has expired" in caplog.text


async def test_the_timer_sweeps_again_and_again_until_it_is_closed() -> None:
    looks = asyncio.Semaphore(0)

    def tenants() -> list[Any]:
        looks.release()
        return []

    sweep = ExpirySweep(tenants, 0.001)
    sweep.start()
    for _ in range(3):
        await asyncio.wait_for(looks.acquire(), 10)
    await sweep.close()
    while not looks.locked():
        await looks.acquire()
    await asyncio.sleep(0.01)
    assert looks.locked()
