"""`precall bench quality` as a command: what it refuses, and that a missed target fails it."""

from pathlib import Path

import pytest
from shell import run_here

from precall.bench import quality
from precall.bench.quality_report import TARGETS, QualityReport


def test_a_set_that_is_not_known_is_refused_with_those_that_are(tmp_path: Path) -> None:
    refused = run_here("bench", "quality", "--data", str(tmp_path), "--only", "locomo,msmarco")
    assert refused.status == 2
    assert "msmarco" in refused.output and "hinglish" in refused.output


def test_data_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    failed = run_here("bench", "quality", "--data", str(tmp_path / "absent"))
    assert failed.status == 1 and "absent" in failed.line


@pytest.mark.parametrize("missed", [False, True])
def test_options_reach_the_run_and_a_missed_target_fails_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missed: bool
) -> None:
    runs = []

    class Report:
        def __init__(self) -> None:
            self.missed = TARGETS[:1] if missed else []

    def main(run: quality.QualityRun, *, json_path: Path, csv_path: Path) -> QualityReport:
        runs.append((run, json_path, csv_path))
        return Report()  # type: ignore[return-value]

    monkeypatch.setattr(quality, "main", main)
    done = run_here(
        "bench", "quality", "--data", str(tmp_path), "--only", "scifact, xquad", "--accurate",
        "--queries", "9",
        "--vectors", str(tmp_path / "v"), "--threads", "1", "--json", "a.json", "--csv", "b.csv",
    )  # fmt: skip
    assert done.status == int(missed) and ("target was missed" in done.line) == missed
    expected = quality.QualityRun(tmp_path, ("scifact", "xquad"), True, 9, tmp_path / "v", 1)
    assert runs == [(expected, Path("a.json"), Path("b.csv"))]
