"""A server, the link to it, and a client at each end."""

import asyncio
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from precall.bench.reads_run import ReadsRun
from precall.bench.relay import LinkRelay
from precall.bench.server_process import ServerProcess
from precall.client import AsyncClient, ClientOptions, LocalEncoding

_NO_READS: Final = ClientOptions(local_encoding=LocalEncoding.OFF)


@dataclass(frozen=True, slots=True)
class ReadsStage:
    """``near`` talks to the server itself and never reads from a cache; ``far`` over the delayed link."""

    server: ServerProcess
    near: AsyncClient
    far: AsyncClient

    async def item_counts(self, metric: str) -> dict[str, int]:
        """Items by predictor, as a counter of the server's metrics tells."""
        text = await asyncio.to_thread(_metrics, self.server.address.metrics_port)
        return {
            sample.labels["predictor"]: int(sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == metric and sample.value
        }


@asynccontextmanager
async def reads_stage(
    folder: Path, run: ReadsRun, *, tenant: str, exists: bool = False
) -> AsyncIterator[ReadsStage]:
    """Start a server on a folder. ``exists``: the tenant is in the folder already."""
    items = run.items_held
    options = ClientOptions() if items is None else ClientOptions(max_items=items)
    async with ServerProcess(folder, arguments=run.server_arguments) as server:
        key = await (server.make_key(tenant) if exists else server.make_tenant(tenant))
        relay = LinkRelay("127.0.0.1", server.address.port, run.rtt_ms)
        port = await relay.start()
        try:
            async with (
                AsyncClient(server.address.target, api_key=key, options=_NO_READS) as near,
                AsyncClient(f"127.0.0.1:{port}", api_key=key, options=options) as far,
            ):
                yield ReadsStage(server, near, far)
        finally:
            await relay.close()


def reads_progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:<22}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )


def _metrics(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
        return str(response.read().decode())
