"""Encoders for the clients of models that are too large for them, made when a client first asks."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import structlog
from numpy.typing import NDArray

from precall.engine.batching.batcher import Batcher
from precall.engine.batching.work import WorkClass
from precall.engine.encoding.card import ModelCard
from precall.engine.encoding.encoder import TextRole
from precall.engine.encoding.light_encoder import LightEncoder
from precall.engine.encoding.light_making import LightMaking
from precall.engine.encoding.light_settings import LightSettings
from precall.engine.errors import ModelUnavailable, NotSupported, Overloaded, PrecallError
from precall.engine.migration.stop_signal import growing_pauses
from precall.engine.models import Models
from precall.server.metrics import ServerMetrics

FOLDER_NAME: Final = "light-encoders"
_TENANT: Final = "precall light encoder"
"""Whose texts these are in the queue's eyes. No tenant's id has a space."""

_logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class BatchedModel:
    """Implements ``LargeModel``: as class INGEST, so that nobody's conversation waits for it."""

    batcher: Batcher

    @property
    def fingerprint(self) -> str:
        return self.batcher.encoder.card.fingerprint

    async def embed(self, texts: Sequence[str], role: TextRole) -> Sequence[NDArray[np.float32] | None]:
        """A refusal is waited out for as long as it says, a failing model for longer each time."""
        pauses = growing_pauses()
        while True:
            try:
                outcomes = await self.batcher.embed(
                    texts, role, tenant=_TENANT, work_class=WorkClass.INGEST, truncate=True
                )
            except Overloaded as refusal:
                await asyncio.sleep(refusal.retry_after_seconds)
                continue
            if all(isinstance(outcome.error, ModelUnavailable) for outcome in outcomes):
                await asyncio.sleep(next(pauses))
                continue
            return [outcome.vector for outcome in outcomes]


class LightEncoders:
    """Of every model of this server that clients cannot run. Each is made once and kept in the data folder.

    Made on demand: a server whose clients all leave embedding to it never pays for one. Only the event loop
    may call in.
    """

    def __init__(
        self,
        models: Models,
        settings: Mapping[str, LightSettings],
        data_dir: Path,
        metrics: ServerMetrics,
    ) -> None:
        """``settings``: by a model's fingerprint; a model that is not there gets no light encoder."""
        self._models = models
        self._folder = data_dir / FOLDER_NAME
        self._metrics = metrics
        self._settings = settings
        self._made: dict[str, LightEncoder] = {}
        self._making: dict[str, asyncio.Task[None]] = {}
        self._failed: dict[str, PrecallError] = {}

    def of(self, card: ModelCard) -> LightEncoder:
        """That of a model of this server.

        Raises ModelUnavailable while it is being made, and NotSupported when it cannot be made.
        """
        fingerprint = card.fingerprint
        made = self._made.get(fingerprint)
        if made is not None:
            return made
        if fingerprint not in self._settings:
            raise NotSupported(f"{card.name} has no encoder for clients: let the server embed the queries")
        failed = self._failed.get(fingerprint)
        if failed is not None:
            raise NotSupported(f"there is no encoder for clients of {card.name}: {failed.message}")
        if fingerprint not in self._making:
            self._making[fingerprint] = asyncio.create_task(
                self._make(fingerprint), name=f"light-encoder-{fingerprint[:8]}"
            )
        raise ModelUnavailable(
            "the encoder for clients is being made: ask again, and let the server embed queries until then"
        )

    def forget(self, fingerprint: str) -> None:
        """Its files are not what they were: look at them again when it is next asked for."""
        self._made.pop(fingerprint, None)

    async def close(self) -> None:
        """Give up what is being made."""
        making = list(self._making.values())
        for task in making:
            task.cancel()
        await asyncio.gather(*making, return_exceptions=True)

    async def _make(self, fingerprint: str) -> None:
        started = asyncio.get_running_loop().time()
        try:
            settings = self._settings[fingerprint]
            small = await asyncio.to_thread(settings.find_small)
            large = BatchedModel(self._models.named(fingerprint).batcher)
            encoder = await LightMaking(large, small, self._folder, settings).make()
        except PrecallError as error:
            self._failed[fingerprint] = error
            _logger.warning("no encoder for clients", model_fingerprint=fingerprint, reason=error.message)
        except OSError as error:
            self._failed[fingerprint] = ModelUnavailable(f"it cannot be kept on disk: {error}")
            _logger.warning("no encoder for clients", model_fingerprint=fingerprint, reason=str(error))
        else:
            self._made[fingerprint] = encoder
            self._metrics.light_encoder(encoder)
            _logger.info(
                "made an encoder for clients",
                model_fingerprint=fingerprint,
                seconds=round(asyncio.get_running_loop().time() - started, 1),
                cosine=round(encoder.agreement.cosine, 4),
                top_ten_overlap=round(encoder.agreement.top_ten_overlap, 4),
            )
        finally:
            del self._making[fingerprint]
