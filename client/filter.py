"""Which memories a search or a list may return: what a caller says beside the query."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from precall.client import arguments, convert
from precall.client.errors import InvalidInput
from precall.client.memory import Memory
from precall.proto import common_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFilter:
    """Fields are joined by AND, the values of one field by OR; metadata entries must all be there.

    A field that is left out asks for nothing. ``kinds`` are of ``MEMORY_KINDS``. ``event_from`` is inclusive,
    ``event_until`` exclusive; both must carry a time zone. ``conversation_ids``: of the memories' sources.
    """

    kinds: Collection[str] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    event_from: datetime | None = None
    event_until: datetime | None = None
    conversation_ids: Collection[str] = ()
    keys: Collection[str] = ()
    pinned_only: bool = False

    def admits(self, memory: Memory) -> bool:
        """Whether a list under this filter shows the memory; the server judges by the same rules."""
        return (
            (not self.kinds or memory.kind in self.kinds)
            and self.metadata.items() <= memory.metadata.items()
            and (self.event_from is None or memory.event_time >= self.event_from)
            and (self.event_until is None or memory.event_time < self.event_until)
            and (not self.conversation_ids or memory.source.conversation_id in self.conversation_ids)
            and (not self.keys or memory.key in self.keys)
            and (not self.pinned_only or memory.pinned)
        )


def filter_to_wire(asked: MemoryFilter | None) -> common_pb2.Filter | None:
    """None for no filter. Raises InvalidInput for what no server would take: an unknown kind, a naive moment,
    an end that is not after its beginning, a value of the wrong type.
    """
    if asked is None:
        return None
    if not isinstance(asked, MemoryFilter):
        raise InvalidInput(f"filter must be a MemoryFilter, not {type(asked).__name__}")
    message = common_pb2.Filter(
        kinds=[convert.kind_to_wire(kind) for kind in arguments.texts(asked.kinds, "filter.kinds")],
        metadata=arguments.text_map(asked.metadata, "filter.metadata"),
        conversation_ids=arguments.texts(asked.conversation_ids, "filter.conversation_ids"),
        keys=arguments.texts(asked.keys, "filter.keys"),
        pinned_only=bool(asked.pinned_only),
    )
    if asked.event_from is not None:
        message.event_from.CopyFrom(convert.moment_to_wire(asked.event_from, name="filter.event_from"))
    if asked.event_until is not None:
        message.event_until.CopyFrom(convert.moment_to_wire(asked.event_until, name="filter.event_until"))
        if asked.event_from is not None and asked.event_until <= asked.event_from:
            raise InvalidInput("filter.event_until must be after filter.event_from")
    return message
