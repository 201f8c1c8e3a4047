"""Names and values on the command line: --scope customer=acme --scope user=dana, --metadata by=car."""

from collections.abc import Sequence
from typing import Annotated

import typer

ScopeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--scope",
        metavar="LEVEL=VALUE",
        help="A level of the ladder and its value, from the top; repeat it for each level.",
        show_default=False,
    ),
]


def parse_scope(levels: Sequence[str] | None, option: str = "--scope") -> dict[str, str]:
    """Level -> value. Raises typer.BadParameter, a usage error."""
    return _parse_pairs(levels, option, what="level", example="user=dana")


def parse_metadata(entries: Sequence[str] | None) -> dict[str, str]:
    """Name -> value. Raises typer.BadParameter, a usage error."""
    return _parse_pairs(entries, "--metadata", what="name", example="topic=travel")


def _parse_pairs(pairs: Sequence[str] | None, option: str, *, what: str, example: str) -> dict[str, str]:
    parsed: dict[str, str] = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not (name and equals and value):
            raise typer.BadParameter(
                f"{pair!r} is not {what.upper()}=VALUE, e.g. {example}", param_hint=option
            )
        if not _is_well_formed(pair):
            raise typer.BadParameter(f"{pair!r} is not valid UTF-8", param_hint=option)
        if name in parsed:
            raise typer.BadParameter(f"the {what} {name!r} is given twice", param_hint=option)
        parsed[name] = value
    return parsed


def _is_well_formed(argument: str) -> bool:
    """Bytes that are no text arrive as lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in argument)
