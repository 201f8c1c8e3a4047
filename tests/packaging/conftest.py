"""The wheel, built once from a copy of the project, so that no build leaves anything in the working tree."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOMS = ("bench", "cli", "client", "engine", "kernels", "proto", "scoring", "server")
ROOT_FILES = ("pyproject.toml", "README.md", "LICENSE")


@pytest.fixture(scope="session")
def rooms(project_root: Path) -> dict[str, Path]:
    """Folder by room."""
    return {room: project_root / room for room in ROOMS}


@pytest.fixture(scope="session")
def wheel(project_root: Path, rooms: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("source")
    for room, folder in rooms.items():
        shutil.copytree(folder, source / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ROOT_FILES:
        shutil.copy(project_root / name, source / name)
    destination = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-P", "-m", "build", "--wheel", "--no-isolation", "--outdir", str(destination)]
    subprocess.run([*command, str(source)], check=True, capture_output=True, text=True)
    (built,) = destination.glob("*.whl")
    return built
