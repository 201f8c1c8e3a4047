"""A real `precall serve`, in a process of its own, for benchmarks, the demo and end-to-end tests."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from precall.client import AsyncClient, ClientOptions, LocalEncoding

START_SECONDS = 120.0
"""The first start on a machine exports the model, which takes some seconds on a busy one."""
STOP_SECONDS = 30.0
_POLL_SECONDS = 0.02


class ServerDied(RuntimeError):
    """The process ended, or did not become ready in time; the message holds the end of its log."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a started server listens, on loopback."""

    port: int
    metrics_port: int

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.port}"


def resident_bytes(process_id: int) -> int:
    """Of a process's memory, as Linux tells it."""
    status = Path(f"/proc/{process_id}/status").read_text().splitlines()
    line = next(line for line in status if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def processor_seconds(process_id: int) -> float:
    """What a process has had of the processors since its start, as Linux tells it."""
    after_name = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    user, system = int(after_name[11]), int(after_name[12])
    return (user + system) / os.sysconf("SC_CLK_TCK")


class ServerProcess:
    """Start with ``async with`` or ``start``; the folder survives, so that it can be started again on it."""

    def __init__(self, folder: Path, *, arguments: Sequence[str] = ()) -> None:
        self.folder = folder
        self._arguments = tuple(arguments)
        self._log = folder / "server.log"
        self._ready = folder / "ready.json"
        self._process: asyncio.subprocess.Process | None = None
        self.address = Address(0, 0)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def data_dir(self) -> Path:
        return self.folder / "data"

    @property
    def resident_bytes(self) -> int:
        """What the process has in memory now. Raises ServerDied when it does not run."""
        return resident_bytes(self._running.pid)

    @property
    def processor_seconds(self) -> float:
        """What the process has had of the processors. Raises ServerDied when it does not run."""
        return processor_seconds(self._running.pid)

    @property
    def _running(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            raise ServerDied(f"the server does not run: {self._tail()}")
        return self._process

    @property
    def admin_key(self) -> str:
        """The key that the server made for itself on its first start."""
        return (self.data_dir / "admin.key").read_text().strip()

    async def make_tenant(self, tenant_id: str) -> str:
        """Create a tenant with the default ladder; returns an API key for it."""
        no_reads = ClientOptions(local_encoding=LocalEncoding.OFF)
        async with AsyncClient(self.address.target, api_key=self.admin_key, options=no_reads) as client:
            await client.admin.create_tenant(tenant_id)
        return await self.make_key(tenant_id)

    async def make_key(self, tenant_id: str) -> str:
        """An API key for a tenant that there is."""
        no_reads = ClientOptions(local_encoding=LocalEncoding.OFF)
        async with AsyncClient(self.address.target, api_key=self.admin_key, options=no_reads) as client:
            return (await client.admin.create_key(tenant_id)).secret

    async def start(self, *, port: int = 0) -> None:
        """Return when the server answers. Raises ServerDied."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._ready.unlink(missing_ok=True)
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "precall.cli.main", "serve"),
                *("--data-dir", str(self.data_dir), "--port", str(port), "--metrics-port", "0"),
                *("--ready-file", str(self._ready), *self._arguments),
                stdout=log,
                stderr=log,
                env=os.environ | {"PYTHONSAFEPATH": "1"},
            )
        try:
            async with asyncio.timeout(START_SECONDS):
                while not self._ready.exists():
                    if self._process.returncode is not None:
                        raise ServerDied(f"the server ended at its start: {self._tail()}")
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            await self.kill()
            raise ServerDied(
                f"the server was not ready after {START_SECONDS:.0f} s: {self._tail()}"
            ) from None
        told = json.loads(self._ready.read_text())
        self.address = Address(told["port"], told["metrics_port"])

    async def stop(self) -> int:
        """SIGTERM, and wait; returns the exit status. A server that does not drain in time is killed."""
        process = self._process
        if process is None:
            return 0
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await process.wait()
            except TimeoutError:
                await self.kill()
        return await process.wait()

    async def kill(self) -> None:
        """SIGKILL: what a power loss does to the process."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-2_000:]
