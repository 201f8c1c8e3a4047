"""kill -9 at random moments under concurrent writes and deletes; after each restart the promises are checked.

    python -P -m precall.bench.crash_rounds --rounds 200

Nothing acked is lost, nothing whose deletion was acked comes back, no batch is there in part, no request is
done twice, and no start is refused. Prints what was done; ends with 1 and the fault at the first one.
"""

import argparse
import asyncio
import random
import tempfile
import uuid
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from precall.bench.server_process import ServerProcess
from precall.client import ClientOptions, PrecallError
from precall.client.memories import Memories
from precall.client.methods import DELETE_MEMORIES, WRITE_MEMORIES
from precall.client.transport import Transport
from precall.engine.encoding.minilm import CARD
from precall.proto import common_pb2, memory_pb2
from precall.scoring.vectors import FLOAT16, to_bytes

SCOPE: Final = {"customer": "acme", "user": "dana"}
WRITERS: Final = 4
DELETERS: Final = 2
BATCH: Final = 3
MOST_ACKS_BEFORE_KILL: Final = 25


class BrokenPromise(AssertionError):
    """What the server did must not happen."""


@dataclass(slots=True)
class Ledger:
    """What was asked of the server, and what it has acked; a memory is named by the batch and its place."""

    sent: int = 0
    acked: set[int] = field(default_factory=set)
    unanswered: deque[int] = field(default_factory=deque)
    """Batches that nothing was heard of: they are sent again, under the same request id."""

    asked_to_delete: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)

    def next_batch(self) -> int:
        if self.unanswered:
            return self.unanswered.popleft()
        self.sent += 1
        return self.sent - 1

    def deletable(self, chance: random.Random) -> str | None:
        """A memory that is acked and that nobody was asked to delete; None if there is none among a few."""
        for _ in range(8):
            if self.acked:
                name = memory_id(chance.randrange(self.sent), chance.randrange(BATCH))
                if name not in self.asked_to_delete and batch_of(name) in self.acked:
                    return name
        return None

    def check(self, stored: list[str]) -> None:
        """``stored``: ids of everything that the server lists. Raises BrokenPromise."""
        held = set(stored)
        acked = {memory_id(batch, place) for batch in self.acked for place in range(BATCH)}
        sent = {memory_id(batch, place) for batch in range(self.sent) for place in range(BATCH)}
        _promise(len(held) == len(stored), "a memory is there twice")
        _promise(acked - self.asked_to_delete <= held, "something acked is lost")
        _promise(not self.deleted & held, "something deleted came back")
        _promise(held <= sent, "something is there that nobody wrote")
        for batch in {batch_of(name) for name in held}:
            whole = {memory_id(batch, place) for place in range(BATCH)} - self.asked_to_delete
            _promise(whole <= held, "a batch is there in part")


@dataclass(slots=True)
class CrashRounds:
    """One server folder that is worked on, killed and started again."""

    folder: Path
    chance: random.Random
    ledger: Ledger = field(default_factory=Ledger)
    rounds: int = 0

    async def run(self, rounds: int) -> None:
        """Raises BrokenPromise, or ServerDied when a start is refused."""
        server = ServerProcess(self.folder, arguments=("--threads", "1"))
        key = ""
        try:
            for _ in range(rounds):
                await server.start()
                key = key or await server.make_tenant("acme")
                async with _connected(server, key) as transport:
                    await self._check(transport)
                    await self._work_until_killed(transport, server)
                self.rounds += 1
            await server.start()
            async with _connected(server, key) as transport:
                await self._check(transport)
            await server.stop()
        finally:
            await server.kill()

    async def _work_until_killed(self, transport: Transport, server: ServerProcess) -> None:
        """Writers and deleters at once; the kill comes in the middle of what they are doing."""
        acks = asyncio.Semaphore(0)

        async def kill() -> None:
            for _ in range(self.chance.randint(1, MOST_ACKS_BEFORE_KILL)):
                await acks.acquire()
            await server.kill()

        writers = (self._write_on(transport, acks) for _ in range(WRITERS))
        deleters = (self._delete_on(transport, acks) for _ in range(DELETERS))
        await asyncio.gather(kill(), *writers, *deleters)

    async def _write_on(self, transport: Transport, acks: asyncio.Semaphore) -> None:
        while True:
            batch = self.ledger.next_batch()
            try:
                await transport.call(WRITE_MEMORIES, write_request(batch), deadline_seconds=30, retry=False)
            except PrecallError:  # killed
                self.ledger.unanswered.append(batch)
                return
            self.ledger.acked.add(batch)
            acks.release()

    async def _delete_on(self, transport: Transport, acks: asyncio.Semaphore) -> None:
        while True:
            name = self.ledger.deletable(self.chance)
            if name is not None:
                self.ledger.asked_to_delete.add(name)
            ids = [name or memory_id(self.ledger.sent, BATCH)]  # there is nothing yet: ask for what never was
            request = memory_pb2.DeleteMemoriesRequest(ids=ids, scope=common_pb2.Scope(levels=SCOPE))
            try:
                await transport.call(DELETE_MEMORIES, request, deadline_seconds=30, retry=False)
            except PrecallError:  # killed
                return
            if name is not None:
                self.ledger.deleted.add(name)
                acks.release()

    async def _check(self, transport: Transport) -> None:
        memories = Memories(transport, ClientOptions())
        stored: list[str] = []
        token = ""
        while True:
            page = await memories.list(SCOPE, page_size=1_000, page_token=token, include_history=True)
            stored += [memory.id for memory in page.memories]
            token = page.next_page_token
            if not token:
                break
        self.ledger.check(stored)


def write_request(batch: int) -> memory_pb2.WriteMemoriesRequest:
    """The same batch again asks the same under the same request id."""
    rows = np.random.default_rng(batch).standard_normal((BATCH, CARD.dimension)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return memory_pb2.WriteMemoriesRequest(
        request_id=str(uuid.UUID(int=batch + 1)),
        memories=[
            common_pb2.MemoryInput(
                id=memory_id(batch, place),
                scope=common_pb2.Scope(levels=SCOPE),
                text=f"fact {batch} {place}",
                vector=common_pb2.Vectors(
                    data=to_bytes(row, FLOAT16),
                    count=1,
                    dimension=CARD.dimension,
                    model_fingerprint=CARD.fingerprint,
                ),
            )
            for place, row in enumerate(rows)
        ],
    )


def memory_id(batch: int, place: int) -> str:
    return str(uuid.UUID(int=(batch + 1) * 16 + place))


def batch_of(name: str) -> int:
    return uuid.UUID(name).int // 16 - 1


@asynccontextmanager
async def _connected(server: ServerProcess, key: str) -> AsyncIterator[Transport]:
    transport = Transport(server.address.target, api_key=key, options=ClientOptions())
    transport.open()
    try:
        yield transport
    finally:
        await transport.close()


def _promise(kept: bool, fault: str) -> None:
    if not kept:
        raise BrokenPromise(fault)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=20261130)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = CrashRounds(Path(folder), random.Random(arguments.seed))
        try:
            asyncio.run(run.run(arguments.rounds))
        except BrokenPromise as fault:
            raise SystemExit(f"after {run.rounds} rounds: {fault}") from fault
        writes, deletes = len(run.ledger.acked), len(run.ledger.deleted)
        unheard = len(run.ledger.asked_to_delete) - deletes
        print(
            f"{run.rounds} kills, every promise kept; acked: {writes} batches of {BATCH}, {deletes} deletes"
        )
        print(f"({unheard} deletes were in flight when the server was killed)")


if __name__ == "__main__":
    main()
