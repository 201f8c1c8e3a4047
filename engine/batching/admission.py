"""What is refused before the tokenizer sees it."""

from collections.abc import Sequence

from precall.engine.errors import TextTooLong


def require_bounded(text: str, max_characters: int, *, instruction: str | None = None) -> None:
    """Raises TextTooLong for a text that would take too long to count the tokens of, its instruction too."""
    characters = len(text) + len(instruction or "")
    if characters > max_characters:
        raise TextTooLong(
            f"the text has {characters} characters{' with its instruction' if instruction else ''}, at most "
            f"{max_characters} are taken, truncated or not: split it",
            metadata={"characters": str(characters), "character_limit": str(max_characters)},
        )


def fewest_tokens(texts: Sequence[str], max_tokens: int, *, truncate: bool) -> int:
    """How many tokens the texts have at the least: a token never spans white space, so each word is one.

    A text that is longer than ``max_tokens`` counts as that if it is to be cut, and else not at all, since it
    will be an error of its own. Reads at most ``max_tokens`` words of each.
    """
    total = 0
    for text in texts:
        words = len(text.split(None, max_tokens))
        if words <= max_tokens:
            total += words
        elif truncate:
            total += max_tokens
    return total
