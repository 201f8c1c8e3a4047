"""`precall search` where it asks for more than the best there is now."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fakes.reranker import WordReranker
from harness import DANA, remember, running_stage, scope
from shell import Shell

from precall.proto import common_pb2

SCOPE = ("--scope", "customer=acme", "--scope", "user=dana")


@pytest.fixture
async def judged(tmp_path: Path) -> AsyncIterator[Shell]:
    """Commands against a server that has a reranker."""
    async with running_stage(tmp_path / "data", reranker=WordReranker()) as stage:
        yield Shell(stage)


async def test_accurate_shows_the_rerankers_scores_and_the_parts(judged: Shell):
    caller = await judged.stage.tenant("acme")
    await remember(caller, DANA, "Dana bought boats", "Eli missed trains")
    question = "What boats did Dana buy? Which trains did Eli miss?"
    shown = await judged.run("search", question, *SCOPE, "--accurate", key=caller.token)
    assert shown.status == 0, shown.line
    for words in ("rerank", "rerank_device", "searched in parts: What boats did Dana buy? | Which trains"):
        assert words in shown.output
    fast = await judged.run("search", question, *SCOPE, key=caller.token)
    assert "rerank" not in fast.output and "parts" not in fast.output


async def test_as_of_takes_a_date_or_a_moment(judged: Shell):
    caller = await judged.stage.tenant("acme")
    (pune,) = await remember(caller, DANA, "pune", key="home")
    await remember(caller, DANA, "goa", key="home")
    (then,) = (await caller("MemoryService/GetMemories", scope=scope(DANA), ids=[pune])).memories
    for moment, texts in (
        (then.created_at.ToJsonString().replace("Z", "+00:00"), ["pune"]),
        ("2001-01-01", []),
        ("2001-01-01T10:00:00", []),
        ("9000-01-01T10:00:00+05:30", ["goa"]),
    ):
        shown = await judged.run("search", "home", *SCOPE, "--as-of", moment, "--json", key=caller.token)
        assert shown.status == 0, shown.line
        assert [each["memory"]["text"] for each in json.loads(shown.output)["results"]] == texts


async def test_results_can_be_narrowed(judged: Shell):
    caller = await judged.stage.tenant("acme")
    for text, kind, by, day in (
        ("trip to Pune", "EVENT", "plane", 1),
        ("trip home", "EVENT", "car", 2),
        ("trip plans", "FACT", "car", 3),
    ):
        memory = common_pb2.MemoryInput(
            scope=scope(DANA), text=text, kind=f"MEMORY_KIND_{kind}", metadata={"by": by}
        )
        memory.event_time.FromJsonString(f"2026-03-0{day}T12:00:00Z")
        await caller("MemoryService/WriteMemories", memories=[memory])
    for flags, texts in (
        ((), {"trip to Pune", "trip home", "trip plans"}),
        (("--kind", "event"), {"trip to Pune", "trip home"}),
        (("--kind", "event", "--kind", "fact", "--metadata", "by=car"), {"trip home", "trip plans"}),
        (("--event-from", "2026-03-02T12:00:00"), {"trip home", "trip plans"}),
        (("--event-from", "2026-03-02", "--event-until", "2026-03-03"), {"trip home"}),
        (("--event-until", "2026-03-01T17:30:00+05:30"), set()),
    ):
        shown = await judged.run("search", "trip", *SCOPE, *flags, "--json", key=caller.token)
        assert shown.status == 0, shown.line
        answer = json.loads(shown.output)
        assert {each["memory"]["text"] for each in answer["results"]} == texts, flags
        assert int(answer["visible"]) == len(texts)
    for flags, words in (
        (("--kind", "gossip"), "kind 'gossip' is unknown"),
        (("--event-from", "2026-03-02", "--event-until", "2026-03-02"), "must be after"),
    ):
        assert words in (await judged.run("search", "trip", *SCOPE, *flags, key=caller.token)).line
