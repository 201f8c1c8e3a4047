"""`precall serve`."""

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer

Flag = typer.Option


def serve(
    config: Annotated[
        Path | None, Flag(help="TOML file with settings; flags and PRECALL_* variables win over it.")
    ] = None,
    data_dir: Annotated[Path | None, Flag(help="Folder of all data (default precall-data).")] = None,
    host: Annotated[str | None, Flag(help="Address for agents (default 127.0.0.1).")] = None,
    port: Annotated[int | None, Flag(help="Port for agents; 0: any free one (default 50051).")] = None,
    metrics_host: Annotated[
        str | None, Flag(help="Address of metrics and health over HTTP (default 127.0.0.1).")
    ] = None,
    metrics_port: Annotated[
        int | None, Flag(help="Port of metrics and health over HTTP (default 9464).")
    ] = None,
    model: Annotated[
        str | None,
        Flag(help="`minilm`, a hub name like Qwen/Qwen3-Embedding-0.6B, or a folder (default minilm)."),
    ] = None,
    runtime: Annotated[
        str | None, Flag(help="auto, onnx (MiniLM), torch or vllm (Qwen3) (default auto).")
    ] = None,
    dimension: Annotated[
        int | None, Flag(help="Cut vectors to this length; Qwen3 only (default the model's).")
    ] = None,
    query_task: Annotated[
        str | None, Flag(help="What queries are for, in a sentence; Qwen3 only (default web search).")
    ] = None,
    max_tokens: Annotated[
        int | None, Flag(help="Longest text in tokens; Qwen3 only (default the model's).")
    ] = None,
    next_model: Annotated[
        str | None, Flag(help="A second model, to migrate tenants to; named like --model (default none).")
    ] = None,
    next_dimension: Annotated[int | None, Flag(help="--dimension of the second model.")] = None,
    next_query_task: Annotated[str | None, Flag(help="--query-task of the second model.")] = None,
    next_max_tokens: Annotated[int | None, Flag(help="--max-tokens of the second model.")] = None,
    reranker: Annotated[
        str | None, Flag(help="minilm, a hub name like Qwen/Qwen3-Reranker-0.6B, or a folder (default none).")
    ] = None,
    reranker_max_tokens: Annotated[
        int | None, Flag(help="Longest prompt of the reranker in tokens (default 8192).")
    ] = None,
    rerank_candidates: Annotated[
        int | None, Flag(help="Memories that the reranker reads for one search (default 100).")
    ] = None,
    threads: Annotated[int | None, Flag(help="Threads of a forward pass (default by processors).")] = None,
    cache_dir: Annotated[Path | None, Flag(help="Folder of exported models (default user cache).")] = None,
    light_encoder: Annotated[
        bool | None, Flag(help="Make a light encoder for clients of a large model (default yes).")
    ] = None,
    heartbeat_seconds: Annotated[
        float | None, Flag(help="Between two heartbeats of a stream (default 1).")
    ] = None,
    lease_seconds: Annotated[
        float | None,
        Flag(help="How long a cache answers in an outage, and a delete waits at most (default 10)."),
    ] = None,
    complete_below: Annotated[
        int | None, Flag(help="Push a rung whole up to so many memories (default 2000).")
    ] = None,
    foresight_url: Annotated[
        str | None,
        Flag(help="OpenAI-compatible endpoint to ask what will be asked; turns go there (default none)."),
    ] = None,
    foresight_model: Annotated[str | None, Flag(help="The endpoint's model.")] = None,
    foresight_key: Annotated[
        str | None,
        Flag(help="The endpoint's key; better given as PRECALL_FORESIGHT_KEY, which no process list shows."),
    ] = None,
    foresight_seconds: Annotated[
        float | None, Flag(help="Time that the endpoint is given (default 2).")
    ] = None,
    foresight_questions: Annotated[
        int | None, Flag(help="Most questions of an answer of it (default 4).")
    ] = None,
    memory_budget_mb: Annotated[
        int | None, Flag(help="MB of memories kept in memory, the latest used (default 2048).")
    ] = None,
    max_open_files: Annotated[
        int | None, Flag(help="Tenants whose files stay open while nobody uses them (default 200).")
    ] = None,
    max_message_bytes: Annotated[int | None, Flag(help="Largest message (default 67108864).")] = None,
    max_batch: Annotated[int | None, Flag(help="Most texts or memories in a request (default 1000).")] = None,
    max_concurrent_rpcs: Annotated[int | None, Flag(help="Most calls in progress (default 1000).")] = None,
    drain_seconds: Annotated[
        float | None, Flag(help="Grace for calls in progress at the end (default 15).")
    ] = None,
    probe_seconds: Annotated[float | None, Flag(help="Between two readiness probes (default 5).")] = None,
    log_level: Annotated[str | None, Flag(help="debug, info, warning or error (default info).")] = None,
    log_format: Annotated[str | None, Flag(help="console or json (default console).")] = None,
    admin_key: Annotated[
        str | None,
        Flag(help="A further admin key; better given as PRECALL_ADMIN_KEY, which no process list shows."),
    ] = None,
    ready_file: Annotated[
        Path | None, Flag(help="File to write once the server answers: JSON with its ports.")
    ] = None,
) -> None:
    """Run the server until SIGTERM or Ctrl-C, then drain it.

    Each setting may also stand in the environment (PRECALL_PORT) or in the TOML file (port = 50051).
    On its first start it leaves an admin key in DATA_DIR/admin.key.
    """
    flags = {name: value for name, value in locals().items() if name != "config"}
    # Before numpy is loaded: its products here are small, and waking a pool of threads for one of them costs
    # up to 8 ms on busy cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Imported here: the server is heavy, and most commands do not need it.
    import structlog
    import uvloop

    from precall.server.app import Endpoints
    from precall.server.app import serve as run
    from precall.server.descriptors import raise_descriptor_limit
    from precall.server.logging import configure_logging
    from precall.server.settings import ServerSettings, unknown_variables

    settings = ServerSettings.load(flags, config)
    raise_descriptor_limit(settings.max_open_files)
    configure_logging(settings.log_level, settings.log_format)
    for variable, resembled in unknown_variables(os.environ).items():
        meant = {"meant": resembled} if resembled else {}
        structlog.get_logger("precall").warning("variable is no setting", variable=variable, **meant)

    def announce(endpoints: Endpoints) -> None:
        structlog.get_logger("precall").info(
            "serving",
            target=endpoints.target,
            metrics=f"http://{endpoints.metrics_host}:{endpoints.metrics_port}/metrics",
            data_dir=str(settings.data_dir),
        )

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(settings, ready=announce))
