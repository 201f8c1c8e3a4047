"""Folders for lives, and how many of them: ``PRECALL_LIVES=20`` has each test run twenty times as many."""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings


def lives(examples: int, steps: int) -> settings:
    """``examples`` lives of up to ``steps`` steps each, as often as the environment asks."""
    times = int(os.environ.get("PRECALL_LIVES", "1"))
    return settings(
        max_examples=examples * times,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )


@pytest.fixture
def new_folder(tmp_path: Path) -> Iterator[Callable[[], Path]]:
    """Makes a new folder at each call."""
    with tempfile.TemporaryDirectory(dir=tmp_path) as place:
        yield lambda: Path(tempfile.mkdtemp(dir=place))
