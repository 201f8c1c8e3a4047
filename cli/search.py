"""`precall search`: what the server would answer."""

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from precall.cli.connection import DEFAULT_TARGET, ApiKey, Target, call_server, require_key
from precall.cli.scope import ScopeOption, parse_metadata, parse_scope

if TYPE_CHECKING:
    from precall.client import MemoryFilter
    from precall.proto import retrieval_pb2

DEADLINE_SECONDS = 30.0
_MOMENT_FORMATS = ["%Y-%m-%dT%H:%M:%S.%f%z", "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d"]


def search(
    text: Annotated[str, typer.Argument(help="What to look for.")],
    scope: ScopeOption = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Most results.")] = 10,
    truncate: Annotated[bool, typer.Option(help="Cut a text that is too long for the model.")] = False,
    accurate: Annotated[
        bool, typer.Option("--accurate", help="Have the server's reranker judge more candidates: slower.")
    ] = False,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="Only memories of this kind, e.g. preference; repeat it for several kinds."),
    ] = None,
    metadata: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="Only memories with this metadata; repeated: with all of them."
        ),
    ] = None,
    event_from: Annotated[
        datetime | None,
        typer.Option(
            formats=_MOMENT_FORMATS, metavar="MOMENT", help="Only what happened at this moment or after it."
        ),
    ] = None,
    event_until: Annotated[
        datetime | None,
        typer.Option(formats=_MOMENT_FORMATS, metavar="MOMENT", help="Only what happened before it."),
    ] = None,
    as_of: Annotated[
        datetime | None,
        typer.Option(
            formats=_MOMENT_FORMATS,
            metavar="MOMENT",
            help="Answer what would have been answered then: nothing that was written later counts, and what "
            "was replaced later still stands (what was deleted since is gone).",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    target: Target = DEFAULT_TARGET,
    api_key: ApiKey = None,
) -> None:
    """Search a scope's memories and show what each result's score is made of.

    A MOMENT is a date (2026-03-01) or a date and a time (2026-03-01T14:30:00+05:30), of UTC unless it says
    otherwise.
    """
    levels = parse_scope(scope)
    if not levels:
        raise typer.BadParameter(
            "name the rung to search from, from the ladder's top: --scope customer=acme --scope user=dana",
            param_hint="--scope",
        )
    entries = parse_metadata(metadata)
    key = require_key(api_key, target)
    # Imported here: gRPC takes longer to load than --help may take.
    from precall.client import MemoryFilter

    response = _search(
        target,
        key,
        text,
        levels,
        limit=limit,
        truncate=truncate,
        accurate=accurate,
        asked=MemoryFilter(
            kinds=kind or (),
            metadata=entries,
            event_from=_in_utc(event_from),
            event_until=_in_utc(event_until),
        ),
        as_of=_in_utc(as_of),
    )
    if as_json:
        typer.echo(json.dumps(_as_plain(response), indent=2, ensure_ascii=False))
    else:
        _print_table(response)


def _search(
    target: str,
    api_key: str,
    text: str,
    levels: dict[str, str],
    *,
    limit: int,
    truncate: bool,
    accurate: bool,
    asked: "MemoryFilter",
    as_of: datetime | None,
) -> "retrieval_pb2.SearchResponse":
    from precall.client import arguments, convert
    from precall.client.filter import filter_to_wire
    from precall.client.methods import SEARCH
    from precall.proto import retrieval_pb2

    request = retrieval_pb2.SearchRequest(
        scope=convert.scope_to_wire(levels),
        query=arguments.text(text, "the text"),
        limit=limit,
        truncate=truncate,
        filter=filter_to_wire(asked),
        mode=retrieval_pb2.SEARCH_MODE_ACCURATE if accurate else retrieval_pb2.SEARCH_MODE_FAST,
    )
    if as_of is not None:
        request.as_of.CopyFrom(convert.moment_to_wire(as_of, name="as_of"))
    return call_server(
        target,
        api_key,
        lambda transport, _: transport.call(SEARCH, request, deadline_seconds=DEADLINE_SECONDS),
    )


def _in_utc(moment: datetime | None) -> datetime | None:
    """The same moment; one without a zone is UTC's."""
    if moment is None or moment.tzinfo is not None:
        return moment
    return moment.replace(tzinfo=UTC)


def _print_table(response: "retrieval_pb2.SearchResponse") -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, padding=(0, 1))
    accurate = any(result.score.HasField("rerank") for result in response.results)
    headings = ("#", "score", "rel.", "imp.", "rec.", "rerank")
    for heading in headings if accurate else headings[:-1]:
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("rung", "found by", "age"):
        table.add_column(heading, no_wrap=True)
    table.add_column("memory")
    now = datetime.now(UTC)
    for place, result in enumerate(response.results, 1):
        score = result.score
        table.add_row(
            str(place),
            f"{score.total:.3f}",
            f"{score.relevance:.2f}",
            f"{score.importance:.2f}",
            f"{score.recency:.2f}",
            *([f"{score.rerank:.2f}"] if accurate else []),
            escape(result.rung),
            "both" if len(result.legs) == 2 else ", ".join(result.legs),
            _age((now - result.memory.event_time.ToDatetime(UTC)).total_seconds()),
            escape(result.memory.text),
        )
    console = Console()
    console.print(table)
    if response.parts:
        console.print("\nsearched in parts: " + " | ".join(map(escape, response.parts)), highlight=False)
    times = "  ".join(
        f"{timing.stage} {timing.duration.ToMicroseconds() / 1000:.1f} ms" for timing in response.timings
    )
    console.print(
        f"\n{len(response.results)} of {response.visible} memories, version {response.version}; score: "
        f"[bold]rel[/]evance, [bold]imp[/]ortance and [bold]rec[/]ency, weighted\n{times}",
        highlight=False,
    )


def _as_plain(response: "retrieval_pb2.SearchResponse") -> dict[str, object]:
    from google.protobuf.json_format import MessageToDict

    plain: dict[str, object] = MessageToDict(
        response, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return plain


def _age(seconds: float) -> str:
    """The two largest units would be noise: one tells enough."""
    for unit, length in (("y", 31_557_600), ("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return "now"
