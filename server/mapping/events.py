"""What a stream carries, as messages of the wire."""

from collections.abc import Sequence
from functools import cache
from typing import Final

import numpy as np

from precall.engine.anticipation.events import (
    Draining,
    Heartbeat,
    Invalidation,
    Push,
    PushedCoverage,
    PushedMemory,
    RungClaim,
    SessionEnded,
    StreamEvent,
    StreamOpened,
)
from precall.engine.anticipation.stamp import stamp_of
from precall.engine.change import ChangeCause
from precall.engine.memory.ladder import Ladder
from precall.proto import anticipation_pb2, common_pb2
from precall.scoring import vectors as codec
from precall.scoring.keyword import Statistics
from precall.scoring.version import SCORING_VERSION
from precall.server.mapping.memories import memory_message
from precall.server.mapping.values import duration, timestamp_of
from precall.server.mapping.vectors import vectors_message

_CAUSES: Final = {
    # A write's invalidation is about what it took the place of.
    ChangeCause.WRITTEN: anticipation_pb2.INVALIDATION_CAUSE_SUPERSEDED,
    ChangeCause.SUPERSEDED: anticipation_pb2.INVALIDATION_CAUSE_SUPERSEDED,
    ChangeCause.DELETED: anticipation_pb2.INVALIDATION_CAUSE_DELETED,
    ChangeCause.EXPIRED: anticipation_pb2.INVALIDATION_CAUSE_EXPIRED,
}


_EVENT_PUSH: Final = anticipation_pb2.WatchEvent.PUSH_FIELD_NUMBER
_PUSH_ITEM: Final = anticipation_pb2.Push.ITEMS_FIELD_NUMBER
_LENGTH_DELIMITED: Final = 2
"""Wire type of what has a length before it: https://protobuf.dev/programming-guides/encoding/"""


