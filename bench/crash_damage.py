"""Damage to one of a tenant's files, and the way back to what they were."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_TORN_SHARE: Final = 0.4
"""Of damage that is a torn end; the rest is one flipped bit."""


def damaged(content: bytes, chance: random.Random) -> bytes:
    """The same with its end torn off somewhere, or with one bit flipped; ``content`` is not empty."""
    place = chance.randrange(len(content))
    if chance.random() < _TORN_SHARE:
        return content[:place]
    flipped = content[place] ^ (1 << chance.randrange(8))
    return content[:place] + bytes([flipped]) + content[place + 1 :]


@contextmanager
def damage(database: Path, chance: random.Random) -> Iterator[str]:
    """While this is entered one of the files of a tenant that nobody has open is damaged; yields which.

    Afterwards they are as they were, whatever was made of them meanwhile: nobody has them open by then.
    """
    intact = {path: path.read_bytes() for path in _files(database)}
    victim = chance.choice([path for path, content in sorted(intact.items()) if content])
    victim.write_bytes(damaged(intact[victim], chance))
    try:
        yield victim.name
    finally:
        for path in _files(database):
            path.unlink()
        for path, content in intact.items():
            path.write_bytes(content)


def _files(database: Path) -> list[Path]:
    """The database and what stands beside it: its log, the log's index, its mark."""
    return [database, *database.parent.glob(f"{database.name}-*")]
