"""Who gets in, and how far: every method against every kind of key."""

import grpc
import pytest
from failures import failure_of
from harness import ACME, DANA, ELI, METHODS, Stage, remember, running_stage, scope, search

from precall.engine.errors import PermissionDenied
from precall.engine.memory.ladder import Rung
from precall.proto import admin_pb2, common_pb2
from precall.server.access import NEEDS, Need
from precall.server.auth import Principal
from precall.server.keys import Role

READ, WRITE, ADMIN = admin_pb2.KEY_ROLE_READ, admin_pb2.KEY_ROLE_WRITE, admin_pb2.KEY_ROLE_ADMIN

ALLOWED = {
    "read": {Need.KEY, Need.READ},
    "write": {Need.KEY, Need.READ, Need.WRITE},
    "tenant admin": {Need.KEY, Need.READ, Need.WRITE, Need.MANAGE_KEYS},
    "server admin": {Need.KEY, Need.MANAGE_KEYS, Need.MANAGE_SERVER},
}


def test_every_method_says_what_it_needs():
    assert NEEDS.keys() == METHODS.keys()


async def test_no_method_answers_without_a_good_key(stage: Stage):
    revoked = await stage.tenant("acme")
    keys = await stage.admin("AdminService/ListKeys", tenant_id="acme")
    await stage.admin("AdminService/RevokeKey", id=keys.keys[0].id)
    good_id = keys.keys[0].id
    strangers = [None, "", "pck_", "pck_x_y", f"pck_{good_id}_wrong", "nonsense", revoked.token]
    messages = set()
    for method in METHODS:
        for token in strangers:
            failure = await failure_of(stage.caller(token)(method))
            assert failure.code is grpc.StatusCode.UNAUTHENTICATED, method
            assert failure.reason == "UNAUTHENTICATED"
            messages.add(failure.message)
    assert len(messages) == 1  # what is wrong with a key is nobody's business


async def test_the_role_matrix(stage: Stage):
    await stage.tenant("acme")
    callers = {
        "read": await stage.key("acme", role=READ),
        "write": await stage.key("acme", role=WRITE),
        "tenant admin": await stage.key("acme", role=ADMIN),
        "server admin": stage.admin,
    }
    for kind, caller in callers.items():
        for method, need in NEEDS.items():
            try:
                await caller(method)
                denied = False
            except grpc.aio.AioRpcError as error:
                denied = error.code() is grpc.StatusCode.PERMISSION_DENIED
            # A tenant's admin names no tenant in these empty requests, and is refused for that.
            if kind == "tenant admin" and method in {
                "AdminService/GetTenant",
                "AdminService/CreateKey",
                "AdminService/ListKeys",
            }:
                assert denied, method
            else:
                assert denied == (need not in ALLOWED[kind]), (kind, method)


async def test_a_tenant_admin_manages_its_own_keys_alone(stage: Stage):
    await stage.tenant("acme")
    await stage.tenant("zen")
    admin = await stage.key("acme", role=ADMIN)
    issued = await admin("AdminService/CreateKey", tenant_id="acme", label="for the kiosk")
    assert issued.key.role == WRITE
    listed = await admin("AdminService/ListKeys", tenant_id="acme")
    assert [key.label for key in listed.keys][-1] == "for the kiosk"
    for method in ("AdminService/CreateKey", "AdminService/ListKeys"):
        assert (await failure_of(admin(method, tenant_id="zen"))).reason == "PERMISSION_DENIED"
        assert (await failure_of(admin(method))).reason == "PERMISSION_DENIED"  # the server's own
    zen_key = (await stage.admin("AdminService/ListKeys", tenant_id="zen")).keys[0]
    assert (await failure_of(admin("AdminService/RevokeKey", id=zen_key.id))).reason == "NOT_FOUND"
    await admin("AdminService/RevokeKey", id=issued.key.id)
    revoked = stage.caller(issued.secret)
    assert (await failure_of(revoked("EmbeddingService/GetModel"))).reason == "UNAUTHENTICATED"


