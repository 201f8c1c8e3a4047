"""A tenant goes from MiniLM to a Qwen3 under an open conversation: real models, process and commands."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from typer.testing import CliRunner

from precall.bench.server_process import ServerProcess
from precall.cli.main import app
from precall.client import AsyncClient, AsyncSession, ClientOptions, MemoryDraft, Read
from tests.e2e.conftest import conversation, scope
from tests.fakes.tiny_qwen3 import TinyQwen3

FACTS = ["Dana is allergic to peanuts.", "The kettle is broken.", "Dana likes sailing boats."]
QUESTION = "what food must I avoid"
TENANT = "acme"


async def command(server: ServerProcess, *arguments: str) -> str:
    """What `precall` prints; it must end well. In a thread: the session's loop goes on."""
    where = ("--target", server.address.target, "--data-dir", str(server.data_dir))
    done = await asyncio.to_thread(CliRunner().invoke, app, (*arguments, *where))
    assert done.exit_code == 0, done.output
    return done.output


class Reading:
    """A session that reads without a pause; ``reads`` holds the answers so far, ``wait`` waits for one."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self._came = asyncio.Condition()
        self._task = asyncio.create_task(self._keep_reading())
        self.reads: list[Read] = []

    async def wait(self, wanted: Callable[[Read], bool]) -> Read:
        """The first read from now on that is as wanted."""
        seen = len(self.reads)
        async with asyncio.timeout(120), self._came:
            while True:
                for read in self.reads[seen:]:
                    if wanted(read):
                        return read
                seen = len(self.reads)
                await self._came.wait()

    async def end(self) -> None:
        """Raises what a read raised."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if not self._task.cancelled():
            self._task.result()

    async def _keep_reading(self) -> None:
        while True:
            read = await self._session.read(QUESTION, deadline_ms=20_000)
            async with self._came:
                self.reads.append(read)
                self._came.notify_all()
            await asyncio.sleep(0.02)  # the other two processes need the cores as well


async def test_a_conversation_goes_on_while_the_model_is_changed(tmp_path: Path) -> None:
    folder = TinyQwen3().save(tmp_path / "tiny-qwen3")
    quick = ("--heartbeat-seconds", "0.5", "--lease-seconds", "3", "--no-light-encoder")
    server = ServerProcess(tmp_path, arguments=("--next-model", str(folder), *quick))
    await server.start()
    try:
        key = await server.make_tenant(TENANT)
        options = ClientOptions(cache_directory=tmp_path / "cache")
        async with AsyncClient(server.address.target, api_key=key, options=options) as client:
            await client.memories.write(scope(), [MemoryDraft(text=text) for text in FACTS[:2]])
            async with client.session(scope(), conversation()) as session:
                assert await session.ready(120)
                old = (await session.search(QUESTION)).model_fingerprint
                reading = Reading(session)
                await reading.wait(lambda read: read.decision == "complete")

                await command(server, "migrate", "start", TENANT)
                await session.remember(FACTS[2])
                ready = await command(server, "migrate", "status", TENANT, "--watch")
                assert "state    ready" in ready and "done     3 of 3" in ready and "alike" in ready
                assert (await session.search(QUESTION)).model_fingerprint == old

                assert "state    switched" in await command(server, "migrate", "switch", TENANT)
                # The Qwen3 has no encoder for clients here: from now on the server embeds the queries.
                await reading.wait(lambda read: read.decision == "unencoded")
                found = await session.search(QUESTION)
                new = found.model_fingerprint
                assert new != old and len(found.items) == 3

                assert "state    rolled back" in await command(server, "migrate", "roll-back", TENANT)
                await reading.wait(lambda read: read.decision == "complete")
                assert (await session.search(QUESTION)).model_fingerprint == old

                for step in ("start", "switch"):
                    await command(server, "migrate", step, TENANT)
                    await command(server, "migrate", "status", TENANT, "--watch")
                await command(server, "migrate", "finish", TENANT, "--yes")
                finished = await command(server, "migrate", "status", TENANT, "--watch")
                assert "state    finished" in finished and f"serving  {new}" in finished
                await reading.wait(lambda read: read.decision == "unencoded")
                await reading.end()
                assert {read.status for read in reading.reads} == {"hit"}
                assert all(len(read.items) >= 2 for read in reading.reads)
        assert await server.stop() == 0

        alone = ServerProcess(tmp_path, arguments=("--model", str(folder), *quick))
        await alone.start()
        try:
            async with (
                AsyncClient(alone.address.target, api_key=key, options=options) as client,
                client.session(scope(), conversation()) as session,
            ):
                assert await session.ready(120)
                read = await session.read(QUESTION, deadline_ms=20_000)
                assert {item.memory.text for item in read.items} == set(FACTS)
                assert (await session.search(QUESTION)).model_fingerprint == new
        finally:
            assert await alone.stop() == 0
    finally:
        await server.kill()
