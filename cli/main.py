"""`precall`: the one command. What its parts need is imported when they run, so that --help is quick."""

from typing import Annotated

import typer

from precall.cli.backup import backup, restore
from precall.cli.bench import bench
from precall.cli.demo import demo
from precall.cli.export import export
from precall.cli.failure import exit_with
from precall.cli.ingest import ingest
from precall.cli.migrate import migrate
from precall.cli.search import search
from precall.cli.serve import serve
from precall.cli.tenants import tenants

app = typer.Typer(
    name="precall",
    help="Anticipatory retrieval for AI agents: a server, and what an operator does with it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"precall {version('precall')}")
        raise typer.Exit


@app.callback()
def precall(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Anticipatory retrieval for AI agents: a server, and what an operator does with it."""


app.command()(serve)
app.command()(demo)
app.command()(ingest)
app.command()(export)
app.command()(search)
app.command()(backup)
app.command()(restore)
app.add_typer(tenants)
app.add_typer(migrate)
app.add_typer(bench)


def main() -> None:
    """The console script: usage errors exit with 2, everything else that goes wrong with 1 and one line."""
    try:
        app()
    except Exception as error:
        exit_with(error)
        raise


if __name__ == "__main__":
    main()
