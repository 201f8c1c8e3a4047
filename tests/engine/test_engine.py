"""Tenants of one engine: made, opened, kept over a restart, kept apart, destroyed."""

import asyncio
import dataclasses
from pathlib import Path

import pytest

from precall.engine.engine import Engine, EngineSettings
from precall.engine.errors import AlreadyExists, FingerprintMismatch, InvalidInput, TenantNotFound
from precall.engine.memory.ladder import Ladder
from precall.engine.tenant import Tenant
from tests.engine.conftest import StartEngine, found, new, write
from tests.fakes.encoder import FAKE_CARD, FakeEncoder
from tests.fakes.memories import ACME, DANA, EVE

LADDER = Ladder(("customer", "user"))


async def test_a_restart_keeps_all(engine: Engine, tenant: Tenant, start_engine: StartEngine) -> None:
    await write(tenant, *(new(f"m{n}", f"pune {n}", importance=0.5) for n in range(40)))
    await write(tenant, new("seat-1", "aisle", key="seat", at=1))
    await write(
        tenant, new("seat-2", "window", key="seat", at=2), new("a", "tea", ACME), new("e", "rent", EVE)
    )
    await tenant.delete(["m7"], visible_from=None, request_id="r")
    before = [await found(engine, tenant, text) for text in ("pune 3", "window", "tea")]
    await engine.close()
    engine = await start_engine()
    assert engine.tenant_ids() == ("t",) and not engine.is_open("t")
    tenant = await engine.tenant("t")
    assert engine.is_open("t") and tenant.version == 4 and tenant.ladder == LADDER
    assert [await found(engine, tenant, text) for text in ("pune 3", "window", "tea")] == before
    assert "m7" not in before[0] and "seat-1" not in before[1]
    assert (await tenant.delete(["m7"], visible_from=None, request_id="r")).replayed
    tenant.check_integrity()


async def test_two_tenants_with_equal_ids_and_scopes_share_nothing(engine: Engine, tenant: Tenant) -> None:
    other = await engine.create_tenant("u", LADDER)
    await write(tenant, new("same", "pune for t"))
    await write(other, new("same", "pune for u"), new("more", "pune"))
    assert set(await found(engine, tenant, "pune")) == {"same"}
    await other.delete(["same"], visible_from=None, request_id=None)
    assert set(await found(engine, tenant, "pune")) == {"same"}
    assert set(await found(engine, other, "pune")) == {"more"}
    assert (tenant.version, other.version) == (1, 2)


async def test_a_tenant_is_made_once_and_opened_once(engine: Engine, tenant: Tenant) -> None:
    with pytest.raises(AlreadyExists):
        await engine.create_tenant("t", LADDER)
    with pytest.raises(InvalidInput):
        await engine.create_tenant("../t", LADDER)
    with pytest.raises(TenantNotFound):
        await engine.tenant("nobody")
    assert len({id(each) for each in await asyncio.gather(*(engine.tenant("t") for _ in range(5)))}) == 1


async def test_another_model_is_refused_by_name(
    engine: Engine, tenant: Tenant, start_engine: StartEngine, tmp_path: Path
) -> None:
    await engine.close()
    card = dataclasses.replace(FAKE_CARD, revision="2")
    other = Engine(EngineSettings(tmp_path / "data"), FakeEncoder(card))
    await other.start()
    with pytest.raises(FingerprintMismatch, match=card.fingerprint):
        await other.tenant("t")
    await other.close()
    assert (await (await start_engine()).tenant("t")).version == 0


async def test_a_deleted_tenant_is_gone_with_its_files_and_may_be_made_anew(
    engine: Engine, tenant: Tenant, tmp_path: Path
) -> None:
    await write(tenant, new("a", "a secret of the tenant"))
    await engine.delete_tenant("t")
    with pytest.raises(TenantNotFound):
        await engine.tenant("t")
    with pytest.raises(TenantNotFound):
        await engine.delete_tenant("t")
    assert not [path for path in (tmp_path / "data").iterdir() if path.name.startswith("t.")]
    again = await engine.create_tenant("t", LADDER)
    assert again.version == 0 and await found(engine, again, "secret") == []


async def test_while_a_tenant_waits_to_be_destroyed_it_is_gone_and_others_open(
    engine: Engine, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that vanished holds its deletion up for a lease: nobody else may wait for that."""
    reached, go_on = asyncio.Event(), asyncio.Event()
    drop = engine.anticipator.drop_tenant

    async def slowly(tenant_id: str) -> None:
        reached.set()
        await go_on.wait()
        await drop(tenant_id)

    monkeypatch.setattr(engine.anticipator, "drop_tenant", slowly)
    deleting = asyncio.create_task(engine.delete_tenant("t"))
    await reached.wait()
    async with asyncio.timeout(10):
        other = await engine.create_tenant("u", LADDER)
        await write(other, new("a", "pune"))
        with pytest.raises(TenantNotFound):
            await engine.tenant("t")
        with pytest.raises(TenantNotFound):
            await engine.delete_tenant("t")
        with pytest.raises(AlreadyExists):
            await engine.create_tenant("t", LADDER)
    go_on.set()
    await deleting
    assert engine.tenant_ids() == ("u",)


async def test_a_closed_engine_closes_twice_and_can_be_followed(
    engine: Engine, start_engine: StartEngine
) -> None:
    await engine.close()
    await engine.close()
    following = await start_engine()
    assert following.tenant_ids() == ()
    tenant = await following.create_tenant("t", LADDER)
    assert await found(following, tenant, "pune", DANA) == []
