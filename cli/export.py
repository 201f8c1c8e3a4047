"""`precall export`: a tenant as a file of memories, which `precall ingest` reads."""

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from precall.cli.connection import DEFAULT_DATA_DIR, DataDir
from precall.cli.failure import CommandFailed

if TYPE_CHECKING:
    from precall.engine.memory.memory import IndexedMemory, Source
    from precall.engine.memory.tenant_settings import TenantSettings

_UNFINISHED_SUFFIX = ".making"


def export(
    tenant: Annotated[
        str | None, typer.Argument(metavar="[TENANT]", help="A tenant of --data-dir.", show_default=False)
    ] = None,
    backup: Annotated[
        Path | None, typer.Option("--from", metavar="BACKUP", help="A backup to read instead.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="Where it goes (default: to the terminal).")
    ] = None,
    vectors: Annotated[
        bool,
        typer.Option("--vectors", help="With each memory's vector, so that it need not be embedded anew."),
    ] = False,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Write all memories of a tenant as JSON lines, history included, in the order in which they arrived.

    The server may be running: the lines are of one moment. `precall ingest FILE` writes them to another
    tenant or server, with the same ids, the same history and the same current statements; what is new is the
    time of arrival.
    """
    # Imported here: the store takes longer to load than --help may take.
    from precall.engine.memory.snapshot import Snapshot

    with Snapshot(_source(tenant, backup, data_dir)) as snapshot, _destination(file) as output:
        written = 0
        for indexed in snapshot.memories(standing_at=time.time_ns() // 1_000):
            line = as_line(indexed, snapshot.settings, with_vector=vectors)
            output.write(json.dumps(line, ensure_ascii=False) + "\n")
            written += 1
    typer.echo(f"exported {written} memories at version {snapshot.version}", err=True)


def as_line(indexed: "IndexedMemory", settings: "TenantSettings", *, with_vector: bool) -> dict[str, object]:
    """What `precall ingest` reads, and what the server made of it, which a reader may want to see."""
    memory = indexed.memory
    line: dict[str, object] = {
        "id": memory.id,
        "scope": settings.ladder.scope(memory.rung),
        "kind": memory.kind.value,
        "text": memory.text,
        "key": memory.key,
        "confidence": memory.confidence,
        "importance": memory.importance,
        "event_time": _text(memory.event_time),
        "said_time": _text(memory.said_time),
        "valid_from": _text(memory.valid_from),
        "valid_until": _text(memory.valid_until),
        "expires_at": _text(memory.expires_at),
        "source": _source_fields(memory.source),
        "questions": list(memory.questions),
        "metadata": dict(memory.metadata),
        "pinned": memory.pinned,
        "stored": {
            "state": memory.state.value,
            "created_version": memory.created_version,
            "created_at": _text(memory.created_at),
            "superseded_version": memory.superseded_version,
            "superseded_at": _text(memory.superseded_at),
        },
    }
    if with_vector:
        from base64 import b64encode

        line["vector"] = {
            "float16": b64encode(indexed.vector.astype("<f2").tobytes()).decode("ascii"),
            "model_fingerprint": settings.model_fingerprint,
        }
    return line


def _source(tenant: str | None, backup: Path | None, data_dir: Path) -> Path:
    if (tenant is None) == (backup is None):
        raise typer.BadParameter("name a tenant, or a backup with --from", param_hint="TENANT")
    if backup is not None:
        return backup
    from precall.engine.memory.registry import FILE_SUFFIX, TENANTS_FOLDER, check_tenant_id

    assert tenant is not None
    check_tenant_id(tenant)
    path = data_dir / TENANTS_FOLDER / f"{tenant}{FILE_SUFFIX}"
    if not path.is_file():
        raise CommandFailed(f"there is no tenant {tenant!r} in {data_dir}: name the server's --data-dir")
    return path


@contextmanager
def _destination(file: Path | None) -> Iterator[TextIO]:
    """The terminal, or a file that is there whole or not at all, for its owner's eyes alone."""
    if file is None:
        yield sys.stdout
        return
    unfinished = file.with_name(file.name + _UNFINISHED_SUFFIX)
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as output:
            yield output
            output.flush()
            os.fsync(output.fileno())
        unfinished.replace(file)
    except OSError as error:
        raise CommandFailed(f"{file} cannot be written: {error.strerror}") from error
    finally:
        unfinished.unlink(missing_ok=True)


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _source_fields(source: "Source") -> dict[str, object]:
    return {
        "conversation_id": source.conversation_id,
        "turn_id": source.turn_id,
        "uri": source.uri,
        "memory_ids": list(source.memory_ids),
    }
