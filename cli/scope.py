"""A scope on the command line: --scope customer=acme --scope user=dana."""

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
    scope: dict[str, str] = {}
    for level in levels or ():
        name, equals, value = level.partition("=")
        if not (name and equals and value):
            raise typer.BadParameter(f"{level!r} is not LEVEL=VALUE, e.g. user=dana", param_hint=option)
        if not _is_well_formed(level):
            raise typer.BadParameter(f"{level!r} is not valid UTF-8", param_hint=option)
        if name in scope:
            raise typer.BadParameter(f"the level {name!r} is given twice", param_hint=option)
        scope[name] = value
    return scope


def _is_well_formed(argument: str) -> bool:
    """Bytes that are no text arrive as lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in argument)
