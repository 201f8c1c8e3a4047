"""What is measured: names, labels that stay bounded, and numbers that move when they should."""

import re

import pytest
from harness import DANA, Stage, remember, search
from probing import http
from prometheus_client.parser import text_string_to_metric_families
from watching import watching

from precall.proto import anticipation_pb2
from precall.server.metrics import BUCKETS, ServerMetrics

UNITS = ("_seconds", "_total", "_bytes", "_info")
COUNTS_OF_NOW = {
    "precall_light_encoder_agreement",
    "precall_sessions",
    "precall_streams",
    "precall_open_tenants",
    "precall_resident_partitions",
    "precall_ready",
}


def test_names_say_their_unit():
    for family in ServerMetrics().registry.collect():
        name = family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")
        assert re.fullmatch(r"precall_[a-z]+(_[a-z]+)*", name), name
        assert name.endswith(UNITS) or name in COUNTS_OF_NOW, name
        assert family.documentation.endswith("."), name
        assert (family.type == "histogram") == name.endswith("_seconds"), name


def test_buckets_are_dense_around_the_promise():
    assert sum(0.005 <= bucket <= 0.020 for bucket in BUCKETS) >= 6
    assert 0.015 in BUCKETS


def test_two_servers_in_one_process_do_not_share():
    ServerMetrics().invalidated(5)
    (family,) = [f for f in ServerMetrics().registry.collect() if f.name == "precall_invalidated_items"]
    assert family.samples[0].value == 0


async def scraped(stage: Stage) -> dict[str, float]:
    _, text = await http(stage, "/metrics")
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_calls_stages_and_reports_are_counted(stage: Stage):
    caller = await stage.tenant("acme")
    await remember(caller, DANA, "Dana likes boats")
    await search(caller, DANA, "boats")
    await caller(
        "AnticipationService/ReportReads",
        reads=[
            anticipation_pb2.ReadReport(
                source=anticipation_pb2.READ_SOURCE_CACHE,
                status=anticipation_pb2.READ_STATUS_HIT,
                decision="complete",
                elapsed={"nanos": 3_000_000},
                encode={"nanos": 2_000_000},
                staleness={"nanos": 500_000_000},
                used_predictors=["whole_rung", "made-up"],
                checked_wrong=False,
            ),
            anticipation_pb2.ReadReport(decision="x" * 1000, elapsed={"seconds": -5}),
            anticipation_pb2.ReadReport(decision="x" * 1000, elapsed={"nanos": 1}),
        ],
        pushes=[anticipation_pb2.PushReport(lead={"nanos": 50_000_000}, items=3)],
    )
    values = await scraped(stage)

    def value(name: str, **labels: str) -> float:
        return values[f"{name}{sorted(labels.items())}"]

    assert value("precall_rpc_seconds_count", method="RetrievalService/Search", code="OK") == 1
    assert value("precall_stage_seconds_count", stage="search") == 1
    assert value("precall_queue_seconds_count", work_class="ingest") == 1
    assert value("precall_batch_tokens_total", kind="real") > 0
    read = {"source": "cache", "status": "hit", "decision": "complete"}
    assert value("precall_read_seconds_count", **read) == 1
    assert value("precall_read_seconds_bucket", **read, le="0.003") == 1
    assert value("precall_read_seconds_count", source="other", status="other", decision="other") == 1
    assert value("precall_used_items_total", predictor="whole_rung") == 1
    assert value("precall_used_items_total", predictor="other") == 1
    assert value("precall_checked_reads_total", outcome="right") == 1
    assert value("precall_prefetch_lead_seconds_count") == 1
    assert value("precall_read_staleness_seconds_sum") == pytest.approx(0.5)
    assert value("precall_open_tenants") == 1
    assert value("precall_resident_partitions") == 2
    assert 0 < value("precall_resident_bytes") < value("precall_memory_budget_bytes")
    assert value("precall_partition_load_seconds_count") == 2


async def test_what_became_of_pushed_items_is_counted_by_predictor(stage: Stage):
    """One was used for an answer, one was served by a cache, one was neither."""
    caller = await stage.tenant("acme")
    used, served, _ = await remember(caller, DANA, "Dana likes boats", "Dana likes tea", "Dana likes cats")
    async with watching(caller) as watch:
        session_id = await watch.open_session(DANA)
        await watch.next("push")
        await watch.observe(session_id, 1, "boats, then", used_memory_ids=[used])
        report = anticipation_pb2.ReadReport(session_id=session_id, served_ids=[served, "no id"])
        await caller("AnticipationService/ReportReads", reads=[report])
        await caller("AnticipationService/CloseSession", session_id=session_id)
    values = await scraped(stage)
    left = {
        fate: values[f"precall_left_items_total{[('fate', fate), ('predictor', 'whole_rung')]}"]
        for fate in ("used", "unused")
    }
    assert left == {"used": 2, "unused": 1}


async def test_no_label_names_a_tenant_or_a_user(stage: Stage):
    caller = await stage.tenant("acme")
    await remember(caller, DANA, "Dana likes boats")
    _, text = await http(stage, "/metrics")
    assert "acme" not in text
    assert "dana" not in text.casefold()
