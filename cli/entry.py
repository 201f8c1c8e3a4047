"""The console script, where the command line may not be installed."""

import sys


def main() -> None:
    """`precall`; a client alone is told what is missing."""
    try:
        from precall.cli.main import main as run
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(
            "precall: this is the client alone; the command line comes with `pip install 'precall[server]'`"
        )
    run()
