"""What is refused before the tokenizer sees it."""

import itertools
import re
from collections.abc import Sequence
from typing import Final

from precall.engine.errors import Draining, TextTooLong

_COUNTED_CHARACTERS: Final = 20_000
"""The tokens of a text of so many characters are always counted, which takes some milliseconds, so that who
sent too many is told how many they were.
"""

_WORD: Final = re.compile(r"[^\W_][^ \t\r\n]*")
"""A letter or digit and what follows to the next white space. No tokenizer drops a letter or joins two words
over these spaces; of other characters that Python takes for space or visible, some do.
"""


def draining() -> Draining:
    """What everybody is told who comes after the end of admission."""
    return Draining("the server is shutting down: send the request to another one, or again in a moment")


def require_bounded(text: str, max_characters: int, *, instruction: str | None = None) -> None:
    """Raises TextTooLong for a text that would take too long to count the tokens of, its instruction too."""
    characters = len(text) + len(instruction or "")
    if characters > max_characters:
        raise TextTooLong(
            f"the text has {characters} characters{' with its instruction' if instruction else ''}, at most "
            f"{max_characters} are taken, truncated or not: split it",
            metadata={"characters": str(characters), "character_limit": str(max_characters)},
        )


def require_countable(text: str, max_tokens: int) -> None:
    """Raises TextTooLong for a long text whose words alone say that it is over ``max_tokens``.

    For a text that is not to be cut: the tokenizer would work for nothing.
    """
    if len(text) <= _COUNTED_CHARACTERS:
        return
    words = sum(1 for _ in itertools.islice(_WORD.finditer(text), max_tokens + 1))
    if words > max_tokens:
        raise TextTooLong(
            f"the text has {len(text)} characters, more than {max_tokens} tokens in any case, and the model "
            f"takes {max_tokens}: shorten or split it, or allow truncation",
            metadata={"characters": str(len(text)), "limit": str(max_tokens)},
        )


def fewest_tokens(
    texts: Sequence[str], max_tokens: int, *, truncate: bool, max_characters: int, enough: int
) -> int:
    """How many tokens the texts have at the least: a token never spans white space, so each word is one.

    A text that is longer than ``max_tokens`` counts as that if it is to be cut, and else not at all, since it
    will be an error of its own, as does one of more than ``max_characters``. Reads at most ``max_tokens``
    words of each, and no text after the sum is over ``enough``.
    """
    total = 0
    for text in texts:
        if total > enough:
            break
        if len(text) > max_characters:
            continue
        words = len(text.split(None, max_tokens))
        if words <= max_tokens:
            total += words
        elif truncate:
            total += max_tokens
    return total
