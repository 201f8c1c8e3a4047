"""Asking a stage over HTTP."""

import asyncio
import urllib.request
from urllib.error import HTTPError

from harness import Stage


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


async def http(stage: Stage, path: str) -> tuple[int, str]:
    return await asyncio.to_thread(get, f"http://127.0.0.1:{stage.endpoints.metrics_port}{path}")
