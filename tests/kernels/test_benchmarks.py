"""The kernels' benchmarks run, and check what they are about to time."""

from dataclasses import replace

import pytest
import torch

from precall.bench.kernels_grouped_scan import measure_grouped_scan
from precall.bench.kernels_late_interaction import measure_late_interaction
from precall.bench.kernels_pooling import measure_pooling
from precall.bench.kernels_stage import KernelStage
from precall.kernels import grouped_scan

INTERPRETER = KernelStage(torch.device("cpu"), None)


@pytest.mark.skipif(torch.cuda.is_available(), reason="Triton has no interpreter where it compiles")
@pytest.mark.parametrize("measure", [measure_grouped_scan, measure_pooling, measure_late_interaction])
def test_it_runs_in_the_interpreter_and_measures_nothing(measure):
    assert measure(INTERPRETER) == []


def test_a_kernel_that_is_wrong_is_not_timed(monkeypatch):
    def wrong(arena, pairs, wanted, *, programs):
        found = grouped_scan.grouped_scan_reference(arena, pairs, wanted)
        return replace(found, totals=found.totals + 1e-3)

    monkeypatch.setattr(grouped_scan, "grouped_scan", wrong)
    with pytest.raises(AssertionError):
        measure_grouped_scan(INTERPRETER)


def test_a_share_is_what_is_moved_in_the_time_of_what_could_be():
    stage = KernelStage(torch.device("cpu"), 50.0)
    calls = []
    time, share, peer = stage.figures(
        "kernels", "case", lambda: calls.append(1), 10**6, {"peer": lambda: None}
    )
    assert share.value * time.value / 1e3 * 50e9 == pytest.approx(10**6)
    assert peer.ratio == pytest.approx(peer.value / time.value) and calls
