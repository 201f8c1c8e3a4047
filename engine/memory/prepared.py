"""A memory that is ready to be stored: what was said, and what the encoder and the analyser made of it."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.engine.encoding.encoder import TokenUsage
from precall.engine.errors import AlreadyExists, InvalidInput, InvalidScope, InvalidVector, PrecallError
from precall.engine.memory.ladder import Ladder
from precall.engine.memory.memory import NewMemory
from precall.scoring.terms import analyze

MAX_ID_CHARACTERS: Final = 128


@dataclass(frozen=True, slots=True)
class PreparedMemory:
    """``vector``: float16, shape ``(dimension,)``, of the model that serves the tenant. ``terms``: what
    `own_terms` makes of the memory. ``other_vector``: likewise, of `TenantStore.other`.
    """

    memory: NewMemory
    vector: NDArray[np.float16]
    terms: Sequence[str]
    usage: TokenUsage
    other_vector: NDArray[np.float16] | None = None


def own_terms(text: str, questions: Iterable[str]) -> list[str]:
    """The keyword terms of a memory's own words, repeated as often as they occur."""
    return analyze(" ".join((text, *questions)))


def check_batch(
    batch: Sequence[PreparedMemory],
    *,
    ladder: Ladder,
    dimension: int,
    other_dimension: int | None = None,
    other_is_needed: bool = False,
) -> None:
    """Refuse a batch that cannot be stored whole; every message names the position.

    ``other_dimension``: of the second model's vectors; None: there is none, and they are not looked at.
    Raises InvalidInput, InvalidScope, InvalidVector, or AlreadyExists for an id that comes twice.
    """
    if not batch:
        raise InvalidInput("the batch is empty: write at least one memory")
    positions: dict[str, int] = {}
    for position, prepared in enumerate(batch):
        try:
            _check_memory(prepared.memory, ladder)
            check_vector(prepared.vector, dimension)
            if other_dimension is not None and prepared.other_vector is not None:
                check_vector(prepared.other_vector, other_dimension)
            elif other_is_needed:
                raise InvalidVector("a vector of each of the tenant's two models is needed")
            first = positions.setdefault(prepared.memory.id, position)
            if first != position:
                raise AlreadyExists(f"id {prepared.memory.id!r} is that of item {first} as well")
        except PrecallError as error:
            raise error.at(position) from error


def _check_memory(memory: NewMemory, ladder: Ladder) -> None:
    if not 1 <= len(memory.id) <= MAX_ID_CHARACTERS or not memory.id.isprintable():
        raise InvalidInput(f"an id has 1 to {MAX_ID_CHARACTERS} printable characters")
    if not 1 <= memory.rung.depth <= len(ladder.levels):
        raise InvalidScope(
            f"the rung has {memory.rung.depth} levels, this tenant's ladder is {' > '.join(ladder.levels)}"
        )
    for moment in (
        memory.event_time, memory.said_time, memory.valid_from, memory.valid_until, memory.expires_at,
    ):  # fmt: skip
        if moment is not None and moment.tzinfo is None:
            raise InvalidInput("a moment has no time zone")
    source = memory.source
    words = (
        *memory.rung.values, memory.text, memory.key, source.conversation_id, source.turn_id, source.uri,
        *source.memory_ids, *memory.questions, *memory.metadata.keys(), *memory.metadata.values(),
    )  # fmt: skip
    try:
        "".join(words).encode()
    except UnicodeEncodeError as error:
        raise InvalidInput("a lone surrogate stands in it: send well-formed Unicode") from error


def check_vector(vector: NDArray[np.float16], dimension: int) -> None:
    """Raises InvalidVector for one that no model of this dimension can have made."""
    if vector.dtype != np.float16 or vector.shape != (dimension,):
        raise InvalidVector(
            f"the vector is {vector.dtype} of shape {vector.shape}, float16 of shape ({dimension},) is needed"
        )
    wide = vector.astype(np.float32)
    squares = float(wide @ wide)  # NaN and infinity stand in it as well; no float16 but 0 squares to 0
    if not math.isfinite(squares):
        raise InvalidVector("the vector holds NaN or infinity")
    if squares == 0:
        raise InvalidVector("the vector is zero")
