"""What a search or a list may show, as the caller said it."""

from datetime import datetime

from precall.engine.errors import InvalidInput
from precall.engine.index.filter import MemoryFilter, facets_of
from precall.engine.memory.memory import Memory
from precall.proto import common_pb2
from precall.server.mapping.memories import kind_of
from precall.server.mapping.values import moment


def filter_of(message: common_pb2.Filter) -> MemoryFilter:
    """Raises InvalidInput."""
    begin, end = _moment_of(message, "event_from"), _moment_of(message, "event_until")
    if begin is not None and end is not None and end <= begin:
        raise InvalidInput("filter.event_until must be after filter.event_from")
    return MemoryFilter(
        kinds=frozenset(kind_of(kind, "filter.kinds") for kind in message.kinds),
        metadata=dict(message.metadata),
        event_from=begin,
        event_until=end,
        conversation_ids=frozenset(message.conversation_ids),
        keys=frozenset(message.keys),
        pinned_only=message.pinned_only,
    )


def passes(memory: Memory, asked: MemoryFilter) -> bool:
    """Whether a list under the filter shows the memory; searches judge by the same facets."""
    if asked.event_from is not None and memory.event_time < asked.event_from:
        return False
    if asked.event_until is not None and memory.event_time >= asked.event_until:
        return False
    facets = frozenset(facets_of(memory))
    return all(not alternatives.isdisjoint(facets) for alternatives in asked.alternatives())


def _moment_of(message: common_pb2.Filter, field: str) -> datetime | None:
    return moment(getattr(message, field), f"filter.{field}") if message.HasField(field) else None
