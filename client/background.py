"""Tasks that nobody awaits."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

_log = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")


def start_background(coroutine: Coroutine[Any, Any, ResultT], *, name: str) -> asyncio.Task[ResultT]:
    """A task whose death by an error is logged at once: nobody else would hear of it."""
    task = asyncio.create_task(coroutine, name=name)
    task.add_done_callback(_log_death)
    return task


def _log_death(task: asyncio.Task[Any]) -> None:
    if task.cancelled():
        return
    error = task.exception()
    if error is not None:
        _log.error("the background task %s died", task.get_name(), exc_info=error)
