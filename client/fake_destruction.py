"""What goes with a memory that is destroyed in a fake client."""

from collections.abc import Collection, Mapping

from precall.client.memory import Memory


def doomed(memories: Mapping[str, Memory], named: Collection[str]) -> list[str]:
    """Ids of the named memories and of all that hangs on them, in order of arrival.

    A current statement takes the history of its key with it, and every memory what was derived from it
    (``MemorySource.memory_ids``), on any rung, and so on.
    """
    going = set(named)
    reached = list(named)
    while reached:
        head = memories[reached.pop()]
        for each in memories.values():
            if each.id not in going and _hangs_on(each, head):
                going.add(each.id)
                reached.append(each.id)
    return [memory_id for memory_id in memories if memory_id in going]


def _hangs_on(memory: Memory, head: Memory) -> bool:
    derived = head.id in memory.source.memory_ids
    statement = bool(head.key) and memory.key == head.key and memory.scope == head.scope
    return derived or (statement and head.state == "current")
