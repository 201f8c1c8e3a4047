"""Replaying conversations: dialogue in as memories, questions spoken, read, and judged afterwards."""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

from precall.bench.locomo import LocomoConversation, LocomoQuestion
from precall.bench.reads_report import Fill, ReadRecord
from precall.bench.transcript import play, speak
from precall.client import AsyncClient, AsyncSession, MemoryDraft, MemorySource, Read

INGEST_BATCH: Final = 32
READY_SECONDS: Final = 120.0
RESULTS: Final = 10
Asked = TypeVar("Asked")


@dataclass(frozen=True, slots=True)
class Replayed(Generic[Asked]):
    """A conversation's reads, not yet judged, and how its cache was filled.

    ``reads``: what was asked, the read, and its milliseconds.
    """

    fill: Fill
    reads: Sequence[tuple[Asked, Read, float]]


def scope_of(conversation: LocomoConversation) -> dict[str, str]:
    """Each conversation is one user of one customer."""
    return {"customer": "locomo", "user": conversation.id}


async def ingest(
    client: AsyncClient, conversation: LocomoConversation, *, advanced: Callable[[int], None]
) -> None:
    """Write every turn as a memory that knows its turn id; ``advanced`` is told how many more are durable."""
    past = str(uuid.uuid4())
    drafts = [
        MemoryDraft(
            text=f"{turn.speaker}: {turn.text}",
            kind="episode",
            event_time=turn.said_time,
            source=MemorySource(conversation_id=past, turn_id=turn.dia_id),
        )
        for turn in conversation.turns
    ]
    for start in range(0, len(drafts), INGEST_BATCH):
        batch = drafts[start : start + INGEST_BATCH]
        await client.memories.write(scope_of(conversation), batch, truncate=True)
        advanced(len(batch))


async def settle_encoder(client: AsyncClient) -> None:
    """Have the query encoder fetched and loaded: an agent's process does so once, before its first call."""
    async with client.session({"customer": "locomo", "user": "nobody"}, uuid.uuid4()) as session:
        if not await session.ready(READY_SECONDS):
            raise TimeoutError(f"the query encoder was not loaded in {READY_SECONDS:.0f} s")


async def replay(
    client: AsyncClient,
    conversation: LocomoConversation,
    questions: Sequence[LocomoQuestion],
    *,
    speed: float,
    typed: bool,
    advanced: Callable[[int], None],
) -> Replayed[LocomoQuestion]:
    """Speak (or type) and read each question in one new conversation of the same user.

    One question ends before the next begins, so no read sees a push that a later event caused.
    """
    async with client.session(scope_of(conversation), uuid.uuid4()) as session:
        opened = time.perf_counter()
        if not await session.ready(READY_SECONDS):
            raise TimeoutError(f"conversation {conversation.id}: no push arrived in {READY_SECONDS:.0f} s")
        opening_ms = 1000 * (time.perf_counter() - opened)
        leads: list[float] = []
        reads = []
        for question in questions:
            pushes = session.state.pushes
            read, elapsed_ms = await _ask(session, question, speed=speed, typed=typed)
            reads.append((question, read, elapsed_ms))
            state = session.state
            if state.pushes > pushes and state.last_lead_seconds is not None:
                leads.append(1000 * state.last_lead_seconds)
            if question.answer:
                session.observe("assistant", question.answer, used=read)
            advanced(1)
        state = session.state
        fill = Fill(conversation.id, state.items, state.complete_rungs, state.pushes, opening_ms, leads)
        return Replayed(fill, reads)


async def _ask(
    session: AsyncSession, question: LocomoQuestion, *, speed: float, typed: bool
) -> tuple[Read, float]:
    spoken = speak(question.question)
    if typed:
        spoken = replace(spoken, partials=())
    turn_id = str(uuid.uuid4())
    async for partial in play(spoken, speed=speed):
        session.observe("user", partial.text, partial=True, turn_id=turn_id)
    session.observe("user", spoken.text, turn_id=turn_id)
    started = time.perf_counter()
    read = await session.read(spoken.text, limit=RESULTS)
    return read, 1000 * (time.perf_counter() - started)


async def ask_server(client: AsyncClient, scope: Mapping[str, str], texts: Sequence[str]) -> list[float]:
    """Milliseconds of a read that has no cache: each text asked of the server over the link."""
    elapsed_ms = []
    async with client.session(scope, uuid.uuid4()) as session:
        for text in texts:
            started = time.perf_counter()
            await session.search(text, limit=RESULTS)
            elapsed_ms.append(1000 * (time.perf_counter() - started))
    return elapsed_ms


async def judge(
    client: AsyncClient, conversation: LocomoConversation, replayed: Replayed[LocomoQuestion]
) -> list[ReadRecord]:
    """Put the server's own answer beside each read; no memory was written meanwhile."""
    records = []
    async with client.session(scope_of(conversation), uuid.uuid4()) as session:
        for question, read, elapsed_ms in replayed.reads:
            truth = await session.search(" ".join(question.question.split()), limit=RESULTS)
            records.append(
                ReadRecord.of(
                    read,
                    conversation=conversation.id,
                    category=question.category.name.lower(),
                    elapsed_ms=elapsed_ms,
                    read_ids=[item.memory.source.turn_id for item in read.items],
                    server_ids=[item.memory.source.turn_id for item in truth.items],
                    evidence=question.evidence,
                )
            )
    return records
