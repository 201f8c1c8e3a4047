"""Makes the messages that a server pushes."""

import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from settable import DIMENSION, FINGERPRINT, term_vector

from precall.proto import anticipation_pb2, common_pb2
from precall.scoring import keyword, terms, vectors
from precall.scoring.fusion import KEYWORD_SHARE
from precall.scoring.keyword import KeywordIndex

SCOPE = {"customer": "acme", "user": "dana"}
EVENT_SECONDS = 1_700_000_000


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A memory as a server keeps it, with its vector and impacts."""

    text: str
    scope: Mapping[str, str] = field(default_factory=lambda: SCOPE)
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    importance: float = 0.5
    event_seconds: int = EVENT_SECONDS
    key: str = ""
    created_version: int = 1

    @property
    def rung(self) -> str:
        return list(self.scope)[-1]

    @property
    def vector(self) -> np.ndarray:
        return term_vector(self.text).astype(np.float16)

    @property
    def impacts(self) -> dict[str, float]:
        return keyword.document_impacts(terms.analyze(self.text))

    @property
    def stamp(self) -> int:
        return zlib.crc32(f"{self.id} {self.text}".encode())

    @property
    def message(self) -> common_pb2.Memory:
        memory = common_pb2.Memory(
            id=self.id,
            scope=common_pb2.Scope(levels=dict(self.scope)),
            kind="MEMORY_KIND_FACT",
            state="MEMORY_STATE_CURRENT",
            text=self.text,
            key=self.key,
            importance=self.importance,
            confidence=1.0,
            created_version=self.created_version,
        )
        memory.event_time.seconds = self.event_seconds
        return memory


def vectors_message(rows: Sequence[np.ndarray], fingerprint: str = FINGERPRINT) -> common_pb2.Vectors:
    return common_pb2.Vectors(
        data=b"".join(vectors.to_bytes(row, vectors.FLOAT16) for row in rows),
        count=len(rows),
        dimension=DIMENSION,
        format="VECTOR_FORMAT_FLOAT16",
        model_fingerprint=fingerprint,
    )


def pushed_item(stored: Stored, predictor: str = "rung") -> anticipation_pb2.PushedItem:
    impacts = stored.impacts
    return anticipation_pb2.PushedItem(
        memory=stored.message,
        rung=stored.rung,
        predictor=predictor,
        stamp=stored.stamp,
        impacts=common_pb2.KeywordImpacts(
            terms=list(impacts), weights=np.array(list(impacts.values()), "<f4").tobytes()
        ),
    )


def rung_claim(level: str, stored: Sequence[Stored], *, complete: bool) -> anticipation_pb2.RungClaim:
    """What the server says of a rung that holds these memories."""
    index = KeywordIndex()
    for each in stored:
        index.add(each.impacts)
    statistics = index.statistics()
    return anticipation_pb2.RungClaim(
        rung=level,
        complete=complete,
        memories=len(stored),
        statistics=common_pb2.KeywordStatistics(
            documents=statistics.documents,
            terms=list(statistics.frequencies),
            document_frequencies=np.array(list(statistics.frequencies.values()), "<u4").tobytes(),
        ),
    )


def coverage(query: str, floor: float, coverage_id: int = 1) -> anticipation_pb2.Coverage:
    return anticipation_pb2.Coverage(
        query_vector=vectors_message([term_vector(query)]),
        query_terms=terms.analyze(query),
        floor=floor,
        keyword_share=KEYWORD_SHARE,
        coverage_id=coverage_id,
    )


def push(
    stored: Sequence[Stored] = (),
    *,
    push_id: int = 1,
    session_id: str = "session",
    reset: bool = False,
    resumed: bool = False,
    last: bool = True,
    version: int = 1,
    fingerprint: str = FINGERPRINT,
    rungs: Sequence[anticipation_pb2.RungClaim] = (),
    evicted: Sequence[str] = (),
    covers: anticipation_pb2.Coverage | None = None,
    retired: Sequence[int] = (),
    caused_by: int = 0,
) -> anticipation_pb2.Push:
    message = anticipation_pb2.Push(
        session_id=session_id,
        push_id=push_id,
        reset=reset,
        resumed=resumed,
        last=last,
        items=[pushed_item(each) for each in stored],
        vectors=vectors_message([each.vector for each in stored], fingerprint),
        version=version,
        rungs=rungs,
        evicted_ids=evicted,
        retired_coverage_ids=retired,
        caused_by_sequence=caused_by,
    )
    if covers is not None:
        message.coverage.CopyFrom(covers)
    return message


def whole_rungs(stored: Sequence[Stored], **arguments: object) -> anticipation_pb2.Push:
    """A push that makes both rungs of SCOPE complete."""
    claims = [
        rung_claim(level, [each for each in stored if each.rung == level], complete=True) for level in SCOPE
    ]
    return push(stored, rungs=claims, **arguments)  # type: ignore[arg-type]
