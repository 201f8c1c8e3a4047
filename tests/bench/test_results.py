import csv
from pathlib import Path

import pytest

from precall.bench.results import COLUMNS, Measurement, append_results, current_commit, machine_name

ROW = Measurement("scan", "500 x 384", "p50", 0.123456, "ms", "numpy", 2.0)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_rows_are_appended_under_one_head(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    append_results(path, [ROW])
    append_results(path, [ROW, Measurement("keyword", "a, b", "share", 1.0, "share")])
    assert path.read_text().splitlines()[0] == ",".join(COLUMNS)
    first, _, last = rows(path)
    assert (first["value"], first["ratio"], first["peer"]) == ("0.1235", "2", "numpy")
    assert (last["case"], last["ratio"], last["peer"]) == ("a, b", "", "")
    assert first["machine"] == machine_name() and "cores" in first["machine"]
    assert first["commit"] == current_commit()


def test_a_file_with_other_columns_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="columns"):
        append_results(path, [ROW])
    assert path.read_text() == "a,b\n1,2\n"
