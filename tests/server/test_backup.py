"""A tenant that is backed up over gRPC while it is used, and served by another server."""

import asyncio
import hashlib
from pathlib import Path

import grpc
import pytest
from failures import failure_of
from google.protobuf.timestamp_pb2 import Timestamp
from harness import DANA, ELI, Stage, remember, running_stage, scope, search

from precall.engine.memory.registry import TENANTS_FOLDER, TenantRegistry

NOW = Timestamp(seconds=1_900_000_000)


async def test_another_server_answers_from_a_backup_as_the_first_does(tmp_path: Path):
    texts = [f"note {n} on the train to Pune" for n in range(40)]
    async with running_stage(tmp_path / "first") as stage:
        caller = await stage.tenant("acme")
        await remember(caller, DANA, *texts)
        await remember(caller, DANA, "lives in Pune", key="home")
        await remember(caller, DANA, "lives in Goa", key="home")
        await remember(caller, ELI, "another user's")
        made = await stage.admin("AdminService/BackUpTenant", tenant_id="acme", destination=str(tmp_path))
        content = await asyncio.to_thread(Path(made.path).read_bytes)
        assert (made.size_bytes, made.sha256) == (len(content), hashlib.sha256(content).hexdigest())
        assert made.version == 4
        request = {"scope": scope(DANA), "query": "train to Pune", "limit": 20, "ranked_at": NOW}
        first = await caller("RetrievalService/Search", **request)
        await remember(caller, DANA, "after the backup")
    with TenantRegistry(tmp_path / "second" / TENANTS_FOLDER) as registry:
        registry.restore(Path(made.path), "globex")
    async with running_stage(tmp_path / "second") as stage:
        caller = await stage.key("globex")
        again = await caller("RetrievalService/Search", **request)
        assert [(r.memory.id, r.memory.text) for r in again.results] == [
            (r.memory.id, r.memory.text) for r in first.results
        ]
        assert [r.score for r in again.results] == [r.score for r in first.results]
        assert (again.version, again.visible) == (first.version, first.visible)
        history = await caller("MemoryService/GetHistory", scope=scope(DANA), key="home")
        assert [memory.text for memory in history.memories] == ["lives in Goa", "lives in Pune"]
        assert await search(caller, ELI, "user") == ["another user's"]
        await remember(caller, DANA, "goes on")


async def test_backups_are_made_while_others_write(stage: Stage, tmp_path: Path):
    caller = await stage.tenant("acme")
    folder = str(tmp_path)
    writing = [asyncio.create_task(remember(caller, DANA, f"note {n}")) for n in range(30)]
    made = [
        await stage.admin("AdminService/BackUpTenant", tenant_id="acme", destination=folder) for _ in range(2)
    ]
    await asyncio.gather(*writing)
    versions = [each.version for each in made]
    assert versions == sorted(versions) and made[0].path != made[1].path


@pytest.mark.parametrize("destination", ["", "backups", "/no/such/folder", "a\x00b"])
async def test_a_destination_that_is_none_is_refused(stage: Stage, destination: str):
    await stage.tenant("acme")
    failure = await failure_of(
        stage.admin("AdminService/BackUpTenant", tenant_id="acme", destination=destination)
    )
    assert failure.reason == "INVALID_INPUT"


async def test_only_the_servers_own_admin_writes_files(stage: Stage, tmp_path: Path):
    await stage.tenant("acme")
    tenants_admin = await stage.key("acme", role="KEY_ROLE_ADMIN")
    failure = await failure_of(
        tenants_admin("AdminService/BackUpTenant", tenant_id="acme", destination=str(tmp_path))
    )
    assert failure.code is grpc.StatusCode.PERMISSION_DENIED
    missing = stage.admin("AdminService/BackUpTenant", tenant_id="nobody", destination=str(tmp_path))
    assert (await failure_of(missing)).reason == "TENANT_NOT_FOUND"
