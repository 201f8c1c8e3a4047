"""`precall bench`: measurements."""

from pathlib import Path
from typing import Annotated

import typer

bench = typer.Typer(name="bench", help="Measure what reads and embeddings cost.", no_args_is_help=True)


@bench.callback()
def measurements() -> None:
    """Measure what reads and embeddings cost."""


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
        int | None,
        typer.Option(min=1, help="Ask at most so many questions of each conversation; shared: of each kind."),
    ] = None,
    limit_reads: Annotated[
        int | None,
        typer.Option(min=5, help="Read so many times in all, each kind in proportion; shared alone."),
    ] = None,
    conversations: Annotated[
        int | None, typer.Option(min=1, help="Replay at most so many conversations; personal alone.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Append the figures to this table of results.")] = None,
    complete_below: Annotated[
        int | None,
        typer.Option(min=0, help="Hold rungs of at most so many memories whole; 0 leaves all to prediction."),
    ] = None,
    speed: Annotated[
        float | None,
        typer.Option(min=0.1, help="How much faster than life people speak (default 10; shared: 1)."),
    ] = None,
    profile: Annotated[
        str,
        typer.Option(
            help="personal: each conversation is one user. shared: all that is known in one customer rung; "
            "DATA then holds locomo, scifact and xquad."
        ),
    ] = "personal",
    typed: Annotated[
        bool, typer.Option("--typed", help="No partial transcripts: only earlier turns can predict.")
    ] = False,
    max_items: Annotated[
        list[int] | None,
        typer.Option(
            min=10, help="Items that a session may hold; repeated, with shared: a run each, and their curve."
        ),
    ] = None,
    sessions_at_once: Annotated[
        int, typer.Option(min=1, help="Conversations that go on side by side; shared alone.")
    ] = 8,
    vectors: Annotated[
        Path | None,
        typer.Option(help="Where vectors are kept between runs, of shared; by default a temporary folder."),
    ] = None,
) -> None:
    """Replay conversations against a real server behind a slow link, and judge every read."""
    from precall.bench import reads as run
    from precall.bench.locomo import LocomoFormatError
    from precall.bench.quality import VECTORS_FOLDER
    from precall.bench.quality_sets import QualitySetError
    from precall.bench.reads_run import Profile, ReadsRun
    from precall.bench.server_process import ServerDied
    from precall.cli.failure import CommandFailed

    try:
        asked = Profile(profile)
    except ValueError:
        raise typer.BadParameter("it is personal or shared", param_hint="--profile") from None
    steps = max_items or []
    if len(steps) > 1 and asked is not Profile.SHARED:
        raise typer.BadParameter("a curve needs --profile shared", param_hint="--max-items")
    if limit_reads is not None and (asked is not Profile.SHARED or limit_questions is not None):
        raise typer.BadParameter(
            "it needs --profile shared, and no --limit-questions beside it", param_hint="--limit-reads"
        )
    settings = ReadsRun(
        rtt_ms=rtt_ms,
        profile=asked,
        typed=typed,
        speed=speed,
        max_items=steps[0] if len(steps) == 1 else None,
        max_questions=limit_questions,
        max_reads=limit_reads,
        sessions_at_once=sessions_at_once,
        server_arguments=() if complete_below is None else ("--complete-below", str(complete_below)),
    )
    plot_path = plot or (as_json.with_suffix(".png") if as_json else None)
    kept = vectors or VECTORS_FOLDER
    try:
        if len(steps) > 1:
            run.curve(
                data, settings, steps, json_path=as_json, plot_path=plot_path, csv_path=csv, vectors=kept
            )
        else:
            run.main(
                data,
                settings,
                json_path=as_json,
                plot_path=plot_path,
                csv_path=csv,
                max_conversations=conversations,
                vectors=kept,
            )
    except (LocomoFormatError, QualitySetError, ServerDied) as error:
        raise CommandFailed(str(error)) from error


