"""A memory as an index keeps it: undecoded until somebody asks for it."""

from precall.engine.memory.decoded_memory import decode_said
from precall.engine.memory.memory import Memory


class KeptMemory:
    """A current memory, either whole or as the bytes of its row that its checksum is of.

    Of the thousands that a rung brings from the disk a search shows ten: these are decoded when they are
    first shown and stay so, the others never are. The bytes take less memory than the object, and the
    collector does not walk over them. Any number of threads may ask.
    """

    __slots__ = ("_held",)

    def __init__(self, held: Memory | bytes) -> None:
        """``held`` as bytes: what `precall.engine.memory.rows.verified_said` returned."""
        self._held = held

    @property
    def memory(self) -> Memory:
        """The same object at each call, save that two threads that are the first to ask may get one each."""
        held = self._held
        if isinstance(held, bytes):
            held = self._held = decode_said(held)
        return held
