"""Which of what a session holds goes on to be held when its connection is another one."""

from collections.abc import Iterable, Mapping, Set
from typing import Final

from precall.client.cache import SessionCache
from precall.client.stream import Stream

MAX_NAMED: Final = 65_536
"""As the server has it. Whoever holds more begins with nothing on each connection."""


class Resumption:
    """What the server was told is held, and counts on from then: of one session's cache."""

    def __init__(self, cache: SessionCache) -> None:
        self._cache = cache
        self._told_on: Stream | None = None
        self._named: Set[str] = frozenset()

    def name(self, source: Stream | None, stream: Stream) -> Mapping[str, int]:
        """Id -> stamp of what the server is told on ``stream`` of what came over ``source``.

        Nothing where any of it has grown too old or was sent under other conditions: then all comes anew.
        """
        held: Mapping[str, int] = {}
        if source is not None and source.is_like(stream) and not self._cache.aged:
            held = self._cache.stamps()
        if len(held) > MAX_NAMED:
            held = {}
        self._told_on, self._named = (stream, held.keys()) if held else (None, frozenset())
        return held

    def told_on(self, stream: Stream) -> bool:
        """Whether the last word on that connection was that something is held."""
        return self._told_on is stream

    def stands(self, *, beside: Iterable[str]) -> bool:
        """Whether all that was named is held still, beside what the server takes back.

        Items go meanwhile by age and by what was on its way. The server would claim to have sent them.
        """
        return self._named - set(beside) <= self._cache.stamps().keys()
