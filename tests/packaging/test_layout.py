"""pyproject.toml tells the truth about the folders and about what the code imports."""

import ast
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def pyproject(project_root: Path) -> dict[str, Any]:
    return tomllib.loads((project_root / "pyproject.toml").read_text(encoding="utf-8"))


def test_every_package_folder_is_listed(pyproject, rooms):
    found = {
        ".".join(("precall", room, *path.parent.relative_to(folder).parts))
        for room, folder in rooms.items()
        for path in folder.rglob("__init__.py")
    }
    assert sorted(found) == sorted(pyproject["tool"]["setuptools"]["packages"])


def test_every_folder_with_code_is_a_package(rooms):
    for folder in rooms.values():
        for path in folder.rglob("*.py"):
            assert (path.parent / "__init__.py").exists(), f"{path.parent} has code and no __init__.py"


def test_every_room_says_that_it_is_typed(rooms):
    assert [room for room, folder in rooms.items() if not (folder / "py.typed").exists()] == []


def test_the_client_needs_three_distributions(pyproject):
    names = {requirement_name(text) for text in pyproject["project"]["dependencies"]}
    assert names == {"grpcio", "numpy", "protobuf"}


def test_what_is_imported_is_declared(pyproject, rooms):
    """A third-party import that no extra declares works on the author's machine alone."""
    declared = {requirement_name(text) for text in pyproject["project"]["dependencies"]}
    for requirements in pyproject["project"]["optional-dependencies"].values():
        declared |= {requirement_name(text) for text in requirements}
    declared |= {"faiss-gpu"}
    distributions = packages_distributions()
    undeclared = {}
    for folder in rooms.values():
        for path in folder.rglob("*.py"):
            for module in imported_modules(path):
                top = module.partition(".")[0]
                if top in sys.stdlib_module_names or top == "precall":
                    continue
                candidates = {normalised(name) for name in distributions.get(top, [top])}
                if not candidates & declared:
                    undeclared[str(path)] = module
    assert undeclared == {}


def imported_modules(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    return names | {
        node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module
    }


def requirement_name(text: str) -> str:
    from packaging.requirements import Requirement

    return normalised(Requirement(text).name)


def normalised(name: str) -> str:
    from packaging.utils import canonicalize_name

    return canonicalize_name(name)
