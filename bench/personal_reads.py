"""The profile PERSONAL: each conversation is a user, whose dialogue is stored; the questions are read."""

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress

from precall.bench.locomo import LocomoConversation, LocomoQuestion
from precall.bench.reads_report import ReadRecord, ReadsSetting, report
from precall.bench.reads_run import ReadsOutcome, ReadsRun
from precall.bench.reads_stage import ReadsStage, reads_progress, reads_stage
from precall.bench.replay import Replayed, ask_server, ingest, judge, replay, scope_of, settle_encoder
from precall.client import AsyncClient

TENANT: Final = "bench"
BASELINE_QUESTIONS: Final = 20
"""Questions a conversation that are also asked of the server over the link, to say what a cache saves."""


async def measure_personal(
    conversations: Sequence[LocomoConversation], run: ReadsRun, *, console: Console
) -> ReadsOutcome:
    """Start a server on an empty folder, replay everything, and judge it."""
    folder = Path(tempfile.mkdtemp(prefix="precall-bench-"))
    try:
        with reads_progress(console) as progress:
            async with reads_stage(folder, run, tenant=TENANT) as stage:
                return await _measure(stage, conversations, run, progress)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _measure(
    stage: ReadsStage, conversations: Sequence[LocomoConversation], run: ReadsRun, progress: Progress
) -> ReadsOutcome:
    await _ingest_all(stage.near, conversations, progress)
    await settle_encoder(stage.far)
    replayed = await _replay_all(stage.far, conversations, run, progress)
    pushed = await stage.item_counts("precall_pushed_items_total")
    records = await _judge_all(stage.near, conversations, replayed, progress)
    used = await stage.item_counts("precall_used_items_total")
    server_ms: list[float] = []
    for conversation in conversations:
        texts = [" ".join(each.question.split()) for each in conversation.questions[:BASELINE_QUESTIONS]]
        server_ms += await ask_server(stage.far, scope_of(conversation), texts)
    setting = ReadsSetting(
        profile=run.profile.value,
        typed=run.typed,
        rtt_ms=run.rtt_ms,
        speed=run.pace,
        memories=sum(len(conversation.turns) for conversation in conversations),
        max_items=run.items_held,
    )
    fills = [conversation.fill for conversation in replayed]
    return ReadsOutcome(
        report(records, fills, setting, pushed_items=pushed, used_items=used, server_ms=server_ms), records
    )


async def _ingest_all(
    client: AsyncClient, conversations: Sequence[LocomoConversation], progress: Progress
) -> None:
    task = progress.add_task("store the dialogues", total=sum(len(c.turns) for c in conversations))
    for conversation in conversations:
        await ingest(client, conversation, advanced=lambda count: progress.advance(task, count))


async def _replay_all(
    client: AsyncClient, conversations: Sequence[LocomoConversation], run: ReadsRun, progress: Progress
) -> list[Replayed[LocomoQuestion]]:
    """All conversations at once, as an agent process holds several calls."""
    asked = [conversation.questions[: run.max_questions] for conversation in conversations]
    task = progress.add_task("speak and read", total=sum(map(len, asked)))
    return await asyncio.gather(
        *(
            replay(
                client,
                conversation,
                questions,
                speed=run.pace,
                typed=run.typed,
                advanced=lambda count: progress.advance(task, count),
            )
            for conversation, questions in zip(conversations, asked, strict=True)
        )
    )


async def _judge_all(
    client: AsyncClient,
    conversations: Sequence[LocomoConversation],
    replayed: Sequence[Replayed[LocomoQuestion]],
    progress: Progress,
) -> list[ReadRecord]:
    task = progress.add_task("ask the server itself", total=len(conversations))
    records: list[ReadRecord] = []
    for conversation, reads in zip(conversations, replayed, strict=True):
        records += await judge(client, conversation, reads)
        progress.advance(task)
    return records
