"""The client's own registry: what a scrape shows of the reads and of the open sessions."""

import asyncio
import math
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest
from fake_server import FakeServer
from prometheus_client import CollectorRegistry
from pushes import SCOPE, Stored
from settable import SettableClock, TermEncoder, until

from precall.client import AsyncClient, ClientOptions
from precall.client.metrics import BUCKETS, ClientMetrics
from precall.client.tracing import PushApplied, ReadChecked
from precall.server import metrics as server_metrics


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
async def client(
    server: FakeServer, options: ClientOptions, clock: SettableClock, registry: CollectorRegistry
) -> AsyncIterator[AsyncClient]:
    """The scrapes of a second, quiet, client of the process are in the same registry."""
    hooks = [ClientMetrics(registry)]
    async with AsyncClient(
        server.target, api_key="key", options=options, encoder=TermEncoder(), hooks=hooks, clock=clock
    ) as opened:
        yield opened


async def test_reads_and_sessions_are_counted(
    server: FakeServer, client: AsyncClient, registry: CollectorRegistry, clock: SettableClock
) -> None:
    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"precall_client_{name}", labels)

    assert value("sessions") == 0 and value("lease_seconds") is None
    assert math.isnan(value("hit_ratio") or 0)
    server.add(Stored(text="Dana is allergic to peanuts"), Stored(text="Dana flies to Pune"))
    async with client.session(SCOPE) as session:
        assert await session.ready(10)
        assert await asyncio.to_thread(value, "held_items") == 2, "a scrape comes from another thread"
        assert value("held_bytes") == session.state.wire_bytes > 0
        assert 0 < value("lease_seconds") <= server.lease_seconds
        assert (value("sessions"), value("streams")) == (1, 1)

        await session.read("peanuts")
        hit = {"source": "cache", "status": "hit", "decision": "complete"}
        assert value("read_seconds_count", **hit) == 1 and value("hit_ratio") == 1

        server.hold["Search"] = asyncio.Event()
        reading = asyncio.create_task(session.read("peanuts", min_version=99, deadline_ms=60_000))
        await server.called("Search")
        reading.cancel()
        await asyncio.wait([reading])
        assert value("failed_reads_total") == 1 and value("hit_ratio") == 1

        await server.stop()
        await until(lambda: value("streams") == 0)
        await session.read("peanuts")
        degraded = {"source": "cache", "status": "degraded", "decision": "stale"}
        assert value("read_seconds_count", **degraded) == 1 and value("hit_ratio") == 0.5
    assert value("sessions") == 0 and value("held_items") == 0


def test_checks_and_leads_are_counted(registry: CollectorRegistry) -> None:
    metrics = ClientMetrics(registry)
    metrics(ReadChecked("s", wrong=True, strict=True))
    metrics(ReadChecked("s", wrong=False, strict=False))
    metrics(PushApplied("s", 1, 3, lead_seconds=0.012))
    metrics(PushApplied("s", 2, 0, lead_seconds=None))
    counted = {
        (sample.name, *sample.labels.values()): sample.value
        for family in registry.collect()
        for sample in family.samples
    }
    assert counted["precall_client_checked_reads_total", "wrong"] == 1
    assert counted["precall_client_checked_reads_total", "right"] == 1
    assert counted["precall_client_strict",] == 0
    assert counted["precall_client_prefetch_lead_seconds_count",] == 1
    assert counted["precall_client_prefetch_lead_seconds_bucket", "0.0125"] == 1
    assert counted["precall_client_prefetch_lead_seconds_bucket", "0.01"] == 0


def test_the_buckets_are_the_servers() -> None:
    assert BUCKETS == server_metrics.BUCKETS


def test_a_registry_takes_one_set(registry: CollectorRegistry) -> None:
    ClientMetrics(registry)
    with pytest.raises(ValueError, match="Duplicated"):
        ClientMetrics(registry)


def test_without_prometheus_it_says_what_to_install() -> None:
    script = (
        "import sys; sys.modules['prometheus_client'] = None; import precall.client\n"
        "try: import precall.client.metrics\n"
        "except precall.client.ExtraMissing as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert "precall[metrics]" in done.stdout
