"""What kill -9 leaves behind: the files as they are at one moment inside a change."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from enum import Enum
from pathlib import Path
from typing import Any
from unittest.mock import patch

from precall.engine.memory import migratable_store
from precall.engine.memory.mark import VersionMark
from precall.engine.memory.migration_record import MigrationRecord
from precall.engine.memory.requests import Request


class CrashPoint(Enum):
    """Where in a change the process ends."""

    BEFORE_THE_COMMIT = "all is written, nothing is committed"
    AFTER_THE_COMMIT = "it is durable; nobody has been told, and the mark is behind"
    AFTER_THE_ACK = "the caller has its answer"


@contextmanager
def files_of_a_crash(point: CrashPoint, data_dir: Path, copy: Path) -> Iterator[None]:
    """Around one change that has a request id: ``copy`` gets the folder's files of that moment.

    A change that commits nothing is copied when it is over, whatever the point.
    """

    def take() -> None:
        if not copy.exists():
            shutil.copytree(data_dir, copy)

    store, note = Request.store, VersionMark.note

    def store_and_take(self: Request, *arguments: Any, **named: Any) -> None:
        store(self, *arguments, **named)
        take()

    def take_and_note(self: VersionMark, version: int) -> None:
        take()
        note(self, version)

    with ExitStack() as stack:
        if point is CrashPoint.BEFORE_THE_COMMIT:
            stack.enter_context(patch.object(Request, "store", store_and_take))
        elif point is CrashPoint.AFTER_THE_COMMIT:
            stack.enter_context(patch.object(VersionMark, "note", take_and_note))
        yield
    take()


@contextmanager
def files_of_a_step(count: int, data_dir: Path, copy: Path) -> Iterator[None]:
    """Around a step of one migration and the work that follows it: ``copy`` gets the folder's files of the
    moment before its ``count``-th transaction is committed, or of the end if there are fewer.
    """
    left = count

    def counted(store: Callable[..., None]) -> Callable[..., None]:
        def store_and_take(*arguments: Any, **named: Any) -> None:
            nonlocal left
            store(*arguments, **named)
            left -= 1
            if left == 0:
                shutil.copytree(data_dir, copy)

        return store_and_take

    with (
        patch.object(MigrationRecord, "store", counted(MigrationRecord.store)),
        patch.object(migratable_store, "store_next_vectors", counted(migratable_store.store_next_vectors)),
    ):
        yield
    if not copy.exists():
        shutil.copytree(data_dir, copy)
