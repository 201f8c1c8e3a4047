"""A start reads the tenants' names and none of their files: however many there are, in whatever state."""

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from harness import DANA, remember, running_stage, search

from precall.engine.memory.registry import TENANTS_FOLDER
from precall.proto import admin_pb2


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every database that is opened from here on."""
    paths: list[str] = []
    connect = sqlite3.connect

    def noting(database: Any, *arguments: Any, **options: Any) -> sqlite3.Connection:
        paths.append(str(database))
        return connect(database, *arguments, **options)

    monkeypatch.setattr(sqlite3, "connect", noting)
    return paths


async def test_a_start_opens_no_tenant_however_many_there_are(tmp_path: Path, opened: list[str]) -> None:
    data = tmp_path / "data"
    async with running_stage(data) as stage:
        caller = await stage.tenant("acme")
        await remember(caller, DANA, "kept")
    folder = data / TENANTS_FOLDER
    for number in range(150):
        shutil.copyfile(folder / "acme.db", folder / f"sound-{number:03}.db")
        (folder / f"torn-{number:03}.db").write_bytes(b"SQLite format 3\0" + bytes(number))
    del opened[:]
    async with running_stage(data) as stage:
        page = await stage.admin("AdminService/ListTenants", page_size=1_000)
        assert len(page.tenants) == 301
        assert {tenant.health for tenant in page.tenants} == {admin_pb2.TENANT_HEALTH_COLD}
        assert [path for path in opened if TENANTS_FOLDER in path] == []
        assert await search(stage.caller(caller.token), DANA, "kept") == ["kept"]
        assert {Path(path.partition("?")[0]).name for path in opened if TENANTS_FOLDER in path} == {"acme.db"}
