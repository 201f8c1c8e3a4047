"""The commands against a running server."""

import asyncio
import json

import pytest
from harness import ACME, DANA, remember, search
from shell import Shell, run_here

SCOPE = ("--scope", "customer=acme", "--scope", "user=dana")


def lines(*memories: dict[str, object]) -> str:
    return "".join(json.dumps(memory) + "\n" for memory in memories)


async def test_a_tenants_life(shell: Shell):
    assert "customer > user" in (await shell.run("tenants", "create", "acme")).output
    assert "user" in (await shell.run("tenants", "create", "solo", "--level", "user")).output
    listed = (await shell.run("tenants", "list")).output
    assert "acme" in listed
    assert "solo" in listed
    assert "memories  0" in (await shell.run("tenants", "show", "acme")).output

    created = await shell.run(
        "tenants", "keys", "create", "acme", "--role", "read", "--label", "kiosk", "--pin", "customer=acme"
    )
    token = next(line for line in created.output.splitlines() if line.startswith("pck_"))
    keys = (await shell.run("tenants", "keys", "list", "acme")).output
    assert "kiosk" in keys
    assert "customer=acme" in keys
    assert token not in keys
    key_id = token.split("_")[1]
    assert (await shell.run("search", "x", *SCOPE, key=token)).status == 0
    assert "revoked" in (await shell.run("tenants", "keys", "revoke", key_id)).output
    refused = (await shell.run("search", "x", *SCOPE, key=token)).line
    assert "takes no such API key" in refused and "PRECALL_API_KEY" in refused

    assert (await shell.run("tenants", "delete", "acme")).status != 0  # nobody said yes
    assert "destroyed" in (await shell.run("tenants", "delete", "acme", "--yes")).output
    assert "no tenant" in (await shell.run("tenants", "show", "acme")).line


async def test_ingest_writes_everything_once_however_often_it_runs(shell: Shell, tmp_path):
    caller = await shell.stage.tenant("acme")
    file = tmp_path / "memories.jsonl"
    file.write_text(
        lines(
            {"text": "Dana likes boats", "kind": "preference", "importance": 0, "questions": ["Boats?"]},
            {"text": "Acme flies economy", "scope": ACME},
            {"text": "lives in Goa", "key": "home", "event_time": "2026-02-01T00:00:00+05:30"},
            {"text": "lived in Pune", "key": "home", "event_time": "2025-02-01T00:00:00Z"},
            {"text": "Dana likes boats", "kind": "preference", "importance": 0, "questions": ["Boats?"]},
        )
        + "\n\n"
    )
    first = await shell.run("ingest", str(file), *SCOPE, key=caller.token)
    assert first.status == 0, first.line
    assert "5 memories are stored" in first.output
    for _ in range(2):
        again = await shell.run("ingest", str(file), *SCOPE, key=caller.token)
        assert again.status == 0, again.line
        assert "5 memories are stored, all by an earlier try: nothing was written now" in again.output
        found = await search(caller, DANA, "Dana likes boats lives economy", limit=100)
        assert sorted(found) == ["Acme flies economy", "Dana likes boats", "Dana likes boats", "lives in Goa"]

    stored = await caller("MemoryService/ListMemories", scope={"levels": DANA}, include_history=True)
    boats = next(memory for memory in stored.memories if memory.text == "Dana likes boats")
    assert (boats.importance, list(boats.questions)) == (0.0, ["Boats?"])
    assert len(stored.memories) == 4

    assert (await shell.run("ingest", str(file), *SCOPE, "--again", key=caller.token)).status == 0
    assert len(await search(caller, DANA, "Dana likes boats economy", limit=100)) == 7


async def test_ingest_goes_on_after_a_line_was_mended(shell: Shell, tmp_path):
    caller = await shell.stage.tenant("acme")
    file = tmp_path / "memories.jsonl"
    good = [{"text": f"note {n}"} for n in range(149)]
    file.write_text(lines(*good, {"text": "word " * 65}, {"text": "last"}))
    failed = await shell.run("ingest", str(file), *SCOPE, key=caller.token)
    assert failed.status == 1
    assert "line 150: " in failed.line
    assert "100 memories are stored" in failed.line
    mended = await shell.run("ingest", str(file), *SCOPE, "--truncate", key=caller.token)
    assert "151 memories are stored, 100 of them by an earlier try, 1 of them indexed" in mended.output
    listed = await caller("MemoryService/ListMemories", scope={"levels": DANA}, page_size=1000)
    assert len(listed.memories) == 151


