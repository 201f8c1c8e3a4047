"""The quality table: its rows, its targets, its JSON, and the command that makes it."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from precall.bench import quality
from precall.bench.locomo import LocomoFormatError
from precall.bench.quality import QualityRun, measure_cases
from precall.bench.quality_measures import QueryMeasures
from precall.bench.quality_methods import METHODS
from precall.bench.quality_report import TARGETS, CaseReport, QualityReport
from precall.bench.quality_sets import LabelledQuery, unconnected
from precall.bench.quality_vectors import VectorCache
from precall.engine.encoding import loading
from tests.fakes.encoder import FakeEncoder

MEMORIES = ("Dana flies to Pune", "the cat sleeps", "Pune is hot in May", "a train to Delhi")


def measures(value: float, queries: int = 3) -> QueryMeasures:
    return QueryMeasures(*(np.full(queries, value) for _ in range(3)))


def case(set_name: str, means: Mapping[str, float], name: str = "all") -> CaseReport:
    peers = {"BM25": 0.1, "dense": 0.3, "RRF": 0.2}
    return CaseReport(set_name, name, {method: measures(mean) for method, mean in (peers | means).items()})


def test_a_report_has_all_queries_of_a_name_and_then_its_cases(tmp_path: Path) -> None:
    sets = [
        unconnected(
            "pair", MEMORIES, [LabelledQuery("Is Pune hot in May?", (2,), "hot"), LabelledQuery("cat", (1,))]
        ),
        unconnected("pair", MEMORIES[:2], [LabelledQuery("cat", (1,), "hot")]),
        unconnected("single", MEMORIES, [LabelledQuery("Delhi", (3,))]),
    ]
    cases = measure_cases(sets, VectorCache(FakeEncoder(), tmp_path))
    assert [(each.set_name, each.case, each.queries) for each in cases] == [
        ("pair", "all", 3), ("pair", "hot", 2), ("single", "all", 1),
    ]  # fmt: skip
    assert list(cases[0].methods) == list(METHODS)
    assert cases[0].methods["FAST"].ndcg_10.tolist() == [1.0, 1.0, 1.0]
    rows = {row.metric: row for row in cases[1].measurements()}
    assert rows["FAST recall@10"].case == "pair hot" and rows["FAST recall@10"].value == 1.0


def test_fast_is_compared_with_the_best_peer_and_accurate_with_fast() -> None:
    gains = case("scifact", {"FAST": 0.5, "ACCURATE": 0.6}).gains
    assert {name: round(gain.mean, 3) for name, gain in gains.items()} == {
        "FAST - dense": 0.2, "ACCURATE - FAST": 0.1,
    }  # fmt: skip
    assert list(case("scifact", {"FAST": 0.5}).gains) == ["FAST - dense"]


def test_a_target_is_missed_by_the_whole_of_its_set_alone() -> None:
    assert {target.set_name for target in TARGETS} == {"locomo-held-out", "scifact"}
    cases = [
        case("locomo-held-out", {"FAST": 0.72, "ACCURATE": 0.75}),
        case("locomo-held-out", {"FAST": 0.1, "ACCURATE": 0.1}, "1 multi-hop"),
        case("locomo-fitted", {"FAST": 0.1, "ACCURATE": 0.1}),
        case("scifact (10 of 300)", {"FAST": 0.1}),
    ]
    missed = QualityReport({}, cases).missed
    assert [(target.set_name, target.method) for target in missed] == [("locomo-held-out", "ACCURATE")]
    assert QualityReport({}, [case("scifact", {"FAST": 0.75})]).missed == []


def test_a_report_as_json_has_its_conditions_and_every_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = QualityReport({"fitted on": "26, 30"}, [case("scifact", {"FAST": 0.71, "ACCURATE": 0.70})])
    report.write(tmp_path / "report.json")
    written = json.loads((tmp_path / "report.json").read_text())
    assert written["conditions"] == {"fitted on": "26, 30"}
    (row,) = written["cases"]
    assert (row["set"], row["case"], row["queries"]) == ("scifact", "all", 3)
    assert row["methods"]["FAST"] == pytest.approx({"recall@10": 0.71, "recall@50": 0.71, "nDCG@10": 0.71})
    assert row["nDCG@10 differences"]["FAST - dense"]["mean"] == pytest.approx(0.41)
    assert [target["mean"] for target in written["targets"]] == [
        None,
        None,
        pytest.approx(0.71),
        pytest.approx(0.7),
    ]
    report.print()
    shown = capsys.readouterr().out
    assert shown.startswith("fitted on: 26, 30\n")
    assert "scifact FAST nDCG@10" in shown and "at least 0.70: kept" in shown
    assert "scifact ACCURATE nDCG@10" in shown and "at least 0.72: MISSED" in shown


def test_a_run_reads_measures_and_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "data" / "hinglish"
    folder.mkdir(parents=True)
    rows = "".join(f"utterance {n}\ttwin {n}\n" for n in range(8))
    (folder / "hinglish_english_user_pairs.tsv").write_text(f"hinglish\tenglish\n{rows}")

    class Loaded:
        encoder = FakeEncoder()

    monkeypatch.setattr(loading, "load_default_encoder", lambda threads: Loaded())
    run = QualityRun(tmp_path / "data", ("hinglish",), most_queries=3, vectors=tmp_path / "vectors")
    report = quality.main(run, json_path=tmp_path / "report.json", csv_path=tmp_path / "rows.csv")
    assert [(each.set_name, each.queries) for each in report.cases] == [("hinglish (3 of 8)", 3)]
    assert "26, 30" in report.conditions["fitted on"] and report.conditions["encoder"] == "fake-hash"
    assert json.loads((tmp_path / "report.json").read_text())["cases"][0]["queries"] == 3
    assert "hinglish (3 of 8),FAST nDCG@10,1" in (tmp_path / "rows.csv").read_text()


def test_data_that_is_not_there_is_told_before_any_model_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(threads: int | None) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(loading, "load_default_encoder", refuse)
    with pytest.raises((OSError, LocomoFormatError), match="absent"):
        quality.main(QualityRun(tmp_path / "absent"))
