"""A tenant out into JSON lines and in again: nothing lost, nothing doubled, nothing half-written."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
from fakes.encoder import FAKE_CARD
from google.protobuf.timestamp_pb2 import Timestamp
from harness import ACME, DANA, Caller, remember, scope
from shell import Outcome, Shell, run_here

from precall.proto import common_pb2

EARLY, LATE = Timestamp(seconds=1_000, nanos=123_456_000), Timestamp(seconds=2_000)


async def filled(shell: Shell) -> Caller:
    """A tenant with a history, a derived memory, a late statement and every field in use."""
    caller = await shell.stage.tenant("acme")
    await remember(caller, DANA, "lives in Goa", key="home", event_time=LATE)
    await remember(caller, DANA, "lived in Pune", key="home", event_time=EARLY)
    (origin,) = await remember(
        caller,
        ACME,
        "Acme flies “economy”\u2028always",
        kind=common_pb2.MEMORY_KIND_DOCUMENT,
        confidence=0.3,
        importance=0.0,
        pinned=True,
        said_time=EARLY,
        valid_from=EARLY,
        valid_until=Timestamp(seconds=4_000_000_000),
        expires_at=Timestamp(seconds=4_000_000_000),
        questions=["How does Acme fly?"],
        metadata={"from": "crm", "": ""},
    )
    source = common_pb2.Source(conversation_id="c", turn_id="t", uri="u", memory_ids=[origin])
    await remember(caller, DANA, "flies economy", source=source)
    await remember(caller, DANA, "expired", expires_at=EARLY)
    return caller


async def everything(caller: Caller) -> list[dict[str, Any]]:
    """Each memory of both rungs, less what the server makes anew for each arrival."""
    memories = []
    for levels in (ACME, DANA):
        page = await caller("MemoryService/ListMemories", scope=scope(levels), include_history=True)
        for memory in page.memories:
            for field in ("created_version", "superseded_version", "created_at", "usage"):
                memory.ClearField(field)
            memories.append(memory)
    return memories


async def embedded_tokens(caller: Caller) -> list[int]:
    """Of each memory; 0 where its vector came with it."""
    pages = [
        await caller("MemoryService/ListMemories", scope=scope(levels), include_history=True)
        for levels in (ACME, DANA)
    ]
    return [memory.usage.used for page in pages for memory in page.memories]


def export(shell: Shell, *arguments: str) -> Outcome:
    return run_here("export", *arguments, "--data-dir", str(shell.stage.settings.data_dir))


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line]


async def test_what_has_expired_stays_behind_with_all_that_hangs_on_it(shell: Shell, tmp_path: Path):
    """As the sweep will destroy it: no old statement comes back to life, no line lacks its origin."""
    caller = await shell.stage.tenant("acme")
    await remember(caller, DANA, "lives in Pune", key="home", event_time=EARLY)
    await remember(caller, DANA, "lives in Goa", key="home", event_time=LATE, expires_at=LATE)
    (origin,) = await remember(caller, ACME, "a rumour", expires_at=LATE)
    await remember(caller, DANA, "what follows", source=common_pb2.Source(memory_ids=[origin]))
    await remember(caller, DANA, "stays")
    file = tmp_path / "acme.jsonl"
    assert export(shell, "acme", "--to", str(file)).status == 0
    assert [line["text"] for line in lines_of(file)] == ["stays"]


async def test_what_was_exported_is_ingested_as_it_was(shell: Shell, tmp_path: Path):
    caller = await filled(shell)
    file = tmp_path / "acme.jsonl"
    exported = export(shell, "acme", "--to", str(file))
    assert "exported 4 memories at version 5" in exported.output, exported.line
    assert file.stat().st_mode & 0o077 == 0
    other = await shell.stage.tenant("globex")
    ingested = await shell.run("ingest", str(file), key=other.token)
    assert "4 memories are stored" in ingested.output, ingested.line
    assert all(tokens > 0 for tokens in await embedded_tokens(other))
    assert await everything(other) == await everything(caller)
    again = await shell.run("ingest", str(file), key=other.token)
    assert (again.status, len(await everything(other))) == (0, 4)


async def test_vectors_travel_where_the_model_is_the_same(shell: Shell, tmp_path: Path):
    caller = await filled(shell)
    file = tmp_path / "acme.jsonl"
    assert export(shell, "acme", "--vectors", "--to", str(file)).status == 0
    other = await shell.stage.tenant("globex")
    ingested = await shell.run("ingest", str(file), key=other.token)
    assert ingested.output.strip().endswith("4 memories are stored"), ingested.line
    assert await embedded_tokens(other) == [0, 0, 0, 0], "nothing was embedded"
    request = {"scope": scope(DANA), "query": "where does Dana live", "ranked_at": LATE}
    first, second = [await each("RetrievalService/Search", **request) for each in (caller, other)]
    dense = [[(r.memory.id, r.score.dense) for r in found.results] for found in (first, second)]
    assert dense[0] == dense[1] and len(dense[0]) == 3


async def test_vectors_of_another_model_are_made_anew(shell: Shell, tmp_path: Path):
    await filled(shell)
    file, other = tmp_path / "acme.jsonl", await shell.stage.tenant("globex")
    export(shell, "acme", "--vectors", "--to", str(file))
    lines = lines_of(file)
    lines[0]["vector"] = {"float16": base64.b64encode(b"\x00\x3c" * 7).decode(), "model_fingerprint": "other"}
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    ingested = await shell.run("ingest", str(file), key=other.token)
    assert "4 memories are stored, 1 of them embedded anew" in ingested.output, ingested.line
    assert sum(tokens > 0 for tokens in await embedded_tokens(other)) == 1


async def test_a_bad_line_is_named_and_nothing_is_written(shell: Shell, tmp_path: Path):
    await filled(shell)
    file, other = tmp_path / "acme.jsonl", await shell.stage.tenant("globex")
    export(shell, "acme", "--vectors", "--to", str(file))
    sound = lines_of(file)
    nan = base64.b64encode(np.full(32, np.nan, np.float16).tobytes()).decode()
    for fault, words in (
        ({"float16": "no base64!", "model_fingerprint": "f"}, "base64"),
        ({"float16": "", "model_fingerprint": "f"}, "0 bytes"),
        ({"float16": nan, "model_fingerprint": FAKE_CARD.fingerprint}, "NaN"),
        ({"float16": "AA8=", "model_fingerprint": FAKE_CARD.fingerprint}, "1 elements"),
        ({"float16": "AA8="}, "model_fingerprint"),
    ):
        lines = [*sound[:2], sound[2] | {"vector": fault}, sound[3]]
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        refused = await shell.run("ingest", str(file), key=other.token)
        assert refused.status == 1
        assert "line 3" in refused.line and words in refused.line, refused.line
        assert await everything(other) == []


async def test_an_interrupted_import_goes_on_where_it_was(shell: Shell, tmp_path: Path):
    caller = await shell.stage.tenant("acme")
    await remember(caller, DANA, *(f"note {n}" for n in range(130)))
    file, other = tmp_path / "acme.jsonl", await shell.stage.tenant("globex")
    export(shell, "acme", "--vectors", "--to", str(file))
    lines = lines_of(file)
    taken = lines[120]["id"]
    await remember(other, ACME, "in the way", id=taken)
    stopped = await shell.run("ingest", str(file), key=other.token)
    assert "line 121" in stopped.line and "100 memories are stored" in stopped.line
    await other("MemoryService/DeleteMemories", scope=scope(ACME), ids=[taken])
    assert (await shell.run("ingest", str(file), key=other.token)).status == 0
    listed = await other(
        "MemoryService/ListMemories", scope=scope(DANA), page_size=1000, include_history=True
    )
    assert [memory.id for memory in listed.memories] == [line["id"] for line in lines]


async def test_a_backup_is_exported_like_the_tenant(shell: Shell, tmp_path: Path):
    await filled(shell)
    made = await shell.run("backup", "acme", "--to", str(tmp_path))
    path = Path(made.output.split()[-1])
    content = await asyncio.to_thread(path.read_bytes)
    exported, direct = run_here("export", "--from", str(path)), export(shell, "acme")
    assert exported.output == direct.output
    assert len(exported.output.strip().split("\n")) == 5
    assert await asyncio.to_thread(path.read_bytes) == content, "a backup is read and not changed"


def test_what_cannot_be_exported_is_told_in_a_line(tmp_path: Path):
    folder = ("--data-dir", str(tmp_path))
    assert "no tenant 'acme'" in run_here("export", "acme", *folder).line
    assert "no tenant id" in run_here("export", "../acme", *folder).line
    assert "no file" in run_here("export", "--from", str(tmp_path / "nowhere")).line
    for arguments in ((), ("acme", "--from", "x")):
        assert run_here("export", *arguments, *folder).status == 2
    (tmp_path / "text").write_text("not a database " * 100)
    damaged = run_here("export", "--from", str(tmp_path / "text"), "--to", str(tmp_path / "out"))
    assert "damaged" in damaged.line
    assert not (tmp_path / "out").exists()
