"""A lone text on an idle device waits for nobody: no timer, no pause, on either side of the queue."""

import asyncio
import threading
import time
from typing import Any

import pytest

from precall.engine.batching.batcher import Batcher
from precall.engine.batching.work import WorkClass
from precall.engine.encoding.encoder import TextRole

from .conftest import FakeEncoder


async def test_the_way_of_a_lone_text_has_no_pause_in_it(
    encoder: FakeEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[object] = []
    wait = threading.Condition.wait

    def noting(self: threading.Condition, timeout: float | None = None) -> bool:
        if timeout is not None:
            pauses.append(timeout)
        return wait(self, timeout)

    batcher = Batcher(encoder)
    await batcher.start()
    loop = asyncio.get_running_loop()
    call_later, call_at = loop.call_later, loop.call_at

    def noting_later(*arguments: Any, **options: Any) -> asyncio.TimerHandle:
        pauses.append(arguments)
        return call_later(*arguments, **options)

    def noting_at(*arguments: Any, **options: Any) -> asyncio.TimerHandle:
        pauses.append(arguments)
        return call_at(*arguments, **options)

    monkeypatch.setattr(threading.Condition, "wait", noting)
    monkeypatch.setattr(time, "sleep", pauses.append)
    monkeypatch.setattr(loop, "call_later", noting_later)
    monkeypatch.setattr(loop, "call_at", noting_at)
    for _ in range(3):
        await batcher.embed_one("alone", TextRole.QUERY, tenant="acme", work_class=WorkClass.CONVERSATION)
    monkeypatch.undo()
    await batcher.close()
    assert pauses == []