async def test_nothing_is_written_from_a_file_with_a_bad_line(shell: Shell, tmp_path):
    caller = await shell.stage.tenant("acme")
    file = tmp_path / "memories.jsonl"
    file.write_text(
        lines({"text": "fine"}, {"text": " "}, {"txt": "typo"}, {"text": "x", "importance": 2})
        + "{not json\n"
        + lines(
            {"text": "x", "event_time": "2026-01-01T00:00:00"}, {"text": "x", "kind": "gossip"}, {"text": 7}
        )
    )
    failed = await shell.run("ingest", str(file), *SCOPE, key=caller.token)
    assert failed.status == 1
    assert "\n" not in failed.line
    for words in ("line 2: text: is empty", "line 3: text", "line 4: importance", "line 5: ",
                  "line 6: event_time", "line 7: kind", "line 8: text"):  # fmt: skip
        assert words in failed.line
    assert "line 1" not in failed.line
    listed = await caller("MemoryService/ListMemories", scope={"levels": DANA})
    assert not listed.memories


SCOPED = {"scope": {"customer": "acme", "user": "dana"}}
IDS = [f"5f0c1d52-6f0f-4f7e-9d5e-00000000000{n}" for n in range(4)]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"text": "\u200b\ufe0f\u202e"}, "text: holds only invisible characters"),
        ({"text": "x" * 100_001}, "100001 characters"),
        ({"text": "x", "id": "m-1"}, "id must be a UUID"),
        ({"text": "x", "id": IDS[0].upper()}, "its id is that of line 1"),
        ({"text": "x", "id": IDS[2]}, "origin (source.memory_ids) of line 2"),
        ({"text": "x", "id": IDS[3], "source": {"memory_ids": [IDS[3]]}}, "must stand before"),
        ({"text": "x", "source": {"memory_ids": ["m-1"]}}, "source.memory_ids[0] must be a UUID"),
        ({"text": "x", "source": {"uri": "x" * 100_000}}, "source.uri"),
        ({"text": "x", "uri": "u"}, 'uri: put it into "source", as in "source": {"uri": ...}'),
        ({"text": "x", "turn_id": "1"}, 'turn_id: put it into "source"'),
        ({"text": "x", "conversation_id": IDS[0]}, 'conversation_id: put it into "source"'),
        ({"text": "x", "importence": 1}, "importence: there is no such field; the fields are text, scope"),
        ({"text": "x", "source": {"text": "u"}}, "source.text: "),
        ({"text": "x", "key": "x" * 513}, "key has 513 characters"),
        ({"text": "x", "questions": ["?"] * 33}, "33 questions"),
        ({"text": "x", "metadata": {"a": "x" * 4096}}, "metadata is over 4096"),
        ({"text": "x", "metadata": dict.fromkeys(map(str, range(65)), "")}, "65 metadata entries"),
        (
            {"text": "x", "valid_from": "2026-01-01T00:00:00Z", "valid_until": "2026-01-01T00:00:00Z"},
            "valid_until must be after",
        ),
        ({"text": "x", "event_time": "0001-01-01T00:00:00+23:59"}, "event_time lies outside"),
        ({"text": "x", "expires_at": "9999-12-31T23:59:59-23:59"}, "expires_at lies outside"),
        ({"text": "x", "scope": {"user": "dana"}}, "its scope names user, that of line 3 customer:"),
        ({"text": "x", "scope": {"customer": "acme", "team": "a"}}, "no ladder has both"),
        ({"text": "x", "scope": {"customer": " acme"}}, "white space"),
        ({"text": "x", "scope": {"Customer": "acme"}}, "no level name"),
        ({"text": "x", "scope": {"customer": ""}}, "non-empty"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_can_be_seen_in_the_file_is_found_before_anything_is_sent(tmp_path, bad, words):
    """No server runs here: to check the whole file comes first."""
    file = tmp_path / "memories.jsonl"
    good = [{"text": "x", "id": IDS[0]}, {"text": "x", "source": {"memory_ids": [IDS[0], IDS[2]]}}]
    file.write_text(lines(*(SCOPED | each for each in (*good, {"text": "x", "scope": ACME}, bad))))
    refused = run_here("ingest", str(file), "--target", "127.0.0.1:1", "--api-key", "k")
    assert refused.status == 1
    assert "nothing was written" in refused.line
    assert "line 4: " in refused.line
    assert words in refused.line
    assert "line 5" not in refused.line


async def test_search_shows_what_a_score_is_made_of(shell: Shell):
    caller = await shell.stage.tenant("acme")
    await remember(caller, DANA, "Dana is allergic to peanuts [not nuts]", "The kettle is broken")
    shown = (await shell.run("search", "peanuts", *SCOPE, "--limit", "1", key=caller.token)).output
    for words in ("Dana is allergic to peanuts [not nuts]", "both", "user", "1 of 2 memories", "search "):
        assert words in shown
    assert "kettle" not in shown
    plain = json.loads((await shell.run("search", "peanuts", *SCOPE, "--json", key=caller.token)).output)
    assert plain["results"][0]["memory"]["text"].startswith("Dana")
    assert {"relevance", "importance", "recency", "dense", "keyword"} <= plain["results"][0]["score"].keys()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("search", "peanuts", "--scope", "user=dana"), "level 'customer' is missing"),
        (("search", " ", *SCOPE), "empty"),
        (("search", "word " * 65, *SCOPE), "tokens"),
        (("ingest", "absent.jsonl", *SCOPE), "absent.jsonl cannot be read"),
        (("tenants", "show", "\udcff"), "tenant_id holds a lone surrogate"),
        (("tenants", "create", "acme", "--level", "\udcff"), "ladder[0] holds a lone surrogate"),
        (("tenants", "keys", "create", "acme", "--label", "\udcff"), "label holds a lone surrogate"),
    ],
)
async def test_bad_input_is_one_line(shell: Shell, arguments, words):
    caller = await shell.stage.tenant("acme")
    failed = await shell.run(*arguments, key=caller.token)
    assert failed.status == 1
    assert words in failed.line
    assert "\n" not in failed.line


