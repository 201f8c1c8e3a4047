"""Memories of one rung on their way from the disk into an index, many at a time.

What costs little for a thousand rows together costs much for each alone: parsing terms, looking at vectors,
filling tables. Each row is verified by its checksums all the same, before any of it is used.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from precall.engine.memory.decoded_memory import verified_said, verify_indexed
from precall.engine.memory.kept_memory import KeptMemory
from precall.engine.memory.rows import INDEXED_COLUMNS, DamagedRow, Row
from precall.scoring.memory_set import FeatureBlock

_NAMES = tuple(column.strip().partition(".")[2] for column in INDEXED_COLUMNS.split(","))
_FOREVER = float("inf")


class Labels(NamedTuple):
    """What filters ask of a memory, beside its event time."""

    kind: str
    pinned: bool
    conversation_id: str
    key: str
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """``n`` memories in order of arrival. ``said_bytes``: what their words and names take in memory."""

    ids: Sequence[str]
    memories: Sequence[KeptMemory]
    labels: Sequence[Labels]
    features: FeatureBlock
    said_bytes: int

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def of_rows(cls, rows: Sequence[Row], *, depth: int, dimension: int) -> Self:
        """Current memories, of at least one row of `INDEXED_COLUMNS`; ``depth``: of their rung.

        Raises DamagedRow.
        """
        said = [verified_said(row) for row in rows]
        for row in rows:
            verify_indexed(row)
        columns = dict(zip(_NAMES, zip(*rows, strict=True), strict=True))
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
            labels = [
                Labels(kind, bool(pinned), conversation_id, key, {} if words == "{}" else json.loads(words))
                for kind, pinned, conversation_id, key, words in zip(
                    *(columns[name] for name in ("kind", "pinned", "conversation_id", "key", "metadata")),
                    strict=True,
                )
            ]
        except (ValueError, TypeError) as error:
            raise DamagedRow(f"a memory is not what was written: {error}") from error
        return cls(columns["id"], list(map(KeptMemory, said)), labels, features, sum(map(len, said)))


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
    vectors = np.frombuffer(b"".join(contents), "<f2").astype(np.float16, copy=False)
    if set(map(len, contents)) != {2 * dimension} or not np.isfinite(vectors).all():
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
    moments[:, 1] = [-_FOREVER if value is None else value / 1_000_000 for value in valid_from]
    moments[:, 2] = [
        min([value / 1_000_000 for value in ends if value is not None], default=_FOREVER)
        for ends in zip(valid_until, expires_at, strict=True)
    ]
    return moments
