"""`precall demo`."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    rtt_ms: Annotated[float, typer.Option(min=0, help="Round trip between agent and server.")] = 40.0,
    plot: Annotated[Path, typer.Option(help="Where the latency plot goes.")] = Path("precall-demo.png"),
    as_json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON, too.")
    ] = None,
) -> None:
    """Run the main job on a short conversation: a server, an agent a link away, and its reads."""
    from precall.bench import demo as run
    from precall.bench.server_process import ServerDied
    from precall.cli.failure import CommandFailed

    try:
        run.main(rtt_ms=rtt_ms, plot_path=plot, json_path=as_json)
    except (run.PromiseBroken, ServerDied) as error:
        raise CommandFailed(str(error)) from error
