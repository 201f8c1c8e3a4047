"""The GPU script on the processor: its checks pass, and fail when the engine is made to do wrong."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from precall.bench.gpu_ceilings import Ceilings
from precall.bench.gpu_contract import CHECKS, CheckResult, Outcome, run_check
from precall.bench.gpu_contract_models import TOLERANCES, ContractModels
from precall.bench.gpu_model import TINY, Qwen3Shape, text_of
from precall.bench.gpu_report import GpuReport, append_rows
from precall.bench.gpu_vector_checks import (
    check_a_dimension_is_cut_then_normalised,
    check_batch_is_single_is_repeat,
    check_not_a_number_fails_alone,
    check_scores_are_those_of_transformers,
    check_vectors_are_those_of_transformers,
)
from precall.bench.results import COLUMNS, Measurement
from precall.engine.encoding import qwen3, qwen3_model, qwen3_reranker, torch_attention
from precall.engine.encoding.encoder import EncodedBatch, TextRole


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Beside other work, the threads of a pass this small wait for each other longer than they compute."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> ContractModels:
    return ContractModels(tmp_path_factory.mktemp("gpu"), "cpu", longest=100)


@pytest.fixture
def fresh(models: ContractModels, tmp_path: Path) -> ContractModels:
    """Models that a test may break; the yardstick is the unbroken one's."""
    models.exact_vectors()
    broken = ContractModels(tmp_path, "cpu", longest=100)
    broken.embedding, broken.reranking = models.embedding, models.reranking
    broken._exact = models.exact_vectors()
    return broken


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_engine_keeps_its_contract(models, check, dtype):
    result = run_check(check, models, dtype)
    if result.outcome is Outcome.SKIPPED:
        pytest.skip(result.detail)
    assert result.outcome is Outcome.PASSED, result.detail


def one_long_text(queries, keys, values, batch):
    """The fault of a pass that was recorded with the lengths of another batch."""
    return torch_attention.text_by_text_attention(
        queries,
        keys,
        values,
        torch_attention.PackedTensors(
            batch.token_ids, batch.positions, batch.offsets, batch.ends, (len(queries),), len(queries)
        ),
    )


def test_texts_that_see_their_neighbours_are_noticed(fresh, monkeypatch):
    monkeypatch.setattr(qwen3, "choose_attention", lambda placement: one_long_text)
    assert run_check(check_batch_is_single_is_repeat, fresh, "float32").outcome is Outcome.FAILED
    assert run_check(check_vectors_are_those_of_transformers, fresh, "float32").outcome is Outcome.FAILED


def test_pairs_that_see_their_neighbours_are_noticed(fresh, monkeypatch):
    monkeypatch.setattr(qwen3_reranker, "choose_attention", lambda placement: one_long_text)
    assert run_check(check_scores_are_those_of_transformers, fresh, "float32").outcome is Outcome.FAILED


def test_a_wrong_rotation_is_noticed(fresh, monkeypatch):
    monkeypatch.setattr(qwen3_model._Rotation, "turn", lambda rotation, states: states)
    assert run_check(check_vectors_are_those_of_transformers, fresh, "float32").outcome is Outcome.FAILED


def test_vectors_that_were_normalised_before_the_cut_are_noticed(fresh, monkeypatch):
    import torch

    monkeypatch.setattr(
        qwen3.Qwen3Encoder,
        "_unit_vectors",
        lambda encoder, batch: torch.nn.functional.normalize(
            encoder._model.last_hidden(batch).float(), dim=-1
        )[:, : encoder.card.dimension],
    )
    result = run_check(check_a_dimension_is_cut_then_normalised, fresh, "float32")
    assert result.outcome is Outcome.FAILED


def test_a_row_that_takes_the_others_with_it_is_noticed(fresh, monkeypatch):
    """Or that is handed out as if it were a vector."""
    monkeypatch.setattr(qwen3, "unit_rows", lambda rows: EncodedBatch(rows))
    assert run_check(check_not_a_number_fails_alone, fresh, "float32").outcome is Outcome.FAILED


