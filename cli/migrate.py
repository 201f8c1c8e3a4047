"""`precall migrate`: a tenant from one model to another, in steps of which each can be looked at first."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Final

import typer

from precall.cli.connection import (
    DEFAULT_DATA_DIR,
    DEFAULT_TARGET,
    AdminKey,
    DataDir,
    Target,
    next_command,
    require_admin_key,
)
from precall.cli.failure import CommandFailed
from precall.cli.tenants import TenantId, administer

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

_NEXT_STEPS: Final = {"ready": ("switch", "roll-back"), "switched": ("finish", "roll-back")}
"""State -> the commands that lead on."""

_DONE: Final = {
    "backfilling": "memories have a vector of the new model",
    "ready": "memories have a vector of the new model",
    "switched": "memories have a vector of the new model",
    "finishing": "memories have the new model's vector alone",
    "finished": "memories have the new model's vector alone",
}


@migrate.command("start")
def start(
    context: typer.Context,
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
    _print(context, administer(target, key, lambda admin: admin.start_migration(tenant, model=model)))


@migrate.command("status")
def status(
    context: typer.Context,
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
    _print(context, migration)
    if migration.error and not migration.working:
        raise CommandFailed(f"the work on tenant {tenant} stopped: {migration.error}")


@migrate.command("switch")
def switch(
    context: typer.Context,
    tenant: TenantId,
    target: Target = DEFAULT_TARGET,
    api_key: AdminKey = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Let the new model serve. The old one's vectors are kept, of new memories too: there is a way back."""
    _end(context, tenant, "switch", target, require_admin_key(api_key, data_dir))


@migrate.command("roll-back")
def roll_back(
    context: typer.Context,
    tenant: TenantId,
    target: Target = DEFAULT_TARGET,
    api_key: AdminKey = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Let the old model serve, at once, and remove the new one's vectors. No memory is lost."""
    _end(context, tenant, "roll_back", target, require_admin_key(api_key, data_dir))


@migrate.command("finish")
def finish(
    context: typer.Context,
    tenant: TenantId,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    target: Target = DEFAULT_TARGET,
    api_key: AdminKey = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Remove the old model's vectors. There is no way back but another migration."""
    key = require_admin_key(api_key, data_dir)
    if not yes:
        # Before anybody is asked; and what changes between this and the step, the server refuses.
        migration = administer(target, key, lambda admin: admin.get_migration(tenant))
        if migration.state != "switched":
            raise CommandFailed(
                f"the migration of tenant {tenant!r} is {_in_words(migration.state)}: "
                "one that is switched can be finished"
            )
        old = _named(migration.from_fingerprint, migration.from_model)
        typer.confirm(f"Remove the vectors of tenant {tenant!r} by {old}?", abort=True)
    _end(context, tenant, "finish", target, key)


def _end(context: typer.Context, tenant: str, end: str, target: str, key: str) -> None:
    _print(context, administer(target, key, lambda admin: admin.end_migration(tenant, end)))


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


def _print(context: typer.Context, migration: "Migration") -> None:
    old = _named(migration.from_fingerprint, migration.from_model)
    new = _named(migration.to_fingerprint, migration.to_model)
    facts: list[tuple[str, object]] = [
        ("tenant", migration.tenant_id),
        ("state", _in_words(migration.state)),
        ("from", old),
        ("to", new),
        ("serving", old if migration.serving_fingerprint == migration.from_fingerprint else new),
    ]
    if migration.state == "rolled_back":
        facts.append(("left", f"{migration.done} vectors of the new model to be removed"))
    else:
        what = _DONE.get(migration.state, "memories")
        facts.append(("done", f"{migration.done} of {migration.total} {what}"))
    if migration.overlap_at_10 is not None:
        share, queries = f"{migration.overlap_at_10:.2f}", migration.compared_queries
        facts.append(("alike", f"{share} of the ten nearest, over {queries} queries"))
    elif migration.too_few_to_compare and not migration.working:
        facts.append(("alike", "too few memories to compare"))
    if migration.texts_cut:
        facts.append(("cut", _cut(migration)))
    if migration.error:
        facts.append(("error", migration.error))
    for name, value in facts:
        typer.echo(f"{name:<8} {value}")
    if migration.working or migration.error:
        return
    if migration.state == "finished":
        typer.echo(f"done: a server started with `--model {migration.to_model or 'NAME'}` alone serves it")
    elif steps := _NEXT_STEPS.get(migration.state):
        asked = context.params
        commands = [
            next_command(
                f"migrate {step} {migration.tenant_id}", target=asked["target"], data_dir=asked["data_dir"]
            )
            for step in steps
        ]
        typer.echo(f"next: {', or '.join(commands)}")


def _cut(migration: "Migration") -> str:
    memories = "1 memory is" if migration.texts_cut == 1 else f"{migration.texts_cut} memories are"
    limit = f"{migration.to_max_tokens} tokens" if migration.to_max_tokens else "limit"
    return f"{memories} cut to the new model's {limit}"


def _named(fingerprint: str, name: str) -> str:
    return f"{fingerprint} ({name})" if name else fingerprint


def _in_words(state: str) -> str:
    return state.replace("_", " ")
