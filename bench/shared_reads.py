"""The profile SHARED: conversations about one large rung, of which each session holds a part."""

import asyncio
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.console import Console

from precall.bench.coverage_corpus import Exchange, Utterance
from precall.bench.quality_vectors import VectorCache
from precall.bench.reads_report import Fill, ReadRecord, ReadsSetting, report
from precall.bench.reads_run import ReadsOutcome, ReadsRun
from precall.bench.reads_stage import ReadsStage, reads_progress, reads_stage
from precall.bench.replay import READY_SECONDS, RESULTS, Replayed, ask_server, settle_encoder
from precall.bench.shared_rung import (
    HELD_OUT,
    SCOPE,
    TENANT,
    SharedRung,
    filled_server_folder,
    memory_id,
)
from precall.bench.transcript import play, speak
from precall.client import AsyncClient, AsyncSession, Read

BASELINE_READS: Final = 60
KEPT_FOLDER: Final = Path(tempfile.gettempdir()) / "precall-bench-rungs"
"""Where a server's folder with the rung written is kept between runs."""


async def measure_shared(
    rung: SharedRung,
    run: ReadsRun,
    vectors: VectorCache,
    *,
    console: Console,
    kept: Path = KEPT_FOLDER,
) -> ReadsOutcome:
    """Start a server on a copy of the rung, hold every conversation, and judge every read."""
    folder = Path(tempfile.mkdtemp(prefix="precall-bench-"))
    try:
        with reads_progress(console) as progress:
            await filled_server_folder(rung, vectors, kept, folder)
            async with reads_stage(folder, run, tenant=TENANT, exists=True) as stage:
                await settle_encoder(stage.far)
                spoken = progress.add_task("speak and read", total=rung.reads)
                replayed = await _hold_all(
                    stage.far, rung, run, lambda count: progress.advance(spoken, count)
                )
                pushed = await stage.item_counts("precall_pushed_items_total")
                judged = progress.add_task("ask the server itself", total=rung.reads)
                records = await _judge(stage, replayed, lambda: progress.advance(judged))
                texts = [
                    each.text for exchange in rung.exchanges for each in exchange.utterances if each.group
                ]
                step = max(1, len(texts) // BASELINE_READS)
                asked = await ask_server(stage.far, SCOPE, texts[::step])
                used = await stage.item_counts("precall_used_items_total")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    setting = ReadsSetting(
        profile=run.profile.value,
        typed=run.typed,
        rtt_ms=run.rtt_ms,
        speed=run.pace,
        memories=len(rung.memories),
        max_items=run.items_held,
        held_out=HELD_OUT,
    )
    fills = [conversation.fill for conversation in replayed]
    return ReadsOutcome(
        report(records, fills, setting, pushed_items=pushed, used_items=used, server_ms=asked), records
    )


async def _hold_all(
    client: AsyncClient, rung: SharedRung, run: ReadsRun, advanced: Callable[[int], None]
) -> list[Replayed[Utterance]]:
    places = asyncio.Semaphore(run.sessions_at_once)

    async def hold(number: int, exchange: Exchange) -> Replayed[Utterance]:
        async with places:
            return await _hold(client, f"{number}", exchange, run, advanced)

    return list(await asyncio.gather(*(hold(*each) for each in enumerate(rung.exchanges))))


async def _hold(
    client: AsyncClient, name: str, exchange: Exchange, run: ReadsRun, advanced: Callable[[int], None]
) -> Replayed[Utterance]:
    """One conversation, turn after turn: what was read for one is what the next was built on."""
    async with client.session(SCOPE, uuid.uuid4()) as session:
        opened = time.perf_counter()
        if not await session.ready(READY_SECONDS):
            raise TimeoutError(f"conversation {name}: no push arrived in {READY_SECONDS:.0f} s")
        opening_ms = 1000 * (time.perf_counter() - opened)
        leads: list[float] = []
        reads: list[tuple[Utterance, Read, float]] = []
        for utterance in exchange.utterances:
            pushes = session.state.pushes
            await _say(session, utterance, run, reads[-1][1] if reads else None)
            if utterance.group:
                started = time.perf_counter()
                read = await session.read(utterance.text, limit=RESULTS)
                reads.append((utterance, read, 1000 * (time.perf_counter() - started)))
                advanced(1)
            state = session.state
            if state.pushes > pushes and state.last_lead_seconds is not None:
                leads.append(1000 * state.last_lead_seconds)
        state = session.state
        fill = Fill(name, state.items, state.complete_rungs, state.pushes, opening_ms, leads)
        return Replayed(fill, reads)


async def _say(session: AsyncSession, utterance: Utterance, run: ReadsRun, used: Read | None) -> None:
    """Return when the last word was said, and its turn is on its way."""
    spoken = speak(utterance.text)
    if run.typed or not utterance.group:
        spoken = replace(spoken, partials=())
    turn_id = str(uuid.uuid4())
    async for partial in play(spoken, speed=run.pace):
        session.observe("user", partial.text, partial=True, turn_id=turn_id)
    session.observe("user", utterance.text, turn_id=turn_id, used=used)


async def _judge(
    stage: ReadsStage, replayed: list[Replayed[Utterance]], advanced: Callable[[], None]
) -> list[ReadRecord]:
    """Put the server's own answer beside each read; nothing was written meanwhile."""
    records = []
    async with stage.near.session(SCOPE, uuid.uuid4()) as session:
        for conversation in replayed:
            for utterance, read, elapsed_ms in conversation.reads:
                truth = await session.search(utterance.text, limit=RESULTS)
                gold = [memory_id(row) for row in utterance.gold]
                records.append(
                    ReadRecord.of(
                        read,
                        conversation=conversation.fill.conversation,
                        category=utterance.group,
                        elapsed_ms=elapsed_ms,
                        read_ids=[item.memory.id for item in read.items],
                        server_ids=[item.memory.id for item in truth.items],
                        evidence=gold,
                    )
                )
                advanced()
    return records