@bench.command("embed")
def embed(
    data: Annotated[
        Path,
        typer.Option(
            help="Folder with locomo/, scifact/ and traces/; what is missing is made up or left out."
        ),
    ],
    peer_python: Annotated[
        Path | None,
        typer.Option(help="Python of an environment with infinity-emb: make .venv-peers/.installed."),
    ] = None,
    only: Annotated[
        str, typer.Option(metavar="PARTS", help="Some of throughput,lone,trace,classes.")
    ] = "throughput,lone,trace,classes",
    as_json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Append the figures to this table of results.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer texts and rounds; rougher figures.")] = False,
) -> None:
    """Measure the embedding engine beside sentence-transformers, torch and infinity-emb, and under load."""
    from precall.bench import embed as run
    from precall.bench.azure_trace import TraceFormatError
    from precall.bench.embed_peers import PeerFailed
    from precall.bench.locomo import LocomoFormatError
    from precall.bench.server_process import ServerDied
    from precall.cli.failure import CommandFailed

    try:
        parts = tuple(run.Part(name.strip()) for name in only.split(","))
    except ValueError:
        known = ", ".join(part.value for part in run.Part)
        raise typer.BadParameter(f"{only}: the parts are {known}", param_hint="--only") from None
    chosen = (run.EmbedRun.quick if quick else run.EmbedRun)(data, parts, peer_python)
    try:
        run.main(chosen, json_path=as_json, csv_path=csv)
    except (LocomoFormatError, TraceFormatError, PeerFailed, ServerDied) as error:
        raise CommandFailed(str(error)) from error


@bench.command("index")
def index(
    peer_python: Annotated[
        Path | None,
        typer.Option(help="Python of an environment with the peers: make .venv-index-peers/.installed."),
    ] = None,
    sizes: Annotated[
        list[int] | None, typer.Option("--size", min=1, help="Memories in the index; may be repeated.")
    ] = None,
    dimensions: Annotated[
        list[int] | None, typer.Option("--dimension", min=8, help="Of the vectors; may be repeated.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Append the figures to this table of results.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small indexes, few searches.")] = False,
) -> None:
    """Measure indexes of growing size: writes, searches beside bare FAISS, recall, memory."""
    from dataclasses import replace

    from precall.bench import index as run
    from precall.bench.index_peers import PeersFailed
    from precall.cli.failure import CommandFailed

    asked = run.QUICK if quick else run.IndexBench()
    asked = replace(
        asked,
        sizes=tuple(sizes or asked.sizes),
        dimensions=tuple(dimensions or asked.dimensions),
        peers_python=peer_python,
        peer_sizes=(1_000,) if quick else asked.peer_sizes,
    )
    try:
        kept = run.main(asked, csv)
    except PeersFailed as error:
        raise CommandFailed(str(error)) from error
    if not kept:
        raise CommandFailed("a target was missed: see the verdicts above, and measure on a quiet machine")


@bench.command("quality")
def quality(
    data: Annotated[Path, typer.Option(help="Folder with locomo/, scifact/, xquad/, madial/ and hinglish/.")],
    only: Annotated[
        str, typer.Option(metavar="SETS", help="Some of locomo,scifact,xquad,madial,hinglish.")
    ] = "locomo,scifact,xquad,madial,hinglish",
    accurate: Annotated[
        bool,
        typer.Option("--accurate", help="Measure ACCURATE search too, on the small reranker: slow."),
    ] = False,
    queries: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Ask at most so many of each rung, evenly spaced; 300 leaves LoCoMo and SciFact whole.",
        ),
    ] = None,
    vectors: Annotated[
        Path | None,
        typer.Option(help="Where vectors are kept between runs; by default among temporary files."),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Of each model; by default as many as fit the machine.")
    ] = None,
    as_json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Append the figures to this table of results.")] = None,
) -> None:
    """Measure what searches find on public sets, beside BM25, dense search and rank fusion."""
    from precall.bench import quality as run
    from precall.bench.locomo import LocomoFormatError
    from precall.bench.quality_sets import QualitySetError
    from precall.cli.failure import CommandFailed

    sets = tuple(name.strip() for name in only.split(","))
    if unknown := set(sets) - set(run.SET_NAMES):
        raise typer.BadParameter(
            f"{', '.join(sorted(unknown))}: the sets are {', '.join(run.SET_NAMES)}", param_hint="--only"
        )
    asked = run.QualityRun(data, sets, accurate, queries, vectors or run.VECTORS_FOLDER, threads)
    try:
        report = run.main(asked, json_path=as_json, csv_path=csv)
    except (LocomoFormatError, QualitySetError, OSError) as error:
        raise CommandFailed(str(error)) from error
    if report.missed:
        raise CommandFailed("a target was missed: see the verdicts above")