async def test_admin_commands_with_a_tenants_key_are_refused(shell: Shell):
    caller = await shell.stage.tenant("acme")
    assert "admin key of the server" in (await shell.run("tenants", "list", "--api-key", caller.token)).line


async def test_a_single_memory_is_one(shell: Shell, tmp_path):
    caller = await shell.stage.tenant("acme")
    file = tmp_path / "memories.jsonl"
    file.write_text(lines({"text": "alone"}))
    first = await shell.run("ingest", str(file), *SCOPE, key=caller.token)
    assert first.output.splitlines()[-1] == "1 memory is stored"
    again = await shell.run("ingest", str(file), *SCOPE, key=caller.token)
    assert again.output.splitlines()[-1].startswith("1 memory is stored, all by an earlier try")


async def test_a_tenant_that_exists_says_what_is_next(shell: Shell):
    target = shell.stage.endpoints.target
    made = await shell.run("tenants", "create", "acme")
    assert "next: `precall tenants keys create acme`" in made.output
    again = await shell.run("tenants", "create", "acme")
    assert again.status == 1
    for words in ("'acme' exists", "`precall tenants show acme`", "`precall tenants keys create acme`"):
        assert words in again.line
    folder = str(shell.stage.settings.data_dir)
    flags = ("--target", target, "--data-dir", folder)
    given = await asyncio.to_thread(run_here, "tenants", "create", "acme", *flags)
    assert f"`precall tenants keys create acme --target {target} --data-dir {folder}`" in given.line


async def test_an_admin_key_of_another_server_is_told_from_a_tenants(shell: Shell, tmp_path):
    (tmp_path / "admin.key").write_text("pck_nobody_nothing")
    refused = await shell.run("tenants", "list", "--data-dir", str(tmp_path))
    for words in ("takes no such API key", "PRECALL_ADMIN_KEY", "admin.key"):
        assert words in refused.line
