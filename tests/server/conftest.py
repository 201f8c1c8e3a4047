"""What the server's tests share: a stage with a fake model, two tenants on it, and ways to see errors."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

# Helpers are imported by their plain names; appended, so that they shadow nothing.
sys.path += [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

from harness import Stage, running_stage


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with running_stage(tmp_path / "data") as running:
        yield running
