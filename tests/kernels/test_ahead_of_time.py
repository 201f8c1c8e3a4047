"""Every kernel compiles for every GPU that precall is meant for, and spills no register."""

import csv
import importlib.metadata
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

LARGEST_SHARED = {80: 163 * 1024, 90: 227 * 1024, 100: 227 * 1024}
"""Bytes of a program, by compute capability (CUDA C++ Programming Guide, technical specifications)."""

REGISTERS = 65_536
"""Of an SM, on all of them."""

RECORDED_WITH = "3.9.0"
"""Another Triton may give a build a few registers more or less."""

Row = dict[str, str]


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """In a process of its own: this one interprets."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path_factory.mktemp("triton"))
    command = [sys.executable, "-P", "-W", "ignore", "-m", "precall.kernels.ahead_of_time"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2_000:] or "a build spills:\n" + done.stdout
    return list(csv.DictReader(io.StringIO(done.stdout)))


def test_every_kernel_is_built_for_every_target(builds: list[Row], project_root: Path) -> None:
    defined = {
        name
        for path in (project_root / "kernels").glob("*.py")
        for name in re.findall(r"^def (\w+_kernel)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(defined) == 5
    assert {(row["kernel"], int(row["target"])) for row in builds} == {
        (kernel, target) for kernel in defined for target in LARGEST_SHARED
    }


def test_nothing_spills_and_two_programs_share_an_sm(builds: list[Row]) -> None:
    for row in builds:
        assert int(row["spills"]) == int(row["stack_bytes"]) == 0, row
        assert 2 * int(row["shared_bytes"]) <= LARGEST_SHARED[int(row["target"])], row
        assert 2 * int(row["registers"]) * int(row["threads"]) <= REGISTERS, row


def test_the_record_is_of_these_builds(builds: list[Row], project_root: Path) -> None:
    if importlib.metadata.version("triton") != RECORDED_WITH:
        pytest.skip(f"kernels/builds.csv was made with Triton {RECORDED_WITH}")
    with (project_root / "kernels" / "builds.csv").open(newline="", encoding="utf-8") as file:
        assert builds == list(csv.DictReader(file)), (
            "make kernels/builds.csv anew: kernels/ahead_of_time.py says how"
        )
