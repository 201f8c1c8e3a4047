"""`precall bench`: measurements."""

from pathlib import Path
from typing import Annotated

import typer

bench = typer.Typer(
    name="bench", help="Measure what reads cost and whether they are right.", no_args_is_help=True
)


@bench.callback()
def measurements() -> None:
    """Measure what reads cost and whether they are right."""


@bench.command("reads")
def reads(
    data: Annotated[Path, typer.Option(help="A conversation in the LoCoMo format, or a folder of them.")],
    rtt_ms: Annotated[float, typer.Option(min=0, help="Round trip between agent and server.")] = 40.0,
    as_json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Where the latency plot (PNG) goes; by default beside the JSON.")
    ] = None,
    limit_questions: Annotated[
        int | None, typer.Option(min=1, help="Ask at most so many questions of each conversation.")
    ] = None,
    conversations: Annotated[
        int | None, typer.Option(min=1, help="Replay at most so many conversations.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Append the figures to this table of results.")] = None,
    complete_below: Annotated[
        int | None,
        typer.Option(min=0, help="Hold rungs of at most so many memories whole; 0 leaves all to prediction."),
    ] = None,
    speed: Annotated[float, typer.Option(min=0.1, help="How much faster than life people speak.")] = 10.0,
) -> None:
    """Replay conversations against a real server behind a slow link, and judge every read."""
    from precall.bench import reads as run
    from precall.bench.locomo import LocomoFormatError
    from precall.bench.server_process import ServerDied
    from precall.cli.failure import CommandFailed

    settings = run.ReadsRun(
        rtt_ms=rtt_ms,
        speed=speed,
        max_questions=limit_questions,
        server_arguments=() if complete_below is None else ("--complete-below", str(complete_below)),
    )
    try:
        run.main(
            data,
            settings,
            json_path=as_json,
            plot_path=plot or (as_json.with_suffix(".png") if as_json else None),
            csv_path=csv,
            max_conversations=conversations,
        )
    except (LocomoFormatError, ServerDied) as error:
        raise CommandFailed(str(error)) from error
