"""What an agent gets from the wheel: the client on three small dependencies, at their oldest versions."""

import json
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

HEAVY = ("torch", "faiss", "transformers", "onnxruntime", "tokenizers", "pydantic", "matplotlib", "uvloop")

# Runs in the new interpreter, and tells what importing the client has loaded and what else is there.
PROBE = """
import json, sys
from importlib.util import find_spec
import precall.client
import precall.bench.transcript, precall.scoring
loaded = sorted({name.partition(".")[0] for name in sys.modules})
heavy = sys.argv[1].split(",")
print(json.dumps({
    "loaded": [name for name in heavy if name in loaded],
    "installed": [name for name in heavy if find_spec(name)],
    "server_loaded": "precall.server" in sys.modules or "precall.engine" in sys.modules,
    "public": sorted(precall.client.__all__),
}))
"""


@pytest.fixture(scope="module")
def oldest_dependencies(project_root: Path) -> list[str]:
    """`name==lower bound` of each base dependency."""
    project = tomllib.loads((project_root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [text.partition(",")[0].replace(">=", "==") for text in project["dependencies"]]


@pytest.fixture(scope="module")
def client_python(wheel: Path, oldest_dependencies: list[str], tmp_path_factory) -> Path:
    """The interpreter of an environment that holds the wheel, installed for a client, and nothing else."""
    folder = tmp_path_factory.mktemp("client")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-P", "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    command = [*pip, "install", "--quiet", str(wheel), *oldest_dependencies]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return python


def probe(python: Path | str) -> dict:
    command = [str(python), "-P", "-W", "error", "-c", PROBE, ",".join(HEAVY)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_client_alone_imports_in_an_empty_environment(client_python):
    result = probe(client_python)
    assert result["installed"] == []
    assert result["loaded"] == []
    assert not result["server_loaded"]
    assert {"AsyncClient", "Client"} <= set(result["public"])


def test_the_client_loads_nothing_heavy_where_everything_is_installed():
    result = probe(sys.executable)
    assert len(result["installed"]) == len(HEAVY), "this environment lacks what the test is about"
    assert result["loaded"] == []
    assert not result["server_loaded"]


def test_every_service_has_its_stubs_at_the_oldest_versions(client_python, project_root):
    modules = sorted(path.stem for path in (project_root / "proto").glob("*_pb2*.py"))
    assert modules
    code = "; ".join(f"import precall.proto.{module}" for module in modules)
    subprocess.run([str(client_python), "-P", "-W", "error", "-c", code], check=True)


def test_the_wheel_holds_what_it_should(wheel, rooms):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    expected = {
        f"precall/{room}/{path.relative_to(folder).as_posix()}"
        for room, folder in rooms.items()
        for path in folder.rglob("*")
        if path.suffix in {".py", ".pyi", ".proto"} or path.name in {"py.typed", "demo_conversation.json"}
    }
    assert expected - names == set()
    foreign = {name for name in names - expected if ".dist-info/" not in name}
    assert foreign == set()
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_wheel_is_pure_and_names_the_command(wheel):
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        (entry_points,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
        assert "precall = precall.cli.entry:main" in archive.read(entry_points).decode()


def test_a_client_alone_says_what_the_command_line_needs(client_python):
    command = client_python.parent / "precall"
    done = subprocess.run([str(command), "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "precall: this is the client alone; the command line comes with `pip install 'precall[server]'`"
    ]
