"""Memories of one rung on their way from the disk into an index, many at a time.

What costs little for a thousand rows together costs much for each alone: parsing terms, looking at vectors,
filling tables. Each row is verified by its checksums all the same, before any of it is used.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from precall.engine.memory.decoded_memory import verified_contents, verify_indexed
from precall.engine.memory.rows import INDEXED_COLUMNS, NO_ENTRIES, DamagedRow, Row
from precall.scoring.memory_columns import FeatureBlock

_NAMES = tuple(column.strip().partition(".")[2] for column in INDEXED_COLUMNS.split(","))
_FOREVER = float("inf")

_MAGNITUDE: Final = 0x7FFF
_INFINITY: Final = 0x7C00
"""Bits of a float16: all but its sign, and those of infinity; what is above is NaN."""


@dataclass(frozen=True, slots=True)
class Labels:
    """What filters ask of memories, beside their event times, column by column. Empty words are no label."""

    kinds: Sequence[str]
    pinned: Sequence[int]
    conversation_ids: Sequence[str]
    keys: Sequence[str]
    metadata: Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """``n`` memories in order of arrival. ``contents``: what was said, for `decode_said`. ``following``: how
    many more the rung may bring in later blocks, at most.
    """

    ids: Sequence[str]
    contents: Sequence[bytes]
    labels: Labels
    features: FeatureBlock
    following: int

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def said_bytes(self) -> int:
        """What the words and names of all of them take in memory."""
        return sum(map(len, self.contents))

    @classmethod
    def of_rows(cls, rows: Sequence[Row], *, depth: int, dimension: int, following: int = 0) -> Self:
        """Current memories, of at least one row of `INDEXED_COLUMNS`; ``depth``: of their rung.

        Raises DamagedRow.
        """
        by_place = tuple(zip(*rows, strict=True))
        contents = verified_contents(rows, by_place)
        for row in rows:
            verify_indexed(row)
        columns = dict(zip(_NAMES, by_place, strict=True))
        try:
            terms, impacts = _keywords(columns["impact_terms"], columns["impact_weights"])
            features = FeatureBlock(
                vectors=_vectors(columns["vector"], dimension),
                terms=terms,
                impacts=impacts,
                importance=np.array(columns["importance"], np.float32),
                moments=_moments(
                    *(columns[name] for name in ("event_time", "valid_from", "valid_until", "expires_at"))
                ),
                depth=depth,
            )
            labels = Labels(
                columns["kind"],
                columns["pinned"],
                columns["conversation_id"],
                columns["key"],
                metadata=[{} if words == NO_ENTRIES else json.loads(words) for words in columns["metadata"]],
            )
        except (ValueError, TypeError) as error:
            raise DamagedRow(f"a memory is not what was written: {error}") from error
        return cls(columns["id"], contents, labels, features, following)


def _keywords(
    terms: Sequence[str], weights: Sequence[bytes]
) -> tuple[Sequence[Sequence[str]], NDArray[np.float32]]:
    """The terms of each memory, parsed in one go, and the impacts of all of them."""
    parsed: list[list[str]] = json.loads(f"[{','.join(terms)}]")
    impacts = np.frombuffer(b"".join(weights), "<f4").astype(np.float32, copy=False)
    if [4 * len(each) for each in parsed] != list(map(len, weights)):
        raise ValueError("more or fewer weights than terms")
    return parsed, impacts


def _vectors(contents: Sequence[bytes], dimension: int) -> NDArray[np.float16]:
    """Read-only, shape ``(n, dimension)``."""
    if set(map(len, contents)) != {2 * dimension}:
        raise ValueError("not a vector of this tenant's model")
    vectors = np.frombuffer(b"".join(contents), "<f2").astype(np.float16, copy=False)
    if (vectors.view(np.uint16) & _MAGNITUDE).max() >= _INFINITY:  # a quarter of the time of np.isfinite
        raise ValueError("not a vector of this tenant's model")
    return vectors.reshape(len(contents), dimension)


def _moments(
    event_times: Sequence[int],
    valid_from: Sequence[int | None],
    valid_until: Sequence[int | None],
    expires_at: Sequence[int | None],
) -> NDArray[np.float64]:
    """Unix microseconds to the Unix seconds that `Memory` gives: exactly, and so not in numpy."""
    moments = np.empty((len(event_times), 3))
    moments[:, 0] = [value / 1_000_000 for value in event_times]
    moments[:, 1] = _seconds(valid_from, missing=-_FOREVER)
    moments[:, 2] = np.minimum(
        _seconds(valid_until, missing=_FOREVER), _seconds(expires_at, missing=_FOREVER)
    )
    return moments


def _seconds(microseconds: Sequence[int | None], *, missing: float) -> Sequence[float] | NDArray[np.float64]:
    if microseconds.count(None) == len(microseconds):  # of most rungs, and told in no time
        return np.full(len(microseconds), missing)
    return [missing if value is None else value / 1_000_000 for value in microseconds]
