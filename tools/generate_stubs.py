"""Generate the Python stubs of ``proto/*.proto``, or check that the committed ones are up to date.

Run by the interpreter of ``.venv-proto`` (see ``make proto``), which holds the pinned generator::

    .venv-proto/bin/python -P tools/generate_stubs.py            write the stubs into proto/
    .venv-proto/bin/python -P tools/generate_stubs.py --check    exit 1 and name the files that differ

The mapping ``-I precall/proto=proto`` lets the short folder stand for the qualified package, so that the
generated imports read ``from precall.proto import ...`` without any editing.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
GENERATED = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py", "*_pb2_grpc.pyi")


def generate(destination: Path) -> dict[str, bytes]:
    """Run protoc into ``destination``; the generated files by name."""
    sources = sorted(PROTO.glob("*.proto"))
    with_services = [source for source in sources if "\nservice " in source.read_text(encoding="utf-8")]
    plugin = Path(sys.executable).parent / "protoc-gen-mypy_grpc"
    _protoc(sources, f"--python_out={destination}", f"--pyi_out={destination}")
    _protoc(
        with_services,
        f"--plugin=protoc-gen-mypy_grpc={plugin}",
        f"--grpc_python_out={destination}",
        f"--mypy_grpc_out=quiet:{destination}",
    )
    return {path.name: path.read_bytes() for path in sorted((destination / "precall" / "proto").iterdir())}


def committed() -> dict[str, bytes]:
    """The generated files now in ``proto/``, by name."""
    return {path.name: path.read_bytes() for pattern in GENERATED for path in sorted(PROTO.glob(pattern))}


def write(fresh: dict[str, bytes]) -> None:
    """Make ``proto/`` hold exactly the ``fresh`` stubs."""
    for name in committed().keys() - fresh.keys():
        (PROTO / name).unlink()
    for name, content in fresh.items():
        (PROTO / name).write_bytes(content)


def stale_names(fresh: dict[str, bytes]) -> list[str]:
    """Names of stubs that are missing, left over, or different from ``fresh``."""
    current = committed()
    return sorted(name for name in current.keys() | fresh.keys() if current.get(name) != fresh.get(name))


def main() -> int:
    parser = argparse.ArgumentParser(description="Generate the stubs of proto/*.proto.")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if proto/ is not up to date"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fresh = generate(Path(folder))
    if not arguments.check:
        write(fresh)
        print(f"wrote {len(fresh)} stubs into proto/")
        return 0
    stale = stale_names(fresh)
    if stale:
        print(f"stubs out of date, run `make proto`: {', '.join(stale)}", file=sys.stderr)
    return 1 if stale else 0


def _protoc(sources: list[Path], *options: str) -> None:
    names = [f"precall/proto/{source.name}" for source in sources]
    command = [sys.executable, "-P", "-m", "grpc_tools.protoc", "-I", "precall/proto=proto", *options, *names]
    subprocess.run(command, cwd=ROOT, check=True)


if __name__ == "__main__":
    raise SystemExit(main())
