"""What the client's tests share: a fake server on loopback, an encoder of the same space, a clock to set."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

# The helpers of this folder are imported by their plain names; appended, so that they shadow nothing.
sys.path.append(str(Path(__file__).parent))

from fake_server import FakeServer
from settable import SettableClock, TermEncoder

from precall.client import AsyncClient, ClientOptions, LocalEncoding


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    fake = FakeServer()
    await fake.start()
    yield fake
    await fake.stop()


@pytest.fixture
def options(tmp_path: Path) -> ClientOptions:
    return ClientOptions(
        cache_directory=tmp_path / "cache",
        local_encoding=LocalEncoding.OFF,
        read_deadline_ms=2000,
        reconnect_initial_seconds=0.02,
        reconnect_maximum_seconds=0.05,
        report_interval_seconds=0.02,
    )


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture
async def client(
    server: FakeServer, options: ClientOptions, clock: SettableClock
) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(
        server.target, api_key="key", options=options, encoder=TermEncoder(), clock=clock
    ) as opened:
        yield opened
