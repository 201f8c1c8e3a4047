"""A server that comes back with an older state, under clients that know a newer one."""

import asyncio
import shutil
from pathlib import Path

from precall.bench.server_process import ServerProcess
from precall.client import AsyncClient, AsyncSession, MemoryDraft
from tests.e2e.conftest import conversation, scope

KEPT = "Dana is allergic to peanuts."
LOST = "Dana is allergic to walnuts."
QUERY = "which nuts must I avoid"


async def test_sessions_converge_to_what_the_server_has(tmp_path: Path) -> None:
    """Every read meanwhile ends, says what it is, and shows what was lost only while the lease of it runs."""
    server = ServerProcess(
        tmp_path / "server", arguments=("--heartbeat-seconds", "0.5", "--lease-seconds", "3")
    )
    older = tmp_path / "older"
    await server.start()
    try:
        key = await server.make_tenant("acme")
        async with AsyncClient(server.address.target, api_key=key) as client:
            await client.memories.write(scope(), [MemoryDraft(text=KEPT)])
            port = server.address.port
            await server.stop()
            await asyncio.to_thread(shutil.copytree, server.data_dir, older)
            await server.start(port=port)
            async with client.session(scope(), conversation()) as session:
                assert await session.ready(60)
                written = await session.remember(LOST)
                both = await session.read(QUERY)
                assert {item.memory.text for item in both.items} == {KEPT, LOST}

                await server.kill()
                await asyncio.to_thread(shutil.rmtree, server.data_dir)
                await asyncio.to_thread(shutil.copytree, older, server.data_dir)
                statuses = await _read_until_connected(session, server, port)
                assert statuses <= {"hit", "degraded"}

                async with asyncio.timeout(60):
                    while not (session.state.ready and session.state.version < written.version):  # noqa: ASYNC110
                        await asyncio.sleep(0.02)
                read = await session.read(QUERY)
                assert (read.status, read.source) == ("hit", "cache")
                assert [item.memory.text for item in read.items] == [KEPT]
                again = await session.remember("Dana likes plums.")
                assert (await session.read("plums")).version >= again.version
    finally:
        await server.stop()


async def _read_until_connected(session: AsyncSession, server: ServerProcess, port: int) -> set[str]:
    """Read all the while that the server starts; returns the statuses seen."""
    statuses = set()
    starting = asyncio.create_task(server.start(port=port))
    async with asyncio.timeout(120):
        while not (starting.done() and session.state.connected):
            async with asyncio.timeout(20):  # of a deadline of .3 s
                read = await session.read(QUERY)
            statuses.add(str(read.status))
            if read.status == "hit":
                assert not read.reason
            await asyncio.sleep(0.02)
    await starting
    return statuses
