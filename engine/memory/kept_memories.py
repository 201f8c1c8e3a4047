"""The memories of an index, undecoded until somebody asks for one."""

import threading
from collections.abc import Iterator, Sequence

from precall.engine.memory.decoded_memory import decode_said
from precall.engine.memory.memory import Memory


class KeptMemories:
    """Id -> current memory, either whole or as the bytes of its row that its checksum is of.

    Of the thousands that a rung brings from the disk a search shows ten: these are decoded when they are
    first shown and stay so, the others never are. The bytes take less memory than the object, and the
    collector does not walk over them. One thread at a time may change the table, any number may ask.
    """

    def __init__(self) -> None:
        self._held: dict[str, Memory | bytes] = {}
        self._lock = threading.Lock()  # held by whoever writes to the table, be it what a reader decoded

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, memory_id: str) -> bool:
        return memory_id in self._held

    def __iter__(self) -> Iterator[str]:
        """Ids, in order of arrival, of those that are here now."""
        return iter(list(self._held))

    def get(self, memory_id: str) -> Memory | None:
        """The same object at each call, for as long as it is here."""
        held = self._held.get(memory_id)
        if not isinstance(held, bytes):
            return held
        decoded = decode_said(held)
        with self._lock:
            now = self._held.get(memory_id)
            if now is held:
                self._held[memory_id] = decoded
            return now if isinstance(now, Memory) else decoded

    def __getitem__(self, memory_id: str) -> Memory:
        """Raises KeyError."""
        memory = self.get(memory_id)
        if memory is None:
            raise KeyError(memory_id)
        return memory

    def add(self, memory: Memory) -> None:
        with self._lock:
            self._held[memory.id] = memory

    def extend(self, ids: Sequence[str], contents: Sequence[bytes]) -> None:
        """``contents``: what `verified_contents` of `precall.engine.memory.decoded_memory` gave."""
        with self._lock:
            self._held.update(zip(ids, contents, strict=True))

    def pop(self, memory_id: str) -> Memory:
        """Raises KeyError."""
        memory = self[memory_id]
        with self._lock:
            del self._held[memory_id]
        return memory

    def clear(self) -> None:
        with self._lock:
            self._held.clear()
