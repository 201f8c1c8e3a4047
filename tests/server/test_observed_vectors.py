"""Observations that bring their vector: nothing is embedded twice, and no vector is taken on trust."""

import numpy as np
import pytest
from failures import failure_of
from harness import DANA, Stage, remember, running_stage
from probing import http
from prometheus_client.parser import text_string_to_metric_families
from watching import watching
from wire_vectors import vector_of, vectors

from precall.proto import common_pb2

TEXT = "what about peanuts"


@pytest.fixture
async def predicting(tmp_path):
    """Nothing is held whole, so that each observation predicts."""
    async with running_stage(tmp_path / "data", complete_below=0) as stage:
        yield stage


async def coverage_of(watch, session_id: str, sequence: int, **fields):
    await watch.observe(session_id, sequence, TEXT, partial=True, **fields)
    while not (push := (await watch.next("push")).push).HasField("coverage"):
        pass
    return push.coverage


async def counted(stage: Stage, who: str) -> int:
    """Observations that ``who`` had embedded."""
    _, text = await http(stage, "/metrics")
    return sum(
        int(sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "precall_observed_turns_total" and sample.labels["embedded_by"] == who
    )


async def test_a_vector_that_comes_along_is_what_is_answered(predicting: Stage):
    caller = await predicting.tenant("acme")
    await remember(caller, DANA, "Dana is allergic to peanuts", "Dana likes boats")
    async with watching(caller) as watch:
        session_id = await watch.open_session(DANA)
        passes = predicting.encoder.forward_passes
        row = vector_of("something else")
        coverage = await coverage_of(watch, session_id, 1, query_vector=vectors(row))
        assert np.frombuffer(coverage.query_vector.data, "<f4") == pytest.approx(row, abs=1e-6)
        assert predicting.encoder.forward_passes == passes
        assert await counted(predicting, "client") == 1


async def test_a_text_without_one_or_with_another_models_is_embedded_here(predicting: Stage):
    caller = await predicting.tenant("acme")
    await remember(caller, DANA, "Dana is allergic to peanuts")
    async with watching(caller) as watch:
        session_id = await watch.open_session(DANA)
        other = vectors(np.ones(7), model_fingerprint="another")
        for sequence, fields in ((1, {}), (2, {"query_vector": other})):
            text = f"{TEXT} {sequence}"
            await watch.observe(session_id, sequence, text, partial=True, **fields)
            while not (push := (await watch.next("push")).push).HasField("coverage"):
                pass
            sent = np.frombuffer(push.coverage.query_vector.data, "<f4")
            assert sent == pytest.approx(vector_of(text), abs=1e-3)
        assert await counted(predicting, "server") == 2


@pytest.mark.parametrize(
    ("row", "changes"),
    [
        (np.full(32, np.nan), {}),
        (np.zeros(32), {}),
        (np.full(32, 2.0), {}),
        (np.ones(7) / np.sqrt(7), {}),
        (np.ones(32) / np.sqrt(32), {"count": 2}),
        (np.ones(32) / np.sqrt(32), {"data": b"short"}),
        (np.ones(32) / np.sqrt(32), {"format": 77}),
        (np.ones(32) / np.sqrt(32), {"format": common_pb2.VECTOR_FORMAT_INT8}),
    ],
)
async def test_a_vector_that_is_none_is_refused_and_nothing_is_taken(predicting: Stage, row, changes):
    caller = await predicting.tenant("acme")
    await remember(caller, DANA, "Dana is allergic to peanuts")
    async with watching(caller) as watch:
        session_id = await watch.open_session(DANA)
        failure = await failure_of(watch.observe(session_id, 1, TEXT, query_vector=vectors(row, **changes)))
        assert failure.reason in ("INVALID_VECTOR", "INVALID_INPUT", "NOT_SUPPORTED")
        assert "query_vector" in failure.message
        assert not (await watch.observe(session_id, 1, TEXT)).replayed
