"""The streams of all tenants' clients that are connected."""

from collections.abc import Iterator

from precall.engine.anticipation.events import StreamOpened
from precall.engine.anticipation.lease import Lease
from precall.engine.anticipation.settings import AnticipationSettings
from precall.engine.anticipation.stream import Stream
from precall.engine.clock import Clock
from precall.engine.encoding.card import ModelCard
from precall.engine.errors import AlreadyExists, StreamNotFound


class Streams:
    """By id, from `open` to `remove`; one that has ended may stand here until its connection is gone."""

    def __init__(self, settings: AnticipationSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._streams: dict[str, Stream] = {}

    def __iter__(self) -> Iterator[Stream]:
        """Over those of this moment, whatever is opened and removed meanwhile."""
        return iter(list(self._streams.values()))

    def open(self, tenant_id: str, stream_id: str, card: ModelCard) -> Stream:
        """``card``: of the model that serves the tenant now. Raises AlreadyExists for an id in use: a client
        makes a new one for each connection.
        """
        if stream_id in self._streams:
            raise AlreadyExists("this stream_id is in use: make a new UUID for each Watch call")
        settings = self._settings
        stream = self._streams[stream_id] = Stream(
            stream_id,
            tenant_id,
            card,
            Lease(self._clock, settings.lease_seconds),
            self._clock,
            patience=settings.heartbeat_seconds,
            capacity=settings.stream_queue_events,
        )
        stream.send(
            StreamOpened(
                settings.heartbeat_seconds,
                settings.lease_seconds,
                settings.maximum_age_seconds,
                card.fingerprint,
                self._clock.wall(),
                card.scripts,
            )
        )
        return stream

    def of_tenant(self, tenant_id: str) -> list[Stream]:
        return [stream for stream in self if stream.tenant_id == tenant_id]

    def require(self, tenant_id: str, stream_id: str) -> Stream:
        """Raises StreamNotFound, for another tenant's as well."""
        stream = self._streams.get(stream_id)
        if stream is None or stream.tenant_id != tenant_id:
            raise StreamNotFound(
                "no such stream: call Watch with a new stream_id, then open the session again"
            )
        return stream

    def remove(self, stream: Stream) -> None:
        self._streams.pop(stream.id, None)
