"""What is refused before the tokenizer sees it."""

from precall.engine.errors import TextTooLong


def require_bounded(text: str, max_characters: int) -> None:
    """Raises TextTooLong for a text that would take too long to count the tokens of."""
    if len(text) > max_characters:
        raise TextTooLong(
            f"the text has {len(text)} characters, at most {max_characters} are taken, truncated or not: "
            "split it",
            metadata={"characters": str(len(text)), "character_limit": str(max_characters)},
        )
