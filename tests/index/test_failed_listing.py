"""A listing that fails is told, leaves exact codes behind, and is tried again when there is reason to."""

import logging
from collections.abc import Sequence

import numpy as np
import pytest

from precall.engine.index import clusters, listing
from precall.engine.index.code_keeper import CodeKeeper
from precall.engine.index.codes import FlatCodes
from precall.engine.index.listed import ListedCodes, ListedRows
from precall.engine.index.partition import Partition, PartitionSettings
from precall.engine.memory.memory import IndexedMemory
from tests.fakes.memories import DANA, clustered, indexed

DIMENSION = 32
SETTINGS = PartitionSettings(exact_below=50, listed_from=400)


def memories(count: int, *, seed: int) -> list[IndexedMemory]:
    return [
        indexed(f"{seed}-{number}", vector=vector)
        for number, vector in enumerate(clustered(count, DIMENSION, seed=seed))
    ]


class Failing:
    """Calls the original, but for the calls of these numbers, which run out of memory."""

    def __init__(self, original: object, fails: Sequence[int]) -> None:
        self.calls = 0
        self._original, self._fails = original, fails

    def __call__(self, *arguments: object) -> object:
        self.calls += 1
        if self.calls - 1 in self._fails:
            raise MemoryError("no room")
        return self._original(*arguments)  # type: ignore[operator]


def warnings(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [each for each in caplog.records if each.name == CodeKeeper.__module__]


def test_it_is_told_once_and_tried_again_when_the_rung_has_grown_by_a_fifth(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    training = Failing(clusters.train, fails=[0])
    monkeypatch.setattr(clusters, "train", training)
    partition = Partition(DANA, DIMENSION, SETTINGS)
    partition.apply(added=memories(400, seed=1))
    partition.wait_until_listed()
    assert isinstance(partition.codes, FlatCodes)
    for step in range(2, 81):  # 79 more are less than a fifth of 400
        partition.apply(added=memories(1, seed=step))
        partition.wait_until_listed()
    assert training.calls == 1 and not partition.listed
    (told,) = warnings(caplog)
    assert told.levelno == logging.ERROR and told.exc_info
    assert "acme/dana" in told.getMessage() and "80 more" in told.getMessage()
    partition.check_integrity()

    partition.apply(added=memories(1, seed=81))
    partition.wait_until_listed()
    assert training.calls == 2 and partition.listed
    assert len(warnings(caplog)) == 1
    partition.check_integrity()


def test_rows_that_take_the_place_of_others_count_as_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "train", Failing(clusters.train, fails=[0]))
    partition = Partition(DANA, DIMENSION, SETTINGS)
    first = memories(400, seed=1)
    partition.apply(added=first)
    partition.wait_until_listed()
    assert not partition.listed
    partition.apply(added=memories(80, seed=2), removed=[each.memory.id for each in first[:80]])
    partition.wait_until_listed()
    assert partition.listed and len(partition) == 400
    partition.check_integrity()


def test_what_is_removed_after_a_failure_half_way_is_in_no_list_of_the_next_try(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failing = Failing(ListedCodes.prepare, fails=[1])

    def prepare(codes: ListedCodes, rows: np.ndarray) -> ListedRows:
        prepared = failing(codes, rows)
        assert isinstance(prepared, ListedRows)
        return prepared

    monkeypatch.setattr(listing, "_CHUNK", 100)
    monkeypatch.setattr(ListedCodes, "prepare", prepare)
    partition = Partition(DANA, DIMENSION, SETTINGS)
    first = memories(450, seed=1)
    partition.apply(added=first)
    partition.wait_until_listed()
    assert failing.calls == 2 and not partition.listed and len(warnings(caplog)) == 1
    partition.apply(removed=[each.memory.id for each in first[::10]])
    partition.apply(added=memories(90, seed=2))
    partition.wait_until_listed()
    assert partition.listed
    partition.check_integrity()


def test_lists_that_cannot_be_made_anew_stay(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    training = Failing(clusters.train, fails=[1])
    monkeypatch.setattr(clusters, "train", training)
    partition = Partition(DANA, DIMENSION, SETTINGS)
    partition.apply(added=memories(400, seed=1))
    partition.wait_until_listed()
    first = partition.codes
    assert isinstance(first, ListedCodes)
    partition.apply(added=memories(1_300, seed=2))
    partition.wait_until_listed()
    assert training.calls == 2 and partition.codes is first and len(warnings(caplog)) == 1
    partition.check_integrity()
    partition.apply(added=memories(340, seed=3))
    partition.wait_until_listed()
    assert training.calls == 3 and partition.listed and partition.codes is not first
    partition.check_integrity()
