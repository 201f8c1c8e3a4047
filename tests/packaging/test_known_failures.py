"""docs/known_failures.md names tests that exist."""

import ast
import re
from pathlib import Path

import pytest

_NAMED = re.compile(r"`([a-z0-9_]+/test_[a-z0-9_]+\.py)::(test_[a-z0-9_]+)`")
_ROW = re.compile(r"^\| (?!kind \|)(?P<kind>[^|]+) \| (?P<tests>[^|]+) \|$", re.MULTILINE)


@pytest.fixture(scope="module")
def page(project_root: Path) -> str:
    return (project_root / "docs" / "known_failures.md").read_text(encoding="utf-8")


def names_in(path: Path) -> set[str]:
    """Names of the test functions of a file, those of classes included."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, functions)}


def missing(page: str, tests: Path) -> list[str]:
    return [
        f"{file}::{name}"
        for file, name in _NAMED.findall(page)
        if not (tests / file).exists() or name not in names_in(tests / file)
    ]


def test_every_test_that_is_named_exists(page: str, project_root: Path) -> None:
    assert missing(page, project_root / "tests") == []


def test_every_kind_of_fault_has_a_test(page: str) -> None:
    rows = list(_ROW.finditer(page))
    assert len(rows) >= 30
    assert [row["kind"] for row in rows if not _NAMED.search(row["tests"])] == []


def test_whatever_looks_like_a_test_is_understood(page: str) -> None:
    assert page.count("::") == len(_NAMED.findall(page))


def test_a_name_that_is_none_is_seen(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "test_noun.py").write_text("class TestIt:\n    def test_here(self): ...\n")
    page = "`room/test_noun.py::test_here` `room/test_noun.py::test_gone` `room/test_absent.py::test_here`"
    assert missing(page, tmp_path) == ["room/test_noun.py::test_gone", "room/test_absent.py::test_here"]
