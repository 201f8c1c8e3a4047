"""Tasks that nobody awaits: their death is told."""

import asyncio
import logging

import pytest

from precall.client.background import start_background


async def test_a_death_is_logged_with_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    async def dying() -> None:
        raise ValueError("no longer possible")

    task = start_background(dying(), name="precall-some-task")
    await asyncio.wait([task])
    (record,) = caplog.records
    assert record.levelno == logging.ERROR and "precall-some-task" in record.getMessage()
    assert "no longer possible" in caplog.text


async def test_an_end_and_a_cancellation_are_not(caplog: pytest.LogCaptureFixture) -> None:
    ending = start_background(asyncio.sleep(0), name="ending")
    cancelled = start_background(asyncio.sleep(100), name="cancelled")
    await ending
    cancelled.cancel()
    await asyncio.wait([cancelled])
    assert not caplog.records
