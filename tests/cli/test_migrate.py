"""`precall migrate`: a tenant from one model to another by commands alone."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.encoder import FakeEncoder
from harness import DANA, remember
from migrating import NEW, NEXT_CARD, OLD, two_models
from shell import Shell

from precall.client import Client, ClientOptions, InvalidInput, LocalEncoding, MigrationRefused, NotFound
from precall.engine.encoding.encoder import TextRole, TokenizedText
from precall.engine.errors import InvalidInput as InvalidText


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    async with two_models(tmp_path / "data") as stage:
        yield Shell(stage)


async def test_the_way_there_and_back_and_there_for_good(shell: Shell):
    await remember(await shell.stage.tenant("acme"), DANA, "Dana likes boats", "Dana likes trains")
    started = await shell.run("migrate", "start", "acme")
    assert started.status == 0, started.line
    assert f"from     {OLD}" in started.output and f"to       {NEW}" in started.output

    ready = (await shell.run("migrate", "status", "acme", "--watch")).output
    assert "state    ready" in ready and "done     2 of 2" in ready
    assert "alike    too few memories to compare" in ready and "cut" not in ready
    assert f"from     {OLD} (fake-hash)" in ready and f"to       {NEW} (fake-next)" in ready
    assert f"serving  {OLD} (fake-hash)" in ready
    assert "next: `precall migrate switch acme`, or `precall migrate roll-back acme`" in ready

    switched = (await shell.run("migrate", "switch", "acme")).output
    assert "state    switched" in switched and f"serving  {NEW}" in switched
    assert NEW in (await shell.run("tenants", "list")).output
    assert f"model     {NEW}" in (await shell.run("tenants", "show", "acme")).output

    await shell.run("migrate", "roll-back", "acme")
    back = (await shell.run("migrate", "status", "acme", "--watch")).output
    assert "state    rolled back" in back and "left     0 vectors of the new model to be removed" in back
    assert OLD in (await shell.run("tenants", "list")).output

    assert (await shell.run("migrate", "start", "acme", "--model", NEW)).status == 0
    await shell.run("migrate", "status", "acme", "--watch")
    assert (await shell.run("migrate", "switch", "acme")).status == 0
    asked = await shell.run("migrate", "finish", "acme")
    assert asked.status != 0 and f"by {OLD} (fake-hash)?" in asked.output  # nobody said yes
    assert "state    switched" in (await shell.run("migrate", "status", "acme")).output
    assert (await shell.run("migrate", "finish", "acme", "--yes")).status == 0
    done = (await shell.run("migrate", "status", "acme", "--watch")).output
    assert "state    finished" in done and f"serving  {NEW}" in done and "next:" not in done
    assert "`--model fake-next` alone" in done


async def test_a_wrong_step_is_one_line_that_says_what_to_do(shell: Shell):
    await shell.stage.tenant("acme")
    assert "never changed" in (await shell.run("migrate", "status", "acme")).line
    assert "start one first" in (await shell.run("migrate", "switch", "acme")).line
    assert (
        "'acme' cannot roll back: it has no migration"
        in (await shell.run("migrate", "roll-back", "acme")).line
    )
    assert "no model 'x' is loaded" in (await shell.run("migrate", "start", "acme", "--model", "x")).line
    assert "no tenant" in (await shell.run("migrate", "start", "nobody")).line


@pytest.mark.parametrize("yes", [(), ("--yes",)])
async def test_nobody_is_asked_about_a_finish_that_cannot_be(shell: Shell, yes: tuple[str, ...]):
    await shell.stage.tenant("acme")
    told = await shell.run("migrate", "finish", "acme", *yes)
    assert "has no migration" in told.line and "?" not in told.output
    await shell.run("migrate", "start", "acme")
    await shell.run("migrate", "status", "acme", "--watch")
    told = await shell.run("migrate", "finish", "acme", *yes)
    assert told.status == 1 and "switch" in told.line and "?" not in told.output


async def test_enough_memories_are_compared(shell: Shell):
    await remember(await shell.stage.tenant("acme"), DANA, *(f"Dana likes boat {n}" for n in range(51)))
    await shell.run("migrate", "start", "acme")
    ready = (await shell.run("migrate", "status", "acme", "--watch")).output
    assert "of the ten nearest, over 51 queries" in ready


@pytest.mark.parametrize("words", [1, 2])
async def test_memories_that_the_new_model_reads_in_part_are_told_of(tmp_path: Path, words: int):
    short = replace(NEXT_CARD, max_tokens=3)
    async with two_models(tmp_path / "data", next_encoder=FakeEncoder(short)) as stage:
        shell = Shell(stage)
        texts = [f"Dana likes boats {n}" for n in range(words)]
        await remember(await stage.tenant("acme"), DANA, *texts, "Dana swims")
        await shell.run("migrate", "start", "acme")
        ready = (await shell.run("migrate", "status", "acme", "--watch")).output
        counted = "1 memory is" if words == 1 else "2 memories are"
        assert f"cut      {counted} cut to the new model's 3 tokens" in ready


async def test_a_next_command_has_the_options_that_were_given(shell: Shell, tmp_path: Path):
    await shell.stage.tenant("acme")
    await shell.run("migrate", "start", "acme")
    await shell.run("migrate", "status", "acme", "--watch")
    folder = tmp_path / "of the server"
    folder.symlink_to(shell.stage.settings.data_dir)
    target = shell.stage.endpoints.target
    told = await shell.run("migrate", "status", "acme", "--data-dir", str(folder), "--target", target)
    assert f"`precall migrate switch acme --data-dir '{folder}'`" in told.output


class PickyEncoder(FakeEncoder):
    """Takes no text that has one of the words."""

    def __init__(self, *words: str) -> None:
        super().__init__(NEXT_CARD)
        self.words = set(words)

    def tokenize(
        self, text: str, role: TextRole, *, truncate: bool, instruction: str | None = None
    ) -> TokenizedText:
        if self.words & set(text.split()):
            raise InvalidText("the text cannot be read")
        return super().tokenize(text, role, truncate=truncate, instruction=instruction)


async def test_work_that_stopped_is_an_error_of_the_command(tmp_path: Path):
    encoder = PickyEncoder("boats")
    async with two_models(tmp_path / "data", next_encoder=encoder) as stage:
        shell = Shell(stage)
        await remember(await stage.tenant("acme"), DANA, "Dana likes boats", "Dana likes trains")
        assert (await shell.run("migrate", "start", "acme")).status == 0
        told = await shell.run("migrate", "status", "acme", "--watch")
        assert told.status == 1 and "stopped" in told.line and "cannot be read" in told.line
        assert "state    backfilling" in told.output and "done     1 of 2" in told.output
        assert "next:" not in told.output
        encoder.words.clear()
        assert (await shell.run("migrate", "start", "acme")).status == 0
        assert "state    ready" in (await shell.run("migrate", "status", "acme", "--watch")).output


async def test_work_that_pauses_says_why_and_is_no_error(shell: Shell):
    await remember(await shell.stage.tenant("acme"), DANA, "Dana likes boats")
    encoder = shell.stage.next_encoder
    assert encoder is not None
    encoder.broken = True
    assert (await shell.run("migrate", "start", "acme")).status == 0
    async with asyncio.timeout(20):
        while (
            "error    MODEL_UNAVAILABLE" not in (told := await shell.run("migrate", "status", "acme")).output
        ):
            pass
    assert told.status == 0 and "state    backfilling" in told.output and "next:" not in told.output


async def test_the_same_from_python_without_await(shell: Shell):
    await remember(await shell.stage.tenant("acme"), DANA, "Dana likes boats")

    def administer() -> None:
        options = ClientOptions(local_encoding=LocalEncoding.OFF)
        key = shell.stage.admin.token
        assert key is not None
        with Client(shell.stage.endpoints.target, api_key=key, options=options) as client:
            admin = client.admin
            with pytest.raises(NotFound):
                admin.get_migration("acme")
            begun = admin.start_migration("acme", model=NEW)
            assert (begun.tenant_id, begun.serving_fingerprint, begun.to_fingerprint) == ("acme", OLD, NEW)
            with pytest.raises(InvalidInput, match="roll_back"):
                admin.end_migration("acme", "roll back")
            with pytest.raises(MigrationRefused, match="cannot finish"):
                admin.end_migration("acme", "finish")
            back = admin.end_migration("acme", "roll_back")
            assert (back.state, back.serving_fingerprint) == ("rolled_back", OLD)

    await asyncio.to_thread(administer)
