"""A real `precall serve`: how it starts, drains and ends."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import grpc.aio
import pytest
from harness import DANA, Caller, remember, scope, search, settings_for
from watching import watching

from precall.bench.server_process import ServerProcess
from precall.engine.errors import ModelUnavailable
from precall.server.app import serve

ARGUMENTS = ("--heartbeat-seconds", "0.3", "--lease-seconds", "1", "--drain-seconds", "10")


async def tenant_on(channel: grpc.aio.Channel, server: ServerProcess) -> Caller:
    admin = Caller(channel, server.admin_key)
    await admin("AdminService/CreateTenant", id="acme")
    issued = await admin("AdminService/CreateKey", tenant_id="acme")
    return Caller(channel, issued.secret)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ServerProcess]:
    process = ServerProcess(tmp_path, arguments=ARGUMENTS)
    await process.start()
    yield process
    await process.kill()


async def test_a_drain_lets_calls_finish_and_clients_leave(server: ServerProcess):
    async with grpc.aio.insecure_channel(server.address.target) as channel:
        caller = await tenant_on(channel, server)
        boats, _ = await remember(caller, DANA, "Dana likes boats", "Dana likes trains")
        async with watching(caller) as watch:
            await watch.open_session(DANA)
            await watch.next("push")
            assert await watch.renew() == pytest.approx(1.0)
            delete = asyncio.ensure_future(
                caller("MemoryService/DeleteMemories", ids=[boats], scope=scope(DANA))
            )
            await watch.next("invalidation")  # never confirmed: the delete waits for the lease to run out
            stopping = asyncio.ensure_future(server.stop())
            await watch.next("draining")
            assert list((await delete).deleted_ids) == [boats]
            assert await stopping == 0

    await server.start()
    async with grpc.aio.insecure_channel(server.address.target) as channel:
        assert await search(Caller(channel, caller.token), DANA, "likes") == ["Dana likes trains"]
    assert await server.stop() == 0


async def test_a_second_signal_ends_it_at_once(server: ServerProcess):
    async with grpc.aio.insecure_channel(server.address.target) as channel:
        caller = await tenant_on(channel, server)
        (boats,) = await remember(caller, DANA, "Dana likes boats")
        async with watching(caller) as watch:
            await watch.open_session(DANA)
            await watch.next("push")
            await watch.renew()
            delete = asyncio.ensure_future(
                caller("MemoryService/DeleteMemories", ids=[boats], scope=scope(DANA))
            )
            await watch.next("invalidation")
            pid = json.loads((server.folder / "ready.json").read_text())["pid"]
            stopping = asyncio.ensure_future(server.stop())
            await watch.next("draining")
            os.kill(pid, signal.SIGTERM)
            assert await stopping == 128 + signal.SIGTERM
            assert isinstance((await asyncio.gather(delete, return_exceptions=True))[0], grpc.aio.AioRpcError)


async def test_a_delete_after_a_restart_reckons_with_leases_of_before(server: ServerProcess):
    """The client of a killed server may serve what it holds until its lease has run out, and no longer."""
    async with grpc.aio.insecure_channel(server.address.target) as channel:
        caller = await tenant_on(channel, server)
        (boats,) = await remember(caller, DANA, "Dana likes boats")
        async with watching(caller) as watch:
            await watch.open_session(DANA)
            await watch.next("push")
            await watch.renew()
            loop = asyncio.get_running_loop()
            lease_ends = loop.time() + 1.0 - 0.3  # a margin: granted a little before the reply came
            await server.kill()
    await server.start()
    async with grpc.aio.insecure_channel(server.address.target) as channel:
        await Caller(channel, caller.token)("MemoryService/DeleteMemories", ids=[boats], scope=scope(DANA))
    assert loop.time() >= lease_ends


async def test_the_ready_file_says_where_it_answers(server: ServerProcess):
    told = json.loads((server.folder / "ready.json").read_text())
    assert told["host"] == "127.0.0.1"
    assert told["port"] == server.address.port
    assert told["pid"] > 0


async def test_the_ready_file_is_gone_when_nobody_answers(tmp_path: Path):
    process = ServerProcess(tmp_path, arguments=ARGUMENTS)
    await process.start()
    assert (tmp_path / "ready.json").exists()
    assert await process.stop() == 0
    assert not (tmp_path / "ready.json").exists()


async def test_a_start_that_fails_leaves_no_ready_file_of_an_earlier_process(tmp_path: Path):
    ready = tmp_path / "ready.json"
    ready.write_text("{}")
    settings = settings_for(tmp_path / "data", ready_file=ready)

    def load(_):
        assert not ready.exists()  # before anything that takes its time
        raise ModelUnavailable("no model")

    with pytest.raises(ModelUnavailable):
        await serve(settings, load=load)
    assert not ready.exists()