@bench.command("peer-cache")
def peer_cache(
    data: Annotated[Path, typer.Option(help="Folder with locomo/, scifact/ and xquad/.")],
    peer_python: Annotated[
        Path, typer.Option(help="Python of an environment with the peer: make .venv-peer-cache/.installed.")
    ],
    vectors: Annotated[
        Path | None,
        typer.Option(help="Where vectors are kept between runs; by default among temporary files."),
    ] = None,
    as_json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Append the figures to this table of results.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few questions, small caches.")] = False,
) -> None:
    """Ask precall's cache and maximem-synap's the same: right, wrong, missed, and how long it takes."""
    from precall.bench import peer_cache as run
    from precall.bench.locomo import LocomoFormatError
    from precall.bench.peer_cache_peer import PeerCacheFailed
    from precall.bench.peer_cache_stage import PeerCacheRun
    from precall.bench.quality import VECTORS_FOLDER
    from precall.bench.quality_sets import QualitySetError
    from precall.cli.failure import CommandFailed

    asked = (PeerCacheRun.quick if quick else PeerCacheRun)(data, vectors or VECTORS_FOLDER, peer_python)
    try:
        run.main(asked, json_path=as_json, csv_path=csv)
    except (LocomoFormatError, QualitySetError, PeerCacheFailed, OSError) as error:
        raise CommandFailed(str(error)) from error


@bench.command("sessions")
def sessions(
    data: Annotated[Path, typer.Option(help="A conversation in the LoCoMo format, or a folder of them.")],
    count: Annotated[int, typer.Option("--sessions", min=1, help="Conversations at once.")] = 1_000,
    processes: Annotated[int, typer.Option(min=1, help="Agent processes that hold them.")] = 3,
    seconds: Annotated[float, typer.Option(min=1, help="How long they speak.")] = 60.0,
    turn_seconds: Annotated[float, typer.Option(min=0.1, help="Between two turns of one of them.")] = 5.0,
    whole: Annotated[
        bool, typer.Option("--whole", help="Rungs are held whole, so that nothing has to be predicted.")
    ] = False,
    agents_elsewhere: Annotated[
        bool,
        typer.Option(
            "--agents-elsewhere",
            help="Agents know the vectors of what they say, as if they embedded it on other machines.",
        ),
    ] = False,
    as_json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Append the figures to this table of results.")] = None,
) -> None:
    """Hold many conversations at once on one server: turn to push, reads, writes, memory, errors."""
    from precall.bench import sessions as run
    from precall.bench.locomo import LocomoFormatError
    from precall.bench.server_process import ServerDied
    from precall.bench.sessions_report import SessionsRun
    from precall.cli.failure import CommandFailed

    asked = SessionsRun(
        data,
        sessions=count,
        processes=processes,
        seconds=seconds,
        turn_seconds=turn_seconds,
        whole=whole,
        agents_elsewhere=agents_elsewhere,
    )
    try:
        run.main(asked, json_path=as_json, csv_path=csv)
    except (LocomoFormatError, run.SessionsFailed, ServerDied) as error:
        raise CommandFailed(str(error)) from error
