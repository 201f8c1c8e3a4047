"""An agent's process is stopped for longer than its lease, as a laptop that sleeps, and must know it."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from precall.bench.relay import LinkRelay
from precall.client import MemoryDraft
from tests.e2e.conftest import Served, conversation, scope

FACT = "Dana is allergic to peanuts."
QUERY = "what food must I avoid"
READER = Path(__file__).with_name("reader_process.py")


@asynccontextmanager
async def reader(server: Served, *, target: str = "") -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", str(READER), target or server.target, server.keys["acme"]),
        *("acme", "dana", conversation()),
        stdin=PIPE,
        stdout=PIPE,
        env=os.environ | {"PYTHONSAFEPATH": "1"},
    )
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        yield process
    finally:
        process.kill()
        await process.wait()


def ask(process: Process) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{QUERY}\n".encode())


async def answer(process: Process) -> dict[str, Any]:
    assert process.stdout is not None
    return json.loads(await process.stdout.readline())


async def test_what_was_deleted_while_a_process_stood_still_is_not_its_first_answer(server: Served) -> None:
    async with server.client() as writer:
        written = (await writer.memories.write(scope(), [MemoryDraft(text=FACT)]))[0]
        async with asyncio.timeout(120), reader(server) as process:
            ask(process)
            assert (await answer(process))["texts"] == [FACT]
            process.send_signal(signal.SIGSTOP)
            ask(process)  # the question waits for the process, as an invalidation does
            await writer.memories.delete(scope(), [written.id])  # returns: nobody can serve it any more
            process.send_signal(signal.SIGCONT)
            assert (await answer(process))["texts"] == []


async def test_nor_when_it_wakes_without_a_way_to_the_server(server: Served, link: LinkRelay) -> None:
    """Nobody tells it of the delete: the end of its lease alone does."""
    async with server.client() as writer:
        written = (await writer.memories.write(scope(), [MemoryDraft(text=FACT)]))[0]
        async with asyncio.timeout(120), reader(server, target=f"127.0.0.1:{link.port}") as process:
            process.send_signal(signal.SIGSTOP)
            ask(process)
            await writer.memories.delete(scope(), [written.id])
            await link.cut()
            process.send_signal(signal.SIGCONT)
            found = await answer(process)
            assert found["texts"] == [] and found["status"] not in ("hit", "empty")


async def test_a_process_that_stood_still_goes_on_with_what_is_true(server: Served) -> None:
    """Its connection may have been given up meanwhile; the next answers are right all the same."""
    async with server.client() as writer:
        await writer.memories.write(scope(), [MemoryDraft(text=FACT)])
        async with asyncio.timeout(120), reader(server) as process:
            process.send_signal(signal.SIGSTOP)
            late = "Dana must avoid shellfish too."
            await writer.memories.write(scope(), [MemoryDraft(text=late)])
            process.send_signal(signal.SIGCONT)
            texts: set[str] = set()
            source = ""
            while source != "cache" or texts != {FACT, late}:
                ask(process)
                found = await answer(process)
                texts, source = set(found["texts"]), found["source"]
                assert FACT in texts or not source, "what stood all the time was left out of an answer"
