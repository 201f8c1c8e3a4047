"""Running commands as `main` would, in this process and against a running server."""

import asyncio
from dataclasses import dataclass

from harness import Stage
from typer.testing import CliRunner

from precall.cli.failure import explain
from precall.cli.main import app


@dataclass(frozen=True)
class Outcome:
    """``line`` is what `main` prints for an error; empty when there was none."""

    status: int
    output: str
    line: str


def run_here(*arguments: str, environment: dict[str, str | None] | None = None) -> Outcome:
    """Run a command in this process. A fault of ours is raised."""
    clean: dict[str, str | None] = {
        "PRECALL_TARGET": None,
        "PRECALL_API_KEY": None,
        "PRECALL_ADMIN_KEY": None,
        "COLUMNS": "200",
    }
    result = CliRunner().invoke(app, arguments, env=clean | (environment or {}))
    if isinstance(result.exception, Exception):
        line = explain(result.exception)
        if line is None:
            raise result.exception
        return Outcome(1, result.output, line)
    return Outcome(result.exit_code, result.output, "")


@dataclass(frozen=True)
class Shell:
    """Commands against a running server."""

    stage: Stage

    async def run(self, *arguments: str, key: str | None = None) -> Outcome:
        """As the server's admin, or with ``key`` as its holder. In a thread: the server needs the loop."""
        environment: dict[str, str | None] = {
            "PRECALL_TARGET": self.stage.endpoints.target,
            "PRECALL_DATA_DIR": str(self.stage.settings.data_dir),
            "PRECALL_API_KEY": key,
        }
        return await asyncio.to_thread(run_here, *arguments, environment=environment)
