"""A task that a caller names for its own queries, in place of the one on the model's card."""

from precall.engine.encoding.encoder import TextRole
from precall.engine.errors import InvalidInput, NotSupported, TextTooLong

MAX_INSTRUCTION_CHARACTERS = 2_000
"""A task is a sentence, and is read anew with every text: a longer one is a way to make others wait."""


def require_instructable(instruction: str, role: TextRole) -> None:
    """For a model that takes a task. Raises ``InvalidInput`` (blank, or for documents) or ``TextTooLong``."""
    if role is TextRole.DOCUMENT:
        raise InvalidInput(
            "an instruction is for queries, documents are embedded as they are: leave it unset, or set the "
            "role to QUERY"
        )
    require_task(instruction)


def require_task(instruction: str) -> None:
    """Raises ``InvalidInput`` for a blank task and ``TextTooLong`` for one that is no sentence any more."""
    if not instruction.strip():
        raise InvalidInput("the instruction is blank: say what the query is for, or leave it unset")
    if len(instruction) > MAX_INSTRUCTION_CHARACTERS:
        raise TextTooLong(
            f"the instruction has {len(instruction)} characters, at most {MAX_INSTRUCTION_CHARACTERS} are "
            "taken: shorten it to a sentence",
            metadata={
                "characters": str(len(instruction)),
                "character_limit": str(MAX_INSTRUCTION_CHARACTERS),
            },
        )


def require_no_instruction(instruction: str | None, model: str) -> None:
    """For a model that takes no task. Raises ``NotSupported``."""
    if instruction is not None:
        raise NotSupported(f"{model} takes no instruction: leave it unset, or run a Qwen3-Embedding model")
