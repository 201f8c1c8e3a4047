"""Tenants over real gRPC: made, listed, damaged, deleted, and back after a restart."""

import sqlite3

import grpc
import pytest
from failures import failure_of
from fakes.encoder import FAKE_CARD
from harness import DANA, Stage, remember, running_stage, search

from precall.proto import admin_pb2


async def test_tenants_are_made_listed_described_and_deleted(stage: Stage):
    made = await stage.admin("AdminService/CreateTenant", id="acme")
    assert (list(made.ladder), made.version, made.memories) == (["customer", "user"], 0, 0)
    assert made.health == admin_pb2.TENANT_HEALTH_READY
    await stage.admin("AdminService/CreateTenant", id="solo", ladder=["user"])
    await stage.admin("AdminService/CreateTenant", id="control")  # the name of a file beside the tenants'
    caller = await stage.key("solo")
    await remember(caller, {"user": "dana"}, "one", "two")
    described = await stage.admin("AdminService/GetTenant", id="solo")
    assert (described.version, described.memories) == (1, 2)
    assert described.model_fingerprint == FAKE_CARD.fingerprint

    first = await stage.admin("AdminService/ListTenants", page_size=2)
    rest = await stage.admin("AdminService/ListTenants", page_size=2, page_token=first.next_page_token)
    assert [t.id for t in (*first.tenants, *rest.tenants)] == ["acme", "control", "solo"]
    assert rest.next_page_token == ""

    await stage.admin("AdminService/DeleteTenant", id="solo")
    for method in ("AdminService/GetTenant", "AdminService/DeleteTenant"):
        assert (await failure_of(stage.admin(method, id="solo"))).reason == "TENANT_NOT_FOUND"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"id": "Acme"}, "INVALID_INPUT"),
        ({"id": "../etc"}, "INVALID_INPUT"),
        ({"id": ""}, "INVALID_INPUT"),
        ({"id": "new", "ladder": ["user", "user"]}, "INVALID_INPUT"),
        ({"id": "there"}, "ALREADY_EXISTS"),
    ],
)
async def test_a_tenant_is_refused(stage: Stage, fields, reason):
    await stage.tenant("there")
    assert (await failure_of(stage.admin("AdminService/CreateTenant", **fields))).reason == reason


async def test_tenants_and_keys_outlive_a_restart(tmp_path):
    async with running_stage(tmp_path / "data") as stage:
        caller = await stage.tenant("acme")
        await remember(caller, DANA, "kept")
        revoked = await stage.key("acme")
        await stage.admin("AdminService/RevokeKey", id=revoked.token.split("_")[1])
    async with running_stage(tmp_path / "data") as stage:
        listed = await stage.admin("AdminService/ListTenants")
        assert [(t.id, t.health) for t in listed.tenants] == [("acme", admin_pb2.TENANT_HEALTH_COLD)]
        assert await search(stage.caller(caller.token), DANA, "kept") == ["kept"]
        failure = await failure_of(search(stage.caller(revoked.token), DANA, "kept"))
        assert failure.reason == "UNAUTHENTICATED"


async def test_a_damaged_tenant_is_reported_and_the_others_served(tmp_path):
    async with running_stage(tmp_path / "data") as stage:
        good, bad = await stage.tenant("good"), await stage.tenant("bad")
        await remember(good, DANA, "kept")
    (tmp_path / "data" / "tenants" / "bad.db").write_bytes(b"noise" * 1000)
    async with running_stage(tmp_path / "data") as stage:
        assert await search(stage.caller(good.token), DANA, "kept") == ["kept"]
        failure = await failure_of(search(stage.caller(bad.token), DANA, "kept"))
        assert (failure.code, failure.reason) == (grpc.StatusCode.DATA_LOSS, "TENANT_QUARANTINED")
        described = await stage.admin("AdminService/GetTenant", id="bad")
        assert described.health == admin_pb2.TENANT_HEALTH_QUARANTINED
        await stage.admin("AdminService/DeleteTenant", id="bad")
        await stage.admin("AdminService/CreateTenant", id="bad")


async def test_one_damaged_tenant_does_not_hide_the_others(tmp_path):
    """Also when it is open already, and the damage comes to light while it is read."""
    async with running_stage(tmp_path / "data") as stage:
        for name in ("bad", "good"):
            await remember(await stage.tenant(name), DANA, *(f"note {number}" for number in range(200)))
    path = tmp_path / "data" / "tenants" / "bad.db"
    async with running_stage(tmp_path / "data") as stage:
        for name in ("bad", "good"):
            await stage.key(name)  # opens it
        content = path.read_bytes()
        path.write_bytes(content[:4096] + b"\xa5" * (len(content) - 4096))
        listed = await stage.admin("AdminService/ListTenants")
        assert [(tenant.id, tenant.health) for tenant in listed.tenants] == [
            ("bad", admin_pb2.TENANT_HEALTH_QUARANTINED),
            ("good", admin_pb2.TENANT_HEALTH_READY),
        ]


async def test_a_zeroed_vector_is_the_servers_damage_and_no_bad_request(tmp_path):
    async with running_stage(tmp_path / "data") as stage:
        caller = await stage.tenant("acme")
        await remember(caller, DANA, "kept")
    connection = sqlite3.connect(tmp_path / "data" / "tenants" / "acme.db")
    connection.execute("UPDATE memories SET vector = zeroblob(length(vector))")
    connection.commit()
    connection.close()
    async with running_stage(tmp_path / "data") as stage:
        failure = await failure_of(search(stage.caller(caller.token), DANA, "kept"))
        assert (failure.code, failure.reason) == (grpc.StatusCode.DATA_LOSS, "TENANT_QUARANTINED")
        assert "acme" in failure.message
