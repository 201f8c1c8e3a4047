"""The encoder that fits the server's model, found, fetched and loaded in the background."""

import asyncio
import logging

from precall.client import onnx_model
from precall.client.background import start_background
from precall.client.backoff import Backoff
from precall.client.encoder import LocalEncoder, QueryEncoder, TextModel
from precall.client.encoder_store import EncoderStore, StoredEncoder
from precall.client.errors import ExtraMissing, ModelUnavailable, NotSupported, Unavailable
from precall.client.light_model import LightModel
from precall.client.onnx_model import OnnxModel
from precall.client.options import ClientOptions, LocalEncoding
from precall.client.transport import Transport
from precall.client.watcher import Watcher

_log = logging.getLogger(__name__)

_RETRY_MAXIMUM_SECONDS = 30.0
"""Each try reads and hashes the whole model: not something to do every few seconds."""


class EncoderSupply:
    """Follows the stream: another model on the server means another encoder here.

    Until one is loaded, or for good when there is none, reads ask the server. An encoder that the user
    brought is used as it is, as long as its fingerprint is the server's. One of a model that the server has
    no more is kept until the next one is loaded: what is held may be of its model still, and the change may
    be taken back.
    """

    def __init__(
        self, transport: Transport, watcher: Watcher, options: ClientOptions, own: QueryEncoder | None
    ) -> None:
        self._store = EncoderStore(options.cache_directory / "encoders", transport)
        self._watcher = watcher
        self._options = options
        self._encoder: QueryEncoder | None = own
        self._own = own is not None
        self._loaded = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def encoder(self) -> QueryEncoder | None:
        """Whatever is loaded; it may be of another model than the server's."""
        return self._encoder

    @property
    def fitting(self) -> QueryEncoder | None:
        """What is loaded, unless the server is known to have another model."""
        encoder, wanted = self._encoder, self._watcher.model_fingerprint
        return encoder if encoder is not None and wanted in ("", encoder.model_fingerprint) else None

    async def decided(self) -> None:
        """Wait until an encoder is loaded, or it is known that there will be none."""
        await self._loaded.wait()

    def start(self) -> None:
        """Raises ExtraMissing when local encoding is required and its extra is not installed."""
        if self._own or self._options.local_encoding is LocalEncoding.OFF:
            self._loaded.set()
            return
        try:
            onnx_model.require_local_extra()
        except ExtraMissing as error:
            if self._options.local_encoding is LocalEncoding.REQUIRED:
                raise
            _log.warning("every read will ask the server: %s", error.message)
            self._loaded.set()
            return
        self._task = start_background(self._run(), name="precall-encoder-supply")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._release()

    async def _run(self) -> None:
        backoff = Backoff(self._options.reconnect_initial_seconds, _RETRY_MAXIMUM_SECONDS)
        while True:
            stream = await self._watcher.opened()
            if self.fitting is None:
                self._loaded.clear()
                try:
                    await self._load(stream.model_fingerprint)
                except NotSupported as error:
                    _log.warning("every read will ask the server: %s", error.message)
                except (
                    ModelUnavailable
                ):  # the server makes one, which can take minutes: nobody waits for that
                    self._loaded.set()
                    await asyncio.sleep(backoff.next())
                    continue
                except Exception as error:
                    if not isinstance(error, Unavailable):
                        _log.warning("the local encoder could not be loaded, trying again: %r", error)
                    await asyncio.sleep(backoff.next())
                    continue
                backoff.reset()
            self._loaded.set()
            await stream.closed()

    async def _load(self, model_fingerprint: str) -> None:
        stored = await self._store.fetch(model_fingerprint)
        threads = self._options.encoder_threads
        model = await asyncio.to_thread(_loaded, stored, threads)
        encoder = LocalEncoder(model, remembered=self._options.encoded_texts)
        await encoder.encode("warm up")  # the first run allocates: a read must not pay for it
        self._release()
        self._encoder = encoder

    def _release(self) -> None:
        if isinstance(self._encoder, LocalEncoder) and not self._own:
            self._encoder.close()
            self._encoder = None


def _loaded(stored: StoredEncoder, threads: int) -> TextModel:
    small = OnnxModel(stored, threads=threads)
    return small if stored.map is None else LightModel(stored, stored.map, small)
