"""Which key opened which stream and session: ids that leak must not let another key in."""

from dataclasses import dataclass, field

from precall.engine.errors import AlreadyExists, SessionNotFound, StreamNotFound


@dataclass(slots=True)
class _OpenStream:
    key_id: str
    session_ids: set[str] = field(default_factory=set)


class StreamBook:
    """Streams and sessions that are open now, each with the key that opened it.

    A stream or a session of another key is not found, just as one that does not exist.
    """

    def __init__(self) -> None:
        self._streams: dict[str, _OpenStream] = {}
        self._sessions: dict[str, str] = {}  # session -> stream

    @property
    def stream_count(self) -> int:
        return len(self._streams)

    @property
    def session_count(self) -> int:
        return len(self._sessions)

    def open_stream(self, stream_id: str, key_id: str) -> None:
        """Raises AlreadyExists."""
        if stream_id in self._streams:
            raise AlreadyExists("this stream_id is in use: make a new UUID for each Watch call")
        self._streams[stream_id] = _OpenStream(key_id)

    def close_stream(self, stream_id: str) -> None:
        """Forget a stream and the sessions that are still on it."""
        stream = self._streams.pop(stream_id, None)
        for session_id in () if stream is None else stream.session_ids:
            self._sessions.pop(session_id, None)

    def require_stream(self, stream_id: str, key_id: str) -> None:
        """Raises StreamNotFound."""
        stream = self._streams.get(stream_id)
        if stream is None or stream.key_id != key_id:
            raise StreamNotFound("no such stream: call Watch with a new stream_id, then open sessions on it")

    def require_openable(self, session_id: str, stream_id: str, key_id: str) -> None:
        """Raises StreamNotFound, or AlreadyExists for a session of another key."""
        self.require_stream(stream_id, key_id)
        earlier = self._sessions.get(session_id)
        if earlier is not None and self._streams[earlier].key_id != key_id:
            raise AlreadyExists("this session_id is in use: make a new UUID")

    def open_session(self, session_id: str, stream_id: str, key_id: str) -> None:
        """Put a session on a stream, off the one it was on before. Raises StreamNotFound, AlreadyExists."""
        self.require_openable(session_id, stream_id, key_id)
        earlier = self._sessions.get(session_id)
        if earlier is not None:
            self._streams[earlier].session_ids.discard(session_id)
        self._streams[stream_id].session_ids.add(session_id)
        self._sessions[session_id] = stream_id

    def close_session(self, session_id: str, key_id: str) -> bool:
        """Whether the key had such a session: one that is not known, or another key's, is left alone."""
        stream_id = self._sessions.get(session_id)
        if stream_id is None or self._streams[stream_id].key_id != key_id:
            return False
        del self._sessions[session_id]
        self._streams[stream_id].session_ids.discard(session_id)
        return True

    def require_session(self, session_id: str, key_id: str) -> None:
        """Raises SessionNotFound."""
        stream_id = self._sessions.get(session_id)
        if stream_id is None or self._streams[stream_id].key_id != key_id:
            raise SessionNotFound("no such session: open it on a live stream")

    def check_integrity(self) -> None:
        """Raise AssertionError when the books disagree; for tests."""
        listed = {session: stream for stream, o in self._streams.items() for session in o.session_ids}
        assert listed == self._sessions
