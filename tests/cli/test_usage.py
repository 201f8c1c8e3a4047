"""The command line without a server: help, versions, usage errors, and what a user sees of a failure."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from shell import run_here
from typer.main import get_command

from precall.cli.main import app
from precall.server.settings import ServerSettings


def run_process(
    *arguments: str | bytes, folder: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The console script's own way, in a process of its own."""
    return subprocess.run(
        (sys.executable, "-P", "-m", "precall.cli.main", *arguments),
        cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


NO_SERVER = ("--target", "127.0.0.1:1", "--api-key", "k")
SEARCH = ("search", *NO_SERVER)


def commands() -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = [()]
    pending = [((), get_command(app))]
    while pending:
        path, group = pending.pop()
        for name, command in group.commands.items():
            found.append((*path, name))
            if hasattr(command, "commands"):
                pending.append(((*path, name), command))
    return found


@pytest.mark.parametrize("path", commands(), ids=" ".join)
def test_every_command_explains_itself(path):
    shown = run_here(*path, "--help")
    assert shown.status == 0
    assert "Usage" in shown.output


def test_the_commands_are_those_of_the_documentation():
    assert {path[0] for path in commands() if path} == {
        "serve", "demo", "ingest", "export", "search", "backup", "restore", "tenants", "migrate", "bench"
    }  # fmt: skip


def test_every_setting_has_a_flag():
    serve = get_command(app).commands["serve"]
    assert {parameter.name for parameter in serve.params} - {"config"} == set(ServerSettings.model_fields)


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("search",),
        ("search", "x"),
        ("search", "x", "--scope", "user"),
        ("search", "x", "--scope", "user=a", "--scope", "user=b"),
        ("search", "x", "--scope", "user=a", "--limit", "0"),
        ("search", "x", "--scope", "user=a", "--metadata", "travel"),
        ("search", "x", "--scope", "user=a", "--metadata", "a=1", "--metadata", "a=2"),
        ("search", "x", "--scope", "user=a", "--event-from", "yesterday"),
        ("ingest",),
        ("bench", "reads"),
        ("serve", "--port", "http"),
    ],
)
def test_usage_errors_exit_with_two(arguments):
    assert run_here(*arguments).status == 2


def test_the_example_of_a_scope_begins_at_the_ladders_top():
    assert "--scope customer=acme --scope user=dana" in run_here("search", "x").output


@pytest.mark.parametrize(
    "arguments", [("search", "x", "--scope"), ("tenants", "keys", "create", "a", "--pin")]
)
def test_a_scope_that_is_no_text_is_a_usage_error(tmp_path, arguments):
    shown = run_process(*arguments, b"customer=\xff", *NO_SERVER, folder=tmp_path)
    assert shown.returncode == 2
    assert "UTF-8" in shown.stderr
    assert "Traceback" not in shown.stderr


def test_an_admin_key_that_is_no_text_is_said(tmp_path):
    (tmp_path / "admin.key").write_bytes(b"\xff\xfe\x00")
    shown = run_here("tenants", "list", "--data-dir", str(tmp_path))
    assert shown.status == 1
    assert "admin.key holds no key" in shown.line


def test_a_missing_key_says_how_to_get_one(tmp_path):
    assert "--api-key" in run_here("search", "x", "--scope", "user=a").line
    assert "--data-dir" in run_here("tenants", "list", "--data-dir", str(tmp_path)).line


def test_help_loads_nothing_heavy():
    script = (
        "import sys, precall.cli.main\n"
        "print([m for m in ('grpc', 'numpy', 'pydantic', 'torch', 'faiss', 'onnxruntime', 'matplotlib')"
        " if m in sys.modules])"
    )
    shown = subprocess.run(
        (sys.executable, "-P", "-c", script), capture_output=True, text=True, timeout=60, check=True
    )
    assert shown.stdout.strip() == "[]"


def test_the_version_is_the_distributions(tmp_path):
    shown = run_process("--version", folder=tmp_path)
    assert shown.returncode == 0
    assert shown.stdout.startswith("precall 0.")


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        (("serve", "--port", "70000"), {}, "setting port in the command line"),
        (("serve",), {"PRECALL_LEASE_SECONDS": "1"}, "lease_seconds"),
        (("serve", "--config", "absent.toml"), {}, "absent.toml cannot be read"),
        (
            ("search", "x", "--scope", "user=a", "--target", "127.0.0.1:1", "--api-key", "k"),
            {},
            "no server answers",
        ),
        (("bench", "reads", "--data", "absent"), {}, "absent"),
        ((*SEARCH, b"\xff", "--scope", "user=a"), {}, "surrogate"),
        ((*SEARCH, "x", "--scope", "user=a", "--target", "127.0.0.1:99999"), {}, "from 1 to 65535"),
        ((*SEARCH, "x", "--scope", "user=a", "--target", b"\xff:1"), {}, "target"),
    ],
)
def test_failures_are_one_line_on_stderr_and_status_one(tmp_path, arguments, environment, words):
    shown = run_process(*arguments, folder=tmp_path, **environment)
    assert shown.returncode == 1
    assert shown.stdout == ""
    (line,) = shown.stderr.splitlines()
    assert line.startswith("precall: ")
    assert words in line
    assert not any(tmp_path.iterdir())  # nothing half-written


def test_a_variable_that_is_no_setting_is_warned_of(tmp_path):
    shown = run_process(
        *("serve", "--port", "0", "--metrics-port", "0", "--data-dir", "data"),
        *("--ready-file", str(tmp_path / "absent" / "ready.json")),  # ends it at once
        folder=tmp_path,
        PRECALL_PROT="3",
        PRECALL_DATA_DIR="",
        NO_COLOR="1",
    )
    (line,) = (line for line in (shown.stdout + shown.stderr).splitlines() if "is no setting" in line)
    assert "PRECALL_PROT" in line and "PRECALL_PORT" in line


def test_a_missing_keys_command_goes_to_the_server_that_was_meant():
    line = run_here("search", "x", "--scope", "user=a", "--target", "there:1").line
    assert "`precall tenants keys create TENANT --target there:1`" in line


def test_a_ready_file_that_cannot_be_written_ends_the_server(tmp_path):
    shown = run_process(
        *("serve", "--port", "0", "--metrics-port", "0", "--data-dir", "data", "--log-level", "error"),
        *("--ready-file", str(tmp_path / "absent" / "ready.json")),
        folder=tmp_path,
    )
    assert shown.returncode == 1
    assert shown.stderr.splitlines()[-1].startswith("precall: ready_file ")
