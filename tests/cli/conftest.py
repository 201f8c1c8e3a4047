"""What the command line's tests share: a server to talk to."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

# Helpers, the server's tests' too, are imported by their plain names; appended, so that they shadow nothing.
sys.path += [str(Path(__file__).parents[up] / name) for up, name in ((0, ""), (1, "server"), (1, ""))]

from harness import running_stage
from shell import Shell


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    async with running_stage(tmp_path / "data") as stage:
        yield Shell(stage)
