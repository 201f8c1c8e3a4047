"""kill -9 at random moments under concurrent writes, deletes and forgets, and damage to the files between two
starts; after each start the promises are checked.

    python -P -m precall.bench.crash_rounds --rounds 200

Nothing acked is lost, nothing whose destruction was acked comes back, no batch is there in part, no request
is done twice, and no start is refused. After every third kill one of the tenant's files gets a torn end or a
flipped bit: the server starts all the same, another tenant is served, and this one is whole or refused.
Prints what was done; ends with 1 and the fault at the first one.
"""

import argparse
import asyncio
import random
import tempfile
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.bench.crash_damage import damage
from precall.bench.crash_ledger import (
    BATCH,
    USERS,
    BrokenPromise,
    Ledger,
    batch_of,
    memory_id,
    names_of,
    promise,
    user_of,
)
from precall.bench.server_process import ServerProcess
from precall.client import ClientOptions, PrecallError
from precall.client.memories import Memories
from precall.client.methods import DELETE_MEMORIES, FORGET_SCOPE, SEARCH, WRITE_MEMORIES, Method
from precall.client.transport import Transport
from precall.engine.encoding.minilm import CARD
from precall.proto import common_pb2, memory_pb2, retrieval_pb2
from precall.scoring.vectors import FLOAT16, to_bytes

WRITERS: Final = 4
DESTROYERS: Final = 2
MOST_ACKS_BEFORE_KILL: Final = 25
DAMAGE_EVERY: Final = 3
TENANT: Final = "acme"
BYSTANDER: Final = "rival"
"""A tenant whose files are never damaged: it is served whole after every start."""

_FORGET_SOURCE: Final = Method(
    "MemoryService/ForgetSource", memory_pb2.ForgetSourceRequest, memory_pb2.ForgetSourceResponse
)
_REFUSALS: Final = ("TENANT_QUARANTINED", "STORAGE_UNAVAILABLE", "CONFIGURATION")
_SCOPE_SHARE, _SOURCE_SHARE = 0.04, 0.2
"""Of destructions: those of a whole rung, and those of a source."""


@dataclass(slots=True)
class CrashRounds:
    """One server folder that is worked on, killed, damaged and started again."""

    folder: Path
    chance: random.Random
    ledger: Ledger = field(default_factory=Ledger)
    rounds: int = 0
    refused: int = 0
    """Starts on a damaged file after which the tenant was refused."""
    unharmed: int = 0
    """Starts on a damaged file after which nothing of it was missing."""
    keys: dict[str, str] = field(default_factory=dict)

    async def run(self, rounds: int) -> None:
        """Raises BrokenPromise, or ServerDied when a start is refused."""
        server = ServerProcess(self.folder, arguments=("--threads", "1"))
        try:
            for _ in range(rounds):
                await server.start()
                if not self.keys:
                    await self._make_tenants(server)
                async with _connected(server, self.keys[TENANT]) as transport:
                    self.ledger.check(await _everything(transport))
                    await self._work_until_killed(transport, server)
                self.rounds += 1
                if self.rounds % DAMAGE_EVERY == 0:
                    await self._start_damaged(server)
            await server.start()
            async with _connected(server, self.keys[TENANT]) as transport:
                self.ledger.check(await _everything(transport))
            await server.stop()
        finally:
            await server.kill()

    async def _make_tenants(self, server: ServerProcess) -> None:
        for tenant in (TENANT, BYSTANDER):
            self.keys[tenant] = await server.make_tenant(tenant)
        async with _connected(server, self.keys[BYSTANDER]) as transport:
            await transport.call(WRITE_MEMORIES, write_request(0), deadline_seconds=30)

    async def _work_until_killed(self, transport: Transport, server: ServerProcess) -> None:
        """Writers and destroyers at once; the kill comes in the middle of what they are doing."""
        acks = asyncio.Semaphore(0)

        async def kill() -> None:
            for _ in range(self.chance.randint(1, MOST_ACKS_BEFORE_KILL)):
                await acks.acquire()
            await server.kill()

        writers = (self._write_on(transport, acks) for _ in range(WRITERS))
        destroyers = (self._destroy_on(transport, acks) for _ in range(DESTROYERS))
        await asyncio.gather(kill(), *writers, *destroyers)

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

    async def _destroy_on(self, transport: Transport, acks: asyncio.Semaphore) -> None:
        while True:
            kind = self.chance.random()
            try:
                if kind < _SCOPE_SHARE:
                    await self._forget_scope(transport)
                elif kind < _SCOPE_SHARE + _SOURCE_SHARE and self.ledger.acked:
                    await self._forget_source(transport)
                elif not await self._delete(transport):
                    continue  # there was nothing to destroy yet, and so no ack that counts
            except PrecallError:  # killed
                return
            acks.release()

    async def _delete(self, transport: Transport) -> bool:
        name = self.ledger.deletable(self.chance)
        ids = [name or memory_id(self.ledger.sent, BATCH)]  # there is nothing yet: ask for what never was
        user = self.chance.choice(USERS) if name is None else user_of(batch_of(name))
        request = memory_pb2.DeleteMemoriesRequest(ids=ids, scope=_scope(user))
        with self.ledger.destroying(ids if name else ()):
            await transport.call(DELETE_MEMORIES, request, deadline_seconds=30, retry=False)
        return name is not None

    async def _forget_source(self, transport: Transport) -> None:
        batch = self.chance.choice(sorted(self.ledger.acked)[-20:])
        request = memory_pb2.ForgetSourceRequest(
            source=common_pb2.Source(conversation_id=f"c{batch}"), scope=_scope(user_of(batch))
        )
        with self.ledger.destroying(names_of(batch)):
            await transport.call(_FORGET_SOURCE, request, deadline_seconds=30, retry=False)

    async def _forget_scope(self, transport: Transport) -> None:
        user = self.chance.choice(USERS[1:])  # the first one's memories are never forgotten as a whole
        request = memory_pb2.ForgetScopeRequest(scope=_scope(user))
        with self.ledger.forgetting(user):
            await transport.call(FORGET_SCOPE, request, deadline_seconds=30, retry=False)

    async def _start_damaged(self, server: ServerProcess) -> None:
        """The files are damaged, the server is started on them, and everything is put back as it was."""
        with damage(server.data_dir / "tenants" / f"{TENANT}.db", self.chance) as victim:
            await server.start()
            try:
                async with _connected(server, self.keys[BYSTANDER]) as transport:
                    whole = set(await _everything(transport)) == names_of(0)
                    promise(whole, f"{victim} is damaged, and another tenant suffers")
                async with _connected(server, self.keys[TENANT]) as transport:
                    await self._check_damaged(transport, victim)
            finally:
                await server.kill()

    async def _check_damaged(self, transport: Transport, victim: str) -> None:
        try:
            stored = await _everything(transport)
            served = [each for user in USERS for each in await _searched(transport, user)]
        except PrecallError as error:
            promise(error.reason in _REFUSALS, f"{victim} is damaged, and the answer is {error.reason}")
            self.refused += 1
            return
        try:
            self.ledger.check(stored)
            self.ledger.check_absence(served)
        except BrokenPromise as fault:
            raise BrokenPromise(f"{victim} is damaged: {fault}") from fault
        self.unharmed += 1