@pytest.mark.parametrize("tokens", [2, 16, 17, 100])
def test_a_text_has_the_tokens_that_were_asked_for(models, tokens):
    text = text_of(tokens, np.random.default_rng(tokens))
    tokenized = models.encoder("float32").tokenize(text, TextRole.DOCUMENT, truncate=False)
    assert tokenized.usage.given == tokens


def test_operations_are_those_counted_by_hand():
    shape = Qwen3Shape(layers=1, hidden=8, intermediate=12, query_heads=2, key_heads=1, head=4)
    # One text of one token, a multiply-add as two: 8 x 16 joined, 8 x 8 out, 3 x 8 x 12 beyond; one pair.
    assert shape.pass_operations([1]) == 2 * (8 * 16 + 8 * 8 + 3 * 8 * 12) + 4 * 8
    # Three tokens: the joined product thrice, the rest once, six pairs.
    assert shape.pass_operations([3]) == 2 * (3 * 8 * 16 + 8 * 8 + 3 * 8 * 12) + 4 * 8 * 6
    full = Qwen3Shape()
    # 28 layers of 15.7 million weights, twice; attention adds its part with the length.
    assert 0.84e9 < full.pass_operations([512] * 8) / 4_096 < 0.93e9
    assert TINY.pass_operations([5, 7]) == TINY.pass_operations([5]) + TINY.pass_operations([7])


def report(**changes) -> GpuReport:
    fields = {
        "environment": {"device": "NVIDIA H200", "torch": "2.11.0", "commit": "abc"},
        "ceilings": Ceilings(4_300.0, 790.0),
        "checks": [CheckResult("vectors", Outcome.PASSED, "least cosine 1", 0.1)],
        "measurements": [
            Measurement("gpu", "8 x 512 tokens", "rate", 123456.0, "tokens/s", "transformers", 1.5)
        ],
        "problems": [],
        "seconds": 1.0,
    }
    return GpuReport(**(fields | changes))


def test_a_report_becomes_rows_of_the_table(tmp_path):
    report().save(tmp_path / "gpu.json")
    table = tmp_path / "results.csv"
    table.write_text(",".join(COLUMNS) + "\n")
    assert append_rows(tmp_path / "gpu.json", table) == 1
    with table.open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["machine"], row["commit"]) == ("NVIDIA H200, torch 2.11.0", "abc")
    assert (row["case"], row["value"], row["ratio"]) == ("8 x 512 tokens", "1.235e+05", "1.5")
    table.write_text("a,b\n")
    with pytest.raises(ValueError, match="columns"):
        append_rows(tmp_path / "gpu.json", table)
    assert table.read_text() == "a,b\n"


@pytest.mark.parametrize(
    "changes",
    [
        {"checks": [CheckResult("vectors", Outcome.FAILED, "cosine 0.5", 0.1)]},
        {"problems": ["throughput: RuntimeError"]},
    ],
)
def test_a_run_that_lacks_something_has_failed(changes):
    assert report(**changes).failed and not report().failed


def test_the_script_runs_from_a_bare_checkout(tmp_path, project_root):
    """Without the package being installed: isolated from this environment's editable finder by ``-S``."""
    site = next(path for path in sys.path if path.endswith("site-packages"))
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    changes = {
        "PYTHON": str(python),
        "PYTHONPATH": site,
        "OUT": str(tmp_path),
        "COMMIT": "abc",
    }
    script = [str(project_root / "bench" / "gpu.sh"), "--device", "cpu", "--quick", "--threads", "1"]
    ran = subprocess.run(
        ["bash", *script, "--parts", "ceilings", "throughput", "service"],
        cwd=tmp_path,
        env=os.environ | changes,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = json.loads((tmp_path / "gpu.json").read_text())
    assert found["problems"] == [] and found["environment"]["commit"] == "abc"
    cases = {row["case"] for row in found["rows"]}
    assert "a query of 16 tokens through gRPC" in cases and "4 x 64 tokens" in cases
