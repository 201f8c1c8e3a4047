"""`precall backup` and `precall restore`: a tenant into a file, and out of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

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
from precall.cli.tenants import TenantId

if TYPE_CHECKING:
    from precall.proto import admin_pb2

BACKUP_SECONDS: Final = 3600.0
"""A large tenant on a slow disk takes its time, and nobody waits for it but the operator."""


def backup(
    tenant: TenantId,
    folder: Annotated[
        Path, typer.Option("--to", metavar="FOLDER", help="A folder on the server's machine, from the root.")
    ],
    target: Target = DEFAULT_TARGET,
    api_key: AdminKey = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Back a tenant up while the server works. Prints the file's path and its SHA-256.

    It holds what stands now. What is deleted afterwards stays in it: keep backups no longer than you may.
    API keys are not in it.
    """
    key = require_admin_key(api_key, data_dir)
    made = _back_up(target, key, tenant, str(folder))
    typer.echo(f"backed up tenant {tenant} at version {made.version}: {made.size_bytes} bytes", err=True)
    typer.echo(f"{made.sha256}  {made.path}")


def restore(
    file: Annotated[Path, typer.Argument(help="A backup that `precall backup` made.")],
    tenant: Annotated[
        str | None, typer.Option(help="The tenant's id from now on (default: the one that it had).")
    ] = None,
    sha256: Annotated[
        str | None, typer.Option(help="What the file must have (default: what FILE.sha256 says).")
    ] = None,
    model_fingerprint: Annotated[
        str | None,
        typer.Option("--model", metavar="FINGERPRINT", help="Refuse a backup of any other model."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Read and check all of it, and restore nothing.")
    ] = False,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Make a tenant of a backup, in the data folder of a server that is not running.

    All of it is checked first: the checksum, every row, the model. A tenant that exists is never
    overwritten. What was deleted after the backup was made comes back with it: delete it again.
    """
    # Imported here: the store takes longer to load than --help may take.
    from precall.engine.memory.backup import check_backup
    from precall.engine.memory.registry import TENANTS_FOLDER, TenantRegistry
    from precall.engine.memory.snapshot import Snapshot

    if check:
        settings = check_backup(file, sha256=sha256, fingerprint=model_fingerprint)
        typer.echo(f"{file} is sound: tenant {settings.tenant_id} of model {settings.model_fingerprint}")
        return
    with Snapshot(file) as snapshot:
        name = tenant or snapshot.settings.tenant_id
    with TenantRegistry(data_dir / TENANTS_FOLDER) as registry:
        registry.restore(file, name, sha256=sha256, fingerprint=model_fingerprint)
    key_command = next_command(f"tenants keys create {name}", data_dir=data_dir)
    typer.echo(f"restored tenant {name}; once a server serves it, {key_command} makes a key for it")


def _back_up(target: str, key: str, tenant: str, folder: str) -> "admin_pb2.BackUpTenantResponse":
    from precall.client.methods import Method
    from precall.proto import admin_pb2

    method = Method(
        "AdminService/BackUpTenant", admin_pb2.BackUpTenantRequest, admin_pb2.BackUpTenantResponse
    )
    request = admin_pb2.BackUpTenantRequest(tenant_id=tenant, destination=folder)
    return call_server(
        target,
        key,
        lambda transport, _: transport.call(method, request, deadline_seconds=BACKUP_SECONDS, retry=False),
        key_sources=ADMIN_KEY_SOURCES,
    )
