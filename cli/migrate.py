"""`precall migrate`: a tenant from one model to another, in steps of which each can be looked at first."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Final

import typer

from precall.cli.connection import DEFAULT_TARGET, AdminKey, DataDir, Target, require_admin_key
from precall.cli.failure import CommandFailed
from precall.cli.tenants import DEFAULT_DATA_DIR, TenantId, administer

if TYPE_CHECKING:
    from precall.client.admin import Admin
    from precall.client.migration import Migration

migrate = typer.Typer(
    name="migrate",
    help="Change a tenant's model while it is searched and written to. Needs an admin key, and a server that "
    "was started with --next-model.",
    no_args_is_help=True,
)

_WATCH_SECONDS: Final = 0.5

_NEXT_STEPS: Final = {
    "ready": "next: `precall migrate switch TENANT`, or `precall migrate roll-back TENANT`",
    "switched": "next: `precall migrate finish TENANT`, or `precall migrate roll-back TENANT`",
    "finished": "done: a server started with `--model` of the new one alone serves it",
}


@migrate.command("start")
def start(
    tenant: TenantId,
    model: Annotated[
        str, typer.Option(help="Name or fingerprint of the new model (default: the server's other one).")
    ] = "",
    target: Target = DEFAULT_TARGET,
    api_key: AdminKey = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Begin to embed the tenant's memories with the other model. The present one goes on serving."""
    key = require_admin_key(api_key, data_dir)
    _print(administer(target, key, lambda admin: admin.start_migration(tenant, model=model)))


@migrate.command("status")
def status(
    tenant: TenantId,
    watch: Annotated[bool, typer.Option("--watch", help="Follow the work until it is done.")] = False,
    target: Target = DEFAULT_TARGET,
    api_key: AdminKey = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Tell how far it is and, once every memory has both vectors, how alike both models' answers are."""
    key = require_admin_key(api_key, data_dir)
    migration = administer(
        target, key, lambda admin: _watched(admin, tenant) if watch else admin.get_migration(tenant)
    )
    _print(migration)
    if migration.error and not migration.working:
        raise CommandFailed(f"the work on tenant {tenant} stopped: {migration.error}")


@migrate.command("switch")
def switch(
    tenant: TenantId,
    target: Target = DEFAULT_TARGET,
    api_key: AdminKey = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Let the new model serve. The old one's vectors are kept, of new memories too: there is a way back."""
    _end(tenant, "switch", target, require_admin_key(api_key, data_dir))


@migrate.command("roll-back")
def roll_back(
    tenant: TenantId,
    target: Target = DEFAULT_TARGET,
    api_key: AdminKey = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Let the old model serve, at once, and remove the new one's vectors. No memory is lost."""
    _end(tenant, "roll_back", target, require_admin_key(api_key, data_dir))


@migrate.command("finish")
def finish(
    tenant: TenantId,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    target: Target = DEFAULT_TARGET,
    api_key: AdminKey = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Remove the old model's vectors. There is no way back but another migration."""
    if not yes:
        typer.confirm(f"Remove the old model's vectors of tenant {tenant!r}?", abort=True)
    _end(tenant, "finish", target, require_admin_key(api_key, data_dir))


def _end(tenant: str, end: str, target: str, key: str) -> None:
    _print(administer(target, key, lambda admin: admin.end_migration(tenant, end)))


async def _watched(admin: "Admin", tenant: str) -> "Migration":
    """The migration once the server works on it no more, with a bar meanwhile."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, transient=True) as progress:
        bar = progress.add_task("")
        while (migration := await admin.get_migration(tenant)).working:
            pausing = f" (pausing: {migration.error})" if migration.error else ""
            description = f"{migration.state}{pausing}".replace("[", r"\[")  # brackets are rich's markup
            progress.update(bar, description=description, completed=migration.done, total=migration.total)
            await asyncio.sleep(_WATCH_SECONDS)
    return migration


def _print(migration: "Migration") -> None:
    facts: list[tuple[str, object]] = [
        ("tenant", migration.tenant_id),
        ("state", migration.state.replace("_", " ")),
        ("from", migration.from_fingerprint),
        ("to", migration.to_fingerprint),
        ("serving", migration.serving_fingerprint),
        ("done", f"{migration.done} of {migration.total}"),
    ]
    if migration.overlap_at_10 is not None:
        overlap = f"{migration.overlap_at_10:.2f} of the top ten, over {migration.compared_queries} queries"
        facts.append(("alike", overlap))
    if migration.error:
        facts.append(("error", migration.error))
    for name, value in facts:
        typer.echo(f"{name:<8} {value}")
    step = None if migration.working else _NEXT_STEPS.get(migration.state)
    if step is not None and not migration.error:
        typer.echo(step.replace("TENANT", migration.tenant_id))
