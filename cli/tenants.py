"""`precall tenants`: make, see and destroy tenants and their keys."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from precall.cli.connection import (
    ADMIN_KEY_SOURCES,
    DEFAULT_DATA_DIR,
    DEFAULT_TARGET,
    AdminKey,
    DataDir,
    Target,
    call_server,
    next_command,
    require_admin_key,
)
from precall.cli.failure import CommandFailed
from precall.cli.scope import parse_scope

if TYPE_CHECKING:
    from precall.client.admin import Admin

ResultT = TypeVar("ResultT")

tenants = typer.Typer(
    name="tenants", help="Tenants and their API keys. Needs an admin key.", no_args_is_help=True
)
keys = typer.Typer(name="keys", help="API keys of a tenant.", no_args_is_help=True)
tenants.add_typer(keys)

TenantId = Annotated[str, typer.Argument(metavar="TENANT", help="Lower-case letters, digits, '-' and '_'.")]


@tenants.command("create")
def create(
    tenant: TenantId,
    level: Annotated[
        list[str] | None,
        typer.Option(help="A level of its ladder, from the top; repeat it (default: customer, user)."),
    ] = None,
    target: Target = DEFAULT_TARGET,
    api_key: AdminKey = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Make a tenant. Its ladder is fixed for its life."""
    key = require_admin_key(api_key, data_dir)
    key_command = next_command(f"tenants keys create {tenant}", target=target, data_dir=data_dir)
    # Imported here: gRPC takes longer to load than --help may take.
    from precall.client import AlreadyExists

    try:
        made = administer(target, key, lambda admin: admin.create_tenant(tenant, ladder=level or ()))
    except AlreadyExists as error:
        shown = next_command(f"tenants show {tenant}", target=target, data_dir=data_dir)
        raise CommandFailed(f"{error}: {shown} describes it, {key_command} makes a key for it") from error
    typer.echo(f"made tenant {made.id} with the ladder {' > '.join(made.ladder)}")
    typer.echo(f"next: {key_command} makes a key for it", err=True)


@tenants.command("list")
def list_tenants(
    target: Target = DEFAULT_TARGET, api_key: AdminKey = None, data_dir: DataDir = DEFAULT_DATA_DIR
) -> None:
    """List all tenants. What is not in use now is told by its name alone: `show` opens it."""
    from rich.console import Console
    from rich.table import Table

    key = require_admin_key(api_key, data_dir)
    found = administer(target, key, lambda admin: admin.list_tenants())
    table = Table("tenant", "health", "ladder", "memories", "version", "model")
    for each in found:
        opened = each.health == "ready"
        table.add_row(
            each.id,
            each.health,
            " > ".join(each.ladder),
            str(each.memories) if opened else "",
            str(each.version) if opened else "",
            each.model_fingerprint,
        )
    Console().print(table)


@tenants.command("show")
def show(
    tenant: TenantId,
    target: Target = DEFAULT_TARGET,
    api_key: AdminKey = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Describe one tenant."""
    key = require_admin_key(api_key, data_dir)
    found = administer(target, key, lambda admin: admin.get_tenant(tenant))
    for name, value in (
        ("tenant", found.id),
        ("health", found.health),
        ("ladder", " > ".join(found.ladder)),
        ("memories", found.memories),
        ("version", found.version),
        ("model", found.model_fingerprint),
    ):
        typer.echo(f"{name:<9} {value}")


@tenants.command("delete")
def delete(
    tenant: TenantId,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    target: Target = DEFAULT_TARGET,
    api_key: AdminKey = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Destroy a tenant with all its memories and keys. There is no way back."""
    if not yes:
        typer.confirm(f"Destroy tenant {tenant!r} with all its memories and keys?", abort=True)
    key = require_admin_key(api_key, data_dir)
    administer(target, key, lambda admin: admin.delete_tenant(tenant))
    typer.echo(f"destroyed tenant {tenant}")


@keys.command("create")
def create_key(
    tenant: TenantId,
    role: Annotated[str, typer.Option(help="read, write or admin.")] = "write",
    pin: Annotated[
        list[str] | None,
        typer.Option(metavar="LEVEL=VALUE", help="Bind the key to a scope; repeat it for each level."),
    ] = None,
    label: Annotated[str, typer.Option(help="What the key is for.")] = "",
    target: Target = DEFAULT_TARGET,
    api_key: AdminKey = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Make an API key and print it: now, and never again."""
    pinned = parse_scope(pin, "--pin") or None
    key = require_admin_key(api_key, data_dir)
    created = administer(
        target, key, lambda admin: admin.create_key(tenant, role=role, pinned_scope=pinned, label=label)
    )
    typer.echo(f"key {created.key.id} ({created.key.role}) of tenant {tenant}, shown this once:", err=True)
    typer.echo(created.secret)


@keys.command("list")
def list_keys(
    tenant: TenantId,
    target: Target = DEFAULT_TARGET,
    api_key: AdminKey = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """List a tenant's keys, never their secrets."""
    from rich.console import Console
    from rich.table import Table

    admin_key = require_admin_key(api_key, data_dir)
    found = administer(target, admin_key, lambda admin: admin.list_keys(tenant))
    table = Table("key", "role", "pinned to", "label", "made", "revoked")
    for key in found:
        table.add_row(
            key.id,
            key.role,
            ", ".join(f"{level}={value}" for level, value in key.pinned_scope.items()),
            key.label,
            f"{key.created_at:%Y-%m-%d %H:%M}",
            f"{key.revoked_at:%Y-%m-%d %H:%M}" if key.revoked_at else "",
        )
    Console().print(table)


@keys.command("revoke")
def revoke_key(
    key_id: Annotated[str, typer.Argument(metavar="KEY", help="The key's id, as `list` shows it.")],
    target: Target = DEFAULT_TARGET,
    api_key: AdminKey = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """End a key. Streams that it opened end with it."""
    key = require_admin_key(api_key, data_dir)
    revoked = administer(target, key, lambda admin: admin.revoke_key(key_id))
    typer.echo(f"revoked key {revoked.id}")


def administer(target: str, api_key: str, call: "Callable[[Admin], Awaitable[ResultT]]") -> ResultT:
    """One call as an admin. Raises the errors of the client's tree."""
    from precall.client.admin import Admin

    return call_server(
        target,
        api_key,
        lambda transport, options: call(Admin(transport, options)),
        key_sources=ADMIN_KEY_SOURCES,
    )