def write_request(batch: int) -> memory_pb2.WriteMemoriesRequest:
    """The same batch again asks the same under the same request id."""
    rows = np.random.default_rng(batch).standard_normal((BATCH, CARD.dimension)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return memory_pb2.WriteMemoriesRequest(
        request_id=str(uuid.UUID(int=batch + 1)),
        memories=[
            common_pb2.MemoryInput(
                id=memory_id(batch, place),
                scope=_scope(user_of(batch)),
                text=f"fact {batch} {place}",
                source=common_pb2.Source(conversation_id=f"c{batch}"),
                vector=_vector(row),
            )
            for place, row in enumerate(rows)
        ],
    )


async def _everything(transport: Transport) -> list[str]:
    """Ids of all that the server lists, of every user."""
    memories = Memories(transport, ClientOptions())
    stored: list[str] = []
    for user in USERS:
        token = ""
        while True:
            page = await memories.list(_levels(user), page_size=1_000, page_token=token, include_history=True)
            stored += [memory.id for memory in page.memories]
            token = page.next_page_token
            if not token:
                break
    return stored


async def _searched(transport: Transport, user: str) -> list[str]:
    """Ids of the best of a user, which has the rung read into memory."""
    request = retrieval_pb2.SearchRequest(
        query="fact", scope=_scope(user), limit=1_000, query_vector=_vector(np.eye(1, CARD.dimension)[0])
    )
    response = await transport.call(SEARCH, request, deadline_seconds=30)
    return [result.memory.id for result in response.results]


def _vector(row: NDArray[np.floating]) -> common_pb2.Vectors:
    return common_pb2.Vectors(
        data=to_bytes(row.astype(np.float32), FLOAT16),
        count=1,
        dimension=CARD.dimension,
        model_fingerprint=CARD.fingerprint,
    )


def _levels(user: str) -> dict[str, str]:
    return {"customer": "acme", "user": user}


def _scope(user: str) -> common_pb2.Scope:
    return common_pb2.Scope(levels=_levels(user))


@asynccontextmanager
async def _connected(server: ServerProcess, key: str) -> AsyncIterator[Transport]:
    transport = Transport(server.address.target, api_key=key, options=ClientOptions())
    transport.open()
    try:
        yield transport
    finally:
        await transport.close()


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
        ledger = run.ledger
        print(f"{run.rounds} kills, every promise kept; acked: {len(ledger.acked)} batches of {BATCH}")
        in_doubt = len(ledger.doubtful) - len(ledger.gone)
        print(f"destroyed: {len(ledger.gone)} memories for certain; {in_doubt} in doubt when it was killed")
        print(f"damaged files: {run.refused} refused, {run.unharmed} did no harm, no start refused")


if __name__ == "__main__":
    main()
