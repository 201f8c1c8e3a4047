"""`precall ingest`: a file of memories into the server."""

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from precall.cli.connection import DEFAULT_TARGET, ApiKey, Target, call_server, require_key
from precall.cli.failure import CommandFailed
from precall.cli.scope import ScopeOption, parse_scope

if TYPE_CHECKING:
    from precall.cli.memory_file import MemoryLine
    from precall.client import ClientOptions
    from precall.client.transport import Transport

BATCH_LINES: Final = 100
_NAMESPACE: Final = uuid.UUID("b9b0a3f1-5d0e-4a0c-9a3e-0a6a3f6d1c55")
_POSITION = re.compile(r"\b(?:item|memory) (\d+): ")


@dataclass(frozen=True, slots=True)
class Batch:
    """Lines of one scope that are written together. ``request_id`` makes a second try a no-op."""

    scope: Mapping[str, str]
    lines: "Sequence[MemoryLine]"
    request_id: str


def ingest(
    file: Annotated[Path, typer.Argument(help='JSON lines: {"text": ..., "scope": {...}, "kind": ...}.')],
    scope: ScopeOption = None,
    truncate: Annotated[
        bool, typer.Option(help="Index the beginning of a text that is too long for the model.")
    ] = False,
    again: Annotated[
        bool, typer.Option(help="Write lines once more that an earlier run has written, as new memories.")
    ] = False,
    target: Target = DEFAULT_TARGET,
    api_key: ApiKey = None,
) -> None:
    """Write the memories of FILE. It is read and checked whole before anything is sent;
    how long a text is for the model, the server says when its line comes.

    A line is an object with `text` and, where wanted, scope, kind, key, id, importance, confidence,
    event_time, said_time, valid_from, valid_until, expires_at, source, questions, metadata, pinned.

    `source` is an object with conversation_id, turn_id, uri and memory_ids, each where wanted. What
    `precall export` wrote is such a file; its vectors are used where the server's model made them.

    Running it again after an interruption writes what is missing and nothing twice.
    """
    default_scope = parse_scope(scope)
    key = require_key(api_key, target)
    # Imported here: gRPC and pydantic take longer to load than --help may take.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from precall.cli.memory_file import read_memory_file

    lines = read_memory_file(file, default_scope)
    salt = uuid.uuid4().hex if again else ""
    batches = cut_into_batches(lines, salt=salt)
    columns = (TextColumn("writing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("writing", total=len(lines))
        outcome = call_server(
            target,
            key,
            lambda transport, options: write_batches(
                transport,
                options,
                batches,
                salt=salt,
                truncate=truncate,
                advance=lambda count: progress.advance(task, count),
            ),
        )
    typer.echo(_stored(outcome.lines) + outcome.remarks())


@dataclass(frozen=True, slots=True)
class Ingested:
    """``lines`` of a file, all stored now. ``replayed``: those that an earlier try has written.

    ``cut``: texts of which the beginning alone is indexed. ``other_models``: lines whose vector was not used,
    for a model made it that is not the server's; they were embedded anew, unless they were written before.
    """

    lines: int
    replayed: int
    cut: int
    other_models: int

    def remarks(self) -> str:
        """What is to be said beside how many there are; often nothing."""
        remarks: list[str] = []
        if self.replayed == self.lines:
            remarks.append("all by an earlier try: nothing was written now (--again writes them once more)")
        elif self.replayed:
            remarks.append(f"{self.replayed} of them by an earlier try")
        if self.cut:
            remarks.append(f"{self.cut} of them indexed by their beginning")
        if self.other_models and self.replayed < self.lines:
            remarks.append(f"{self.other_models} of them embedded anew")
        return "".join(f", {remark}" for remark in remarks)


async def write_batches(
    transport: "Transport",
    options: "ClientOptions",
    batches: "Sequence[Batch]",
    *,
    salt: str,
    truncate: bool,
    advance: Callable[[int], None],
) -> Ingested:
    """Write one batch after the other. Raises CommandFailed, before anything is written for a vector that
    cannot be the server's model's.
    """
    from precall.cli.batch_message import batch_message, usable_vectors
    from precall.client import PrecallError
    from precall.client.methods import WRITE_MEMORIES

    usable = await usable_vectors(transport, options, [line for batch in batches for line in batch.lines])
    cut = done = replayed = 0
    for batch in batches:
        try:
            message = batch_message(
                batch.scope,
                batch.lines,
                [_memory_id(line, salt) for line in batch.lines],
                request_id=batch.request_id,
                truncate=truncate,
                usable=usable,
            )
            response = await transport.call(
                WRITE_MEMORIES, message, deadline_seconds=options.write_deadline_seconds
            )
        except PrecallError as error:
            raise CommandFailed(_explained(error.message, batch, done)) from error
        cut += sum(written.usage.truncated for written in response.written)
        done += len(batch.lines)
        replayed += len(batch.lines) if response.replayed else 0
        advance(len(batch.lines))
    return Ingested(done, replayed, cut, usable.of_other_models)


def cut_into_batches(lines: "Sequence[MemoryLine]", *, salt: str = "") -> "list[Batch]":
    """Batches of one scope each, their lines in the file's order.

    Lines of one scope are drawn together, unless some line was derived from others: then the file's order
    is kept as it is, for what it names must be there first.
    """
    derived = any(line.fields.source.memory_ids for line in lines)
    groups: list[list[MemoryLine]] = []
    open_groups: dict[tuple[tuple[str, str], ...], list[MemoryLine]] = {}
    for line in lines:
        place = tuple(sorted(line.scope.items()))
        group = open_groups.get(place)
        if group is None or len(group) == BATCH_LINES:
            if derived:
                open_groups.clear()
            group = open_groups[place] = []
            groups.append(group)
        group.append(line)
    return [Batch(group[0].scope, group, _request_id(group, salt)) for group in groups]


def _request_id(lines: "Sequence[MemoryLine]", salt: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, "\n".join((salt, *(line.digest for line in lines)))))


def _memory_id(line: "MemoryLine", salt: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, f"{salt}\n{line.digest}"))


def _explained(message: str, batch: Batch, done: int) -> str:
    """The server's words, said of the file's line, and what stands now."""
    position = _POSITION.search(message)
    if position is not None and int(position[1]) < len(batch.lines):
        line = f"line {batch.lines[int(position[1])].number}: "
        message = message[: position.start()] + line + message[position.end() :]
    else:
        message = f"lines {batch.lines[0].number} to {batch.lines[-1].number}: {message}"
    stored = f" ({_stored(done)}; running it again writes nothing twice)" if done else ""
    return f"{message}{stored}"


def _stored(count: int) -> str:
    return "1 memory is stored" if count == 1 else f"{count} memories are stored"