class EventMapper:
    """Turns one tenant's stream events into messages; vectors travel as float16 rows of one model."""

    def __init__(self, ladder: Ladder, model_fingerprint: str, dimension: int) -> None:
        self._ladder = ladder
        self._fingerprint = model_fingerprint
        self._dimension = dimension

    def message(self, event: StreamEvent) -> anticipation_pb2.WatchEvent:
        """The event with its sequence and whether somebody waits for it."""
        return anticipation_pb2.WatchEvent.FromString(self.serialized(event))

    def serialized(self, event: StreamEvent) -> bytes:
        """A `WatchEvent` in bytes. What is pushed was brought into its form before, as often as not: such
        fields are strung together, which the wire format allows.
        """
        message = anticipation_pb2.WatchEvent(sequence=event.sequence, confirm=event.confirm)
        match event.body:
            case Push() as push:
                return message.SerializeToString() + _field(_EVENT_PUSH, self._push(push))
            case Invalidation() as invalidation:
                message.invalidation.CopyFrom(
                    anticipation_pb2.Invalidation(
                        memory_ids=invalidation.memory_ids,
                        version=invalidation.version,
                        cause=_CAUSES[invalidation.cause],
                        session_ids=invalidation.session_ids,
                    )
                )
            case Heartbeat(version, wall_time):
                message.heartbeat.version = version
                message.heartbeat.server_time.CopyFrom(timestamp_of(wall_time))
            case StreamOpened() as opened:
                message.opened.CopyFrom(_opened(opened))
            case SessionEnded(session_id, reason):
                message.session_ended.session_id = session_id
                message.session_ended.reason = reason
            case Draining(grace_seconds):
                message.draining.grace.CopyFrom(duration(grace_seconds))
        return message.SerializeToString()

    def _push(self, push: Push) -> bytes:
        message = anticipation_pb2.Push(
            session_id=push.session_id,
            push_id=push.push_id,
            reset=push.reset,
            resumed=push.resumed,
            last=push.last,
            evicted_ids=push.evicted_ids,
            version=push.version,
            rungs=[_claim(claim) for claim in push.rungs],
            caused_by_sequence=push.caused_by_sequence,
            retired_coverage_ids=push.retired_coverage_ids,
        )
        if push.items:
            message.vectors.CopyFrom(self._vectors([item.indexed.vector for item in push.items]))
        if push.coverage is not None:
            message.coverage.CopyFrom(self._coverage(push.coverage))
        if push.caused_at is not None:
            message.caused_at.CopyFrom(timestamp_of(push.caused_at))
        return b"".join([message.SerializeToString(), *map(self._item, push.items)])

    def _item(self, item: PushedMemory) -> bytes:
        derived = item.indexed.derived
        if not derived.wire:
            derived.wire = self._lasting_part(item)
        return _field(_PUSH_ITEM, derived.wire + _predictor(item.predictor))

    def _lasting_part(self, item: PushedMemory) -> bytes:
        """All of an item but the predictor that brought it here."""
        impacts = item.indexed.impacts
        return anticipation_pb2.PushedItem(
            memory=memory_message(item.indexed.memory, self._ladder),
            rung=item.level,
            impacts=common_pb2.KeywordImpacts(
                terms=list(impacts),
                weights=np.fromiter(impacts.values(), codec.FLOAT32, len(impacts)).tobytes(),
            ),
            stamp=stamp_of(item.indexed),
        ).SerializeToString()

    def _coverage(self, coverage: PushedCoverage) -> anticipation_pb2.Coverage:
        return anticipation_pb2.Coverage(
            # float32: a bound that is drawn from this vector must not rest on a rounded one
            query_vector=vectors_message(
                [coverage.vector], self._fingerprint, self._dimension, common_pb2.VECTOR_FORMAT_FLOAT32
            ),
            query_terms=sorted(coverage.terms),
            floor=coverage.floor,
            version=coverage.version,
            predictor=coverage.predictor,
            coverage_id=coverage.id,
            keyword_share=coverage.keyword_share,
            negated=coverage.negated,
        )

    def _vectors(self, rows: Sequence[np.ndarray[tuple[int], np.dtype[np.float16]]]) -> common_pb2.Vectors:
        return vectors_message(rows, self._fingerprint, self._dimension, common_pb2.VECTOR_FORMAT_FLOAT16)


def _opened(opened: StreamOpened) -> anticipation_pb2.StreamOpened:
    return anticipation_pb2.StreamOpened(
        heartbeat_interval=duration(opened.heartbeat_seconds),
        lease=duration(opened.lease_seconds),
        model_fingerprint=opened.model_fingerprint,
        server_time=timestamp_of(opened.wall_time),
        maximum_age=duration(opened.maximum_age_seconds),
        model_scripts=opened.model_scripts,
        scoring_version=SCORING_VERSION,
    )


def _claim(claim: RungClaim) -> anticipation_pb2.RungClaim:
    message = anticipation_pb2.RungClaim(
        rung=claim.level, complete=claim.complete, memories=claim.memories, vocabulary=claim.vocabulary
    )
    if claim.statistics is not None:
        message.statistics.CopyFrom(_statistics(claim.statistics))
    return message


def _statistics(statistics: Statistics) -> common_pb2.KeywordStatistics:
    frequencies = statistics.frequencies
    return common_pb2.KeywordStatistics(
        documents=statistics.documents,
        terms=list(frequencies),
        document_frequencies=np.fromiter(frequencies.values(), np.dtype("<u4"), len(frequencies)).tobytes(),
    )


def _field(number: int, content: bytes) -> bytes:
    """A field of a message in a message; ``number``: at most 15, so that its tag is one byte."""
    length, size = bytearray(), len(content)
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    length.append(size)
    return bytes((number << 3 | _LENGTH_DELIMITED,)) + bytes(length) + content


@cache
def _predictor(name: str) -> bytes:
    """There are as many as there are predictors."""
    return anticipation_pb2.PushedItem(predictor=name).SerializeToString()
