"""What goes wrong in a command, as one line and an exit status."""

import sys


class CommandFailed(Exception):
    """The command cannot go on; the message is the one line that the user sees."""


def explain(error: Exception) -> str | None:
    """One line for an error that a user can act on; None for a fault of ours, whose traceback is wanted."""
    # Imported here: by now nobody waits for a quick answer.
    from precall.client.errors import PrecallError as ClientError
    from precall.engine.errors import PrecallError as EngineError

    if isinstance(error, (CommandFailed, ClientError, EngineError)):
        return " ".join(str(error).split())
    return None


def exit_with(error: Exception) -> None:
    """Print the line and leave with status 1. Returns for a fault of ours."""
    line = explain(error)
    if line is not None:
        print(f"precall: {line}", file=sys.stderr)
        raise SystemExit(1) from None
