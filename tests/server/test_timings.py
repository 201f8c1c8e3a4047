"""Where a reply's time went: the same stages in the reply as in the metrics, for every method that says."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fakes.reranker import WordReranker
from harness import DANA, Stage, remember, running_stage, scope
from probing import http
from prometheus_client.parser import text_string_to_metric_families

from precall.proto import common_pb2, embedding_pb2

MEMORY = common_pb2.MemoryInput(scope=scope(DANA), text="Dana likes boats")
EMBEDDING = ("tokenize", "queue", "device")
CALLS = [
    (
        "EmbeddingService/Embed",
        {"texts": ["boats"], "role": embedding_pb2.TEXT_ROLE_QUERY},
        {*EMBEDDING, "total"},
    ),
    ("EmbeddingService/Rerank", {"query": "tea", "documents": ["tea"]}, {*EMBEDDING, "total"}),
    (
        "RetrievalService/Search",
        {"scope": scope(DANA), "query": "boats"},
        {*EMBEDDING, "search", "total"},
    ),
    ("MemoryService/WriteMemories", {"memories": [MEMORY]}, {"total"}),
]


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with running_stage(tmp_path / "data", reranker=WordReranker()) as running:
        yield running


async def stage_counts(stage: Stage) -> dict[str, float]:
    _, text = await http(stage, "/metrics")
    return {
        sample.labels["stage"]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "precall_stage_seconds_count"
    }


@pytest.mark.parametrize(("method", "fields", "stages"), CALLS, ids=[call[0] for call in CALLS])
async def test_a_reply_and_the_metrics_name_the_same_stages(stage: Stage, method, fields, stages):
    caller = await stage.tenant("acme")
    await remember(caller, DANA, "Dana likes tea")
    before = await stage_counts(stage)
    reply = await caller(method, **fields)
    after = await stage_counts(stage)
    told = [timing.stage for timing in reply.timings]
    assert stages <= set(told) and len(told) == len(set(told))
    assert {name for name in after if after[name] > before.get(name, 0)} == set(told)
    seconds = {t.stage: t.duration.seconds + t.duration.nanos / 1e9 for t in reply.timings}
    assert min(seconds.values()) >= 0 and seconds["total"] == max(seconds.values())
