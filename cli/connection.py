"""How a command finds the server and the key it calls with, and how it calls."""

import asyncio
import os
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from precall.cli.failure import CommandFailed

if TYPE_CHECKING:
    from precall.client import ClientOptions
    from precall.client.transport import Transport

ResultT = TypeVar("ResultT")

DEFAULT_TARGET = "127.0.0.1:50051"
DEFAULT_DATA_DIR = Path("precall-data")
TENANT_KEY_SOURCES = "--api-key or PRECALL_API_KEY"
ADMIN_KEY_SOURCES = "--api-key, PRECALL_ADMIN_KEY, or --data-dir (its admin.key must be this server's)"
REACH_SECONDS = 10.0
WRITE_SECONDS = 120.0
"""A batch of long texts takes a small server its time."""

Target = Annotated[
    str,
    typer.Option(envvar="PRECALL_TARGET", help="The server, host:port, or https://host:port for TLS."),
]
ApiKey = Annotated[
    str | None,
    typer.Option(envvar="PRECALL_API_KEY", help="API key of the tenant.", show_default=False),
]
AdminKey = Annotated[
    str | None,
    typer.Option(
        "--api-key",
        envvar="PRECALL_ADMIN_KEY",
        help="An admin key; unset: admin.key of --data-dir.",
        show_default=False,
    ),
]
DataDir = Annotated[
    Path, typer.Option(envvar="PRECALL_DATA_DIR", help="The server's data folder, for its admin.key.")
]


def next_command(command: str, *, target: str = DEFAULT_TARGET, data_dir: Path = DEFAULT_DATA_DIR) -> str:
    """A command to print, in backquotes, that reaches the server which this one reached.

    What was given as a flag is repeated; what stands in the environment holds for the next command too.
    """
    for flag, variable, value, default in (
        ("--target", "PRECALL_TARGET", target, DEFAULT_TARGET),
        ("--data-dir", "PRECALL_DATA_DIR", str(data_dir), str(DEFAULT_DATA_DIR)),
    ):
        if value != (os.environ.get(variable) or default):
            command += f" {flag} {shlex.quote(value)}"
    return f"`precall {command}`"


def require_key(api_key: str | None, target: str = DEFAULT_TARGET) -> str:
    """Raises CommandFailed."""
    if not api_key:
        raise CommandFailed(
            "an API key is needed: pass --api-key, or set PRECALL_API_KEY "
            f"({next_command('tenants keys create TENANT', target=target)} makes one)"
        )
    return api_key


def require_admin_key(api_key: str | None, data_dir: Path) -> str:
    """The key given, else the one that the server left in its data folder. Raises CommandFailed."""
    if api_key:
        return api_key
    path = data_dir / "admin.key"
    try:
        found = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise CommandFailed(
            f"an admin key is needed: pass --api-key, or --data-dir of a server on this machine "
            f"({path}: {error.strerror})"
        ) from error
    except UnicodeDecodeError as error:
        raise CommandFailed(f"{path} holds no key (it is no text): pass --api-key") from error
    if not found:
        raise CommandFailed(f"{path} is empty: pass --api-key")
    return found


def call_server(
    target: str,
    api_key: str,
    work: "Callable[[Transport, ClientOptions], Awaitable[ResultT]]",
    *,
    key_sources: str = TENANT_KEY_SOURCES,
) -> ResultT:
    """Run ``work`` on a connection of its own. Raises CommandFailed and the errors of the client's tree.

    ``key_sources``: where the key came from, for the message that the server does not take it. A command
    makes calls and keeps no conversation, so it needs the client's calls and not its streams.
    """
    # Imported here: gRPC takes longer to load than --help may take.
    from precall.client import ClientOptions, Unauthenticated, Unavailable
    from precall.client.methods import Method
    from precall.client.transport import Transport
    from precall.proto import embedding_pb2

    get_model = Method("EmbeddingService/GetModel", embedding_pb2.GetModelRequest, embedding_pb2.ModelCard)

    async def run() -> ResultT:
        options = ClientOptions(write_deadline_seconds=WRITE_SECONDS)
        transport = Transport(target, api_key=api_key, options=options)
        transport.open()
        try:
            try:  # calls wait for a server that restarts; one that was never there is told at once
                await transport.call(
                    get_model, embedding_pb2.GetModelRequest(), deadline_seconds=REACH_SECONDS, retry=False
                )
            except Unavailable as error:
                raise CommandFailed(
                    f"no server answers at {target} ({error}): start one with `precall serve`, "
                    "or pass --target"
                ) from error
            except Unauthenticated as error:
                raise CommandFailed(
                    f"the server at {target} takes no such API key, or takes it no more: check {key_sources}"
                ) from error
            return await work(transport, options)
        finally:
            await transport.close()

    return asyncio.run(run())
