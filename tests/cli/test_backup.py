"""`precall backup` and `precall restore`."""

from pathlib import Path

from fakes.encoder import FAKE_CARD
from harness import DANA, remember, running_stage, search
from shell import Shell, run_here


async def back_up(shell: Shell, folder: Path) -> Path:
    """A tenant with two notes, backed up; the backup's path as the command prints it."""
    caller = await shell.stage.tenant("acme")
    await remember(caller, DANA, "one note", "another note")
    made = await shell.run("backup", "acme", "--to", str(folder))
    assert made.status == 0, made.line
    checksum, path = made.output.splitlines()[-1].split()
    assert len(checksum) == 64
    return Path(path)


async def test_a_tenant_goes_to_another_data_folder_and_is_served_there(shell: Shell, tmp_path: Path):
    path = await back_up(shell, tmp_path)
    checked = run_here("restore", str(path), "--check")
    assert "is sound: tenant acme" in checked.output, checked.line
    elsewhere = ("--data-dir", str(tmp_path / "elsewhere"))
    restored = run_here(
        "restore", str(path), "--tenant", "globex", "--model", FAKE_CARD.fingerprint, *elsewhere
    )
    assert "restored tenant globex" in restored.output, restored.line
    assert f"`precall tenants keys create globex {' '.join(elsewhere)}`" in restored.output
    again = run_here("restore", str(path), "--tenant", "globex", *elsewhere)
    assert (again.status, "exists" in again.line) == (1, True)
    assert "restored tenant acme" in run_here("restore", str(path), *elsewhere).output
    async with running_stage(tmp_path / "elsewhere") as stage:
        found = await search(await stage.key("globex"), DANA, "note")
        assert sorted(found) == ["another note", "one note"]


async def test_what_cannot_be_restored_is_told_in_a_line(shell: Shell, tmp_path: Path):
    path = await back_up(shell, tmp_path)
    elsewhere = ("--data-dir", str(tmp_path / "elsewhere"))
    assert "not by other" in run_here("restore", str(path), "--model", "other", *elsewhere).line
    running = run_here(
        "restore", str(path), "--tenant", "new", "--data-dir", str(shell.stage.settings.data_dir)
    )
    assert "belongs to another precall server" in running.line
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    for arguments in (("--check",), elsewhere):
        assert (
            f"{path} is not what was backed up: its SHA-256"
            in run_here("restore", str(path), *arguments).line
        )
    path.with_name(path.name + ".sha256").unlink()
    for arguments in (("--check",), elsewhere):
        line = run_here("restore", str(path), *arguments).line
        assert str(path) in line and "--sha256" in line
    assert "no file" in run_here("restore", str(tmp_path / "nowhere"), "--sha256", "0", *elsewhere).line
    assert not list((tmp_path / "elsewhere").glob("tenants/*.db*"))


async def test_a_backup_that_cannot_be_made_is_told_in_a_line(shell: Shell, tmp_path: Path):
    await shell.stage.tenant("acme")
    assert "no folder" in (await shell.run("backup", "acme", "--to", "relative")).line
    assert "no tenant" in (await shell.run("backup", "nobody", "--to", str(tmp_path))).line
