"""`precall migrate`: a tenant from one model to another by commands alone."""

import asyncio
from collections.abc import AsyncIterator
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
    assert "alike    " in ready and "over 2 queries" in ready
    assert f"serving  {OLD}" in ready and "next: `precall migrate switch acme`" in ready

    switched = (await shell.run("migrate", "switch", "acme")).output
    assert "state    switched" in switched and f"serving  {NEW}" in switched
    assert NEW in (await shell.run("tenants", "list")).output
    assert f"model     {NEW}" in (await shell.run("tenants", "show", "acme")).output

    assert "state    rolled back" in (await shell.run("migrate", "roll-back", "acme")).output
    assert OLD in (await shell.run("tenants", "list")).output

    assert (await shell.run("migrate", "start", "acme", "--model", NEW)).status == 0
    await shell.run("migrate", "status", "acme", "--watch")
    assert (await shell.run("migrate", "switch", "acme")).status == 0
    assert (await shell.run("migrate", "finish", "acme")).status != 0  # nobody said yes
    assert "state    switched" in (await shell.run("migrate", "status", "acme")).output
    assert (await shell.run("migrate", "finish", "acme", "--yes")).status == 0
    done = (await shell.run("migrate", "status", "acme", "--watch")).output
    assert "state    finished" in done and f"serving  {NEW}" in done and "next" not in done


async def test_a_wrong_step_is_one_line_that_says_what_to_do(shell: Shell):
    await shell.stage.tenant("acme")
    assert "never changed" in (await shell.run("migrate", "status", "acme")).line
    assert "start one first" in (await shell.run("migrate", "switch", "acme")).line
    assert "no model 'x' is loaded" in (await shell.run("migrate", "start", "acme", "--model", "x")).line
    assert "no tenant" in (await shell.run("migrate", "start", "nobody")).line


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
        assert "next" not in told.output
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
    assert told.status == 0 and "state    backfilling" in told.output and "next" not in told.output


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
