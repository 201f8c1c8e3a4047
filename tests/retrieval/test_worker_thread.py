"""The thread behind the reranker: order, errors, its end, and that nobody has to wait for it."""

import asyncio
import gc
import subprocess
import sys
import threading

import pytest

from precall.engine.errors import Draining
from precall.engine.retrieval.worker_thread import WorkerThread


async def test_functions_run_in_order_on_one_thread_and_their_errors_are_the_callers() -> None:
    worker = WorkerThread("test")
    threads = await asyncio.gather(*(worker.run(threading.get_ident) for _ in range(3)))
    assert len(set(threads)) == 1 and threads[0] != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await worker.run(lambda: 1 / 0)
    assert await worker.run(lambda: 7) == 7


async def test_what_a_caller_who_has_gone_wanted_does_not_begin() -> None:
    worker = WorkerThread("test")
    go, ran = threading.Event(), []
    first = asyncio.create_task(worker.run(lambda: go.wait(10)))
    second = asyncio.create_task(worker.run(lambda: ran.append(2)))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    go.set()
    assert await first
    assert await worker.run(lambda: list(ran)) == []


async def test_it_ends_after_what_it_has_in_hand_and_takes_nothing_more() -> None:
    worker = WorkerThread("test")
    go = threading.Event()
    last = asyncio.create_task(worker.run(lambda: go.wait(10)))
    await asyncio.sleep(0)
    assert not await worker.finish(0.01)
    with pytest.raises(Draining):
        await worker.run(lambda: 1)
    go.set()
    assert await worker.finish(10) and await last


async def test_a_thread_that_nobody_has_any_more_ends() -> None:
    worker = WorkerThread("forgotten")
    (thread,) = (each for each in threading.enumerate() if each.name == "forgotten")
    del worker
    gc.collect()
    await asyncio.to_thread(thread.join, 10)
    assert not thread.is_alive()


def test_a_function_that_hangs_does_not_keep_the_process_from_ending() -> None:
    program = (
        "import asyncio, threading\n"
        "from precall.engine.retrieval.worker_thread import WorkerThread\n"
        "async def main():\n"
        "    entered = threading.Event()\n"
        "    worker = WorkerThread('hung')\n"
        "    def hang(): entered.set(); threading.Event().wait()\n"
        "    task = asyncio.create_task(worker.run(hang))\n"
        "    assert await asyncio.to_thread(entered.wait, 10)\n"
        "    assert not await worker.finish(0.01)\n"
        "    task.cancel()\n"
        "asyncio.run(main())\n"
    )
    assert subprocess.run([sys.executable, "-P", "-c", program], timeout=60, check=False).returncode == 0
