"""Room for the tenants' files: the settings, and the process's limit of file descriptors."""

import resource

import pytest

from precall.engine.errors import ConfigurationError
from precall.server.descriptors import raise_descriptor_limit
from precall.server.settings import ServerSettings

FEW = (1_024, 4_096)
"""A soft and a hard limit as they are common."""


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The limits that the process has, the latest last."""
    had = [FEW]
    monkeypatch.setattr(resource, "getrlimit", lambda _: had[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, asked: had.append(asked))
    return had


def test_the_settings_reach_the_engine() -> None:
    residency = ServerSettings.load(
        {"memory_budget_mb": 3, "max_open_files": 5}, environment={}
    ).engine_settings.residency
    assert (residency.budget_bytes, residency.open_files) == (3 * 1024 * 1024, 5)


def test_the_defaults_fit_into_common_limits(limits: list[tuple[int, int]]) -> None:
    raise_descriptor_limit(ServerSettings.load({}, environment={}).max_open_files)
    assert FEW[0] < limits[-1][0] <= FEW[1] == limits[-1][1]


def test_a_limit_that_is_enough_is_left_alone(limits: list[tuple[int, int]]) -> None:
    limits.append((100_000, 100_000))
    raise_descriptor_limit(200)
    assert len(limits) == 2


def test_too_many_files_are_refused_with_what_would_do(limits: list[tuple[int, int]]) -> None:
    with pytest.raises(ConfigurationError, match=r"max_open_files 1000 .* at most 279"):
        raise_descriptor_limit(1_000)
    raise_descriptor_limit(279)
    assert limits[-1][0] <= FEW[1]


def test_a_system_that_refuses_is_told_of(
    limits: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    with pytest.raises(ConfigurationError, match="set max_open_files lower"):
        raise_descriptor_limit(200)
