"""kill -9 in the middle of ingestion, twenty times in a row: nothing acked is lost, nothing comes twice."""

import asyncio
import random
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import grpc.aio
import numpy as np
from harness import DANA, Caller, scope

from precall.bench.server_process import ServerProcess
from precall.engine.encoding.minilm import CARD
from precall.proto import common_pb2, memory_pb2
from precall.scoring.vectors import FLOAT16, to_bytes

KILLS = 20
BATCH = 5
WRITERS = 4


def text_of(number: int) -> str:
    return f"fact {number}"


def write_request(batch: int) -> memory_pb2.WriteMemoriesRequest:
    """The same batch again asks the same under the same request_id."""
    rows = np.random.default_rng(batch).standard_normal((BATCH, CARD.dimension)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return memory_pb2.WriteMemoriesRequest(
        request_id=str(uuid.UUID(int=batch + 1)),
        memories=[
            common_pb2.MemoryInput(
                scope=scope(DANA),
                text=text_of(batch * BATCH + place),
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


@dataclass
class Ingestion:
    """Batches that are acked, and those that were sent and heard nothing of."""

    acked: set[int] = field(default_factory=set)
    unanswered: list[int] = field(default_factory=list)
    next_batch: int = 0

    async def run(self, caller: Caller, server: ServerProcess, acks_before_kill: int) -> None:
        """Write from several writers at once, and kill the server while they do."""
        due = len(self.acked) + acks_before_kill

        async def write() -> None:
            while True:
                batch = self._take()
                try:
                    await caller("MemoryService/WriteMemories", write_request(batch))
                except grpc.aio.AioRpcError as error:
                    if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
                        raise
                    self.unanswered.append(batch)
                    return
                self.acked.add(batch)
                if len(self.acked) >= due:
                    await server.kill()

        await asyncio.gather(*(write() for _ in range(WRITERS)))

    def _take(self) -> int:
        if self.unanswered:
            return self.unanswered.pop()
        self.next_batch += 1
        return self.next_batch - 1


async def stored_texts(caller: Caller) -> list[str]:
    texts, token = [], ""
    while True:
        page = await caller("MemoryService/ListMemories", scope=scope(DANA), page_size=1000, page_token=token)
        texts += [memory.text for memory in page.memories]
        token = page.next_page_token
        if not token:
            return texts


async def check(caller: Caller, ingestion: Ingestion) -> None:
    texts = await stored_texts(caller)
    assert len(texts) == len(set(texts)), "a retry was stored twice"
    acked = {text_of(batch * BATCH + place) for batch in ingestion.acked for place in range(BATCH)}
    assert acked <= set(texts), "something acked is lost"
    sent = {text_of(n) for n in range(ingestion.next_batch * BATCH)}
    assert set(texts) <= sent
    assert len(texts) % BATCH == 0, "a batch was stored in part"
    if acked:
        reply = await caller("RetrievalService/Search", scope=scope(DANA), query=min(acked), limit=1)
        assert reply.visible == len(texts)
        assert reply.results[0].memory.text == min(acked)


async def test_kill_nine_twenty_times(tmp_path: Path):
    chance = random.Random(20)
    server = ServerProcess(tmp_path, arguments=("--threads", "1"))
    ingestion = Ingestion()
    token: str | None = None
    try:
        for _ in range(KILLS):
            await server.start()
            async with grpc.aio.insecure_channel(server.address.target) as channel:
                if token is None:
                    admin = Caller(channel, server.admin_key)
                    await admin("AdminService/CreateTenant", id="acme")
                    token = (await admin("AdminService/CreateKey", tenant_id="acme")).secret
                caller = Caller(channel, token)
                await check(caller, ingestion)
                await ingestion.run(caller, server, acks_before_kill=chance.randint(1, 12))
        await server.start()
        async with grpc.aio.insecure_channel(server.address.target) as channel:
            await check(Caller(channel, token), ingestion)
        assert len(ingestion.acked) >= KILLS
        assert await server.stop() == 0
    finally:
        await server.kill()