async def test_an_admin_key_cannot_be_pinned(stage: Stage):
    await stage.tenant("acme")
    failure = await failure_of(stage.key("acme", role=ADMIN, pinned_scope=scope(DANA)))
    assert failure.code is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_pinned_scope_is_checked_against_the_ladder(stage: Stage):
    await stage.tenant("acme")
    failure = await failure_of(stage.key("acme", pinned_scope=scope({"user": "dana"})))
    assert failure.reason == "INVALID_SCOPE"


async def test_a_pinned_key_stays_in_its_scope(stage: Stage):
    free = await stage.tenant("acme")
    (policy,) = await remember(free, ACME, "Acme flies in economy")
    await remember(free, ELI, "Eli likes trains")
    dana = await stage.key("acme", pinned_scope=scope(DANA))
    (own,) = await remember(dana, DANA, "Dana likes boats")

    assert set(await search(dana, DANA, "likes")) == {"Dana likes boats", "Acme flies in economy"}
    assert await search(dana, ACME, "flies") == ["Acme flies in economy"]  # above, as it sees anyway
    for levels in (ELI, {"customer": "zen"}):
        assert (await failure_of(search(dana, levels, "likes"))).reason == "PERMISSION_DENIED"
        assert (await failure_of(remember(dana, levels, "planted"))).reason == "PERMISSION_DENIED"
    refused = [
        remember(dana, ACME, "planted for everybody"),
        dana("MemoryService/DeleteMemories", scope=scope(DANA), ids=[own, policy]),
        dana("MemoryService/ForgetScope", scope=scope(ACME)),
        dana(
            "MemoryService/ForgetSource",
            scope=scope(DANA),
            source=common_pb2.Source(conversation_id="c"),
        ),
    ]
    for call in refused:
        assert (await failure_of(call)).reason == "PERMISSION_DENIED"
    assert set(await search(free, DANA, "likes")) == {"Dana likes boats", "Acme flies in economy"}
    deleted = await dana("MemoryService/DeleteMemories", scope=scope(DANA), ids=[own])
    assert list(deleted.deleted_ids) == [own]


async def test_a_key_pinned_to_a_customer_covers_its_users(stage: Stage):
    await stage.tenant("acme")
    acme = await stage.key("acme", pinned_scope=scope(ACME))
    await remember(acme, DANA, "Dana likes boats")
    assert await search(acme, DANA, "boats") == ["Dana likes boats"]
    await acme("MemoryService/ForgetScope", scope=scope(DANA))
    assert await search(acme, DANA, "boats") == []


async def test_the_configured_admin_key_works_beside_the_stored_ones(tmp_path):
    token = "configured-" + "k" * 32
    async with running_stage(tmp_path / "first") as stage:
        assert (await failure_of(stage.caller(token)("AdminService/ListTenants"))).reason == "UNAUTHENTICATED"
    async with running_stage(tmp_path / "first", admin_key=token) as stage:
        await stage.caller(token)("AdminService/ListTenants")
        await stage.admin("AdminService/ListTenants")


@pytest.mark.parametrize(
    ("pinned", "rung", "reads", "writes"),
    [
        (None, ("acme",), True, True),
        (("acme", "dana"), ("acme", "dana"), True, True),
        (("acme", "dana"), ("acme",), True, False),
        (("acme", "dana"), ("acme", "eli"), False, False),
        (("acme", "dana"), ("acme", "dana", "phone"), True, True),
        (("acme", "dana"), ("zen", "dana"), False, False),
    ],
)
def test_what_a_pinned_principal_may_touch(pinned, rung, reads, writes):
    principal = Principal("k", Role.WRITE, "acme", None if pinned is None else Rung(pinned))
    for require, allowed in ((principal.require_read, reads), (principal.require_write, writes)):
        if allowed:
            require(Rung(rung))
        else:
            with pytest.raises(PermissionDenied):
                require(Rung(rung))
