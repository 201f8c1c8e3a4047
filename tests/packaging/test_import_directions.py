"""Dependencies point one way; the map is DESIGN's, and this is where it is kept true."""

import ast
from dataclasses import dataclass
from pathlib import Path

import pytest

# What each room may import of precall beside itself. cli and bench stand above the others.
MAY_IMPORT = {
    "scoring": set(),
    "proto": set(),
    "kernels": set(),
    "engine": {"scoring", "kernels"},
    "server": {"engine", "scoring", "proto"},
    "client": {"proto", "scoring"},
    "bench": {"client", "engine", "kernels", "proto", "scoring", "server"},
    "cli": {"bench", "client", "engine", "kernels", "proto", "scoring", "server"},
}
NO_WIRE = {"grpc", "google"}
HEAVY = {
    "faiss", "matplotlib", "onnx", "onnxruntime", "onnxscript", "tokenizers", "torch", "transformers",
    "triton",
}  # fmt: skip
# Third-party modules that a room must not touch at all.
FORBIDDEN = {
    "scoring": NO_WIRE | HEAVY,
    "proto": HEAVY,
    "kernels": NO_WIRE,
    "engine": NO_WIRE,
    "client": (HEAVY - {"onnxruntime", "tokenizers"}) | {"pydantic", "typer", "rich", "structlog"},
}


@dataclass(frozen=True)
class Import:
    path: Path
    line: int
    module: str
    relative: bool
    at_module_level: bool

    def __str__(self) -> str:
        return f"{self.path}:{self.line} imports {self.module}"


def imports_of(folder: Path) -> list[Import]:
    """Every import of a room's own code, those inside functions and under TYPE_CHECKING included."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        if "_pb2" in path.name:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        top_level = {id(node) for node in tree.body}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names, relative = [alias.name for alias in node.names], False
            elif isinstance(node, ast.ImportFrom):
                # `from precall import client` names the room in the alias.
                base = node.module or ""
                names = [f"{base}.{alias.name}" for alias in node.names] if base == "precall" else [base]
                relative = node.level > 0
            else:
                continue
            found += [Import(path, node.lineno, name, relative, id(node) in top_level) for name in names]
    return found


def room_of(module: str) -> str | None:
    """The room that a module of precall stands in; None for everybody else's modules."""
    parts = module.split(".")
    return parts[1] if parts[0] == "precall" and len(parts) > 1 else None


def violations(room: str, imports: list[Import]) -> list[str]:
    wrong = []
    for each in imports:
        target = room_of(each.module)
        top = each.module.partition(".")[0]
        if each.relative:
            wrong.append(f"{each}: relative; write precall.{room}...")
        elif target is not None and target != room and target not in MAY_IMPORT[room]:
            wrong.append(f"{each}: {room} must not know {target}")
        elif top in FORBIDDEN.get(room, set()):
            wrong.append(f"{each}: {room} must not need {top}")
        elif room == "client" and top in HEAVY and each.at_module_level:
            wrong.append(f"{each}: at module level; import it in the function that uses it")
    return wrong


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_imports_point_one_way(rooms, room):
    assert violations(room, imports_of(rooms[room])) == []


def test_the_map_knows_every_room(rooms):
    assert set(MAY_IMPORT) == set(rooms)


@pytest.mark.parametrize(
    ("room", "line"),
    [
        ("engine", "from precall.server import settings"),
        ("engine", "from precall import client"),
        ("engine", "def f():\n    import grpc.aio"),
        ("client", "import torch"),
        ("client", "import onnxruntime"),
        ("client", "from precall.engine.errors import PrecallError"),
        ("server", "from precall.client import Client"),
        ("scoring", "from .terms import Term"),
        ("bench", "if TYPE_CHECKING:\n    from precall.cli.main import main"),
    ],
)
def test_a_wrong_import_is_seen(tmp_path, room, line):
    (tmp_path / "module.py").write_text(line, encoding="utf-8")
    assert len(violations(room, imports_of(tmp_path))) == 1


@pytest.mark.parametrize(
    ("room", "line"),
    [
        ("client", "def f():\n    import onnxruntime"),
        ("client", "import grpc\nimport numpy as np\nfrom precall.scoring import terms"),
        ("engine", "import torch\nfrom precall.kernels import scan"),
    ],
)
def test_a_right_import_is_let_through(tmp_path, room, line):
    (tmp_path / "module.py").write_text(line, encoding="utf-8")
    assert violations(room, imports_of(tmp_path)) == []
