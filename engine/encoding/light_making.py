"""Making a light encoder: the same neutral texts through both models, a map between them, and its measure."""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from precall.engine.encoding.background import give_way
from precall.engine.encoding.encoder import TextRole
from precall.engine.encoding.light_agreement import Agreement
from precall.engine.encoding.light_encoder import LightEncoder, LightFolder, SmallModel
from precall.engine.encoding.light_map import LearnedMap
from precall.engine.encoding.light_settings import LightSettings
from precall.engine.encoding.light_texts import NeutralTexts
from precall.engine.encoding.onnx_encoder import OnnxEncoder
from precall.engine.errors import ModelUnavailable

_BATCH: Final = 32
_HELD_OUT_WORDS: Final = 5
"""Every so manieth word stands in texts to measure on and in none to fit on."""


class LargeModel(Protocol):
    """The server's model, however it is reached."""

    @property
    def fingerprint(self) -> str: ...

    async def embed(self, texts: Sequence[str], role: TextRole) -> Sequence[NDArray[np.float32] | None]:
        """A unit vector a text, None where the text has none. Waits while the model is busy or fails."""
        ...


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Vectors of the same texts by both models, float32 unit rows, shapes ``(n, s)`` and ``(n, d)``."""

    small: NDArray[np.float32]
    large: NDArray[np.float32]


class SmallTexts(Protocol):
    """The small model at work."""

    def words(self) -> Sequence[str]:
        """The model's vocabulary."""
        ...

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit rows of what is asked, float32, shape ``(n, s)``. Raises what the model raises."""
        ...

    def close(self) -> None: ...


class SmallEncoder:
    """Implements ``SmallTexts`` in this process, on a thread that gives way to everything else."""

    def __init__(self, model: SmallModel) -> None:
        """Raises ModelUnavailable. Blocks while it loads."""
        self._thread = ThreadPoolExecutor(1, "precall-light-encoder", initializer=give_way)
        try:
            # Loaded there, because the runtime's own threads take the priority of the one that loads it.
            self._encoder = self._thread.submit(lambda: OnnxEncoder(model.exported, model.card)).result()
            self._tokenizer = model.exported.tokenizer
        except BaseException:
            self.close()
            raise

    def words(self) -> Sequence[str]:
        from tokenizers import Tokenizer

        return list(Tokenizer.from_file(str(self._tokenizer)).get_vocab())

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._embed, texts)

    def close(self) -> None:
        """Ends after what runs now."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        batch = self._encoder.encode(
            [self._encoder.tokenize(text, TextRole.QUERY, truncate=True) for text in texts]
        )
        for error in batch.errors.values():
            raise error
        return batch.vectors


class LightMaking:
    """Makes one light encoder."""

    def __init__(
        self,
        large: LargeModel,
        model: SmallModel,
        root: Path,
        settings: LightSettings,
        clock: Callable[[], float] = time.monotonic,
        load: Callable[[SmallModel], SmallTexts] | None = None,
    ) -> None:
        """``root``: folder of all light encoders of this server. ``clock``: seconds.

        ``load``: loads the small model, blocking; None: as a `SmallEncoder`.
        """
        self._large = large
        self._model = model
        self._folder = LightFolder.of(root, large.fingerprint, model)
        self._settings = settings
        self._clock = clock
        self._load = load if load is not None else SmallEncoder

    async def make(self) -> LightEncoder:
        """The one on disk if it is sound, else a new one.

        Raises OSError, ModelUnavailable, and what the models raise.
        """
        known = await asyncio.to_thread(self._folder.read, self._large.fingerprint, self._model)
        if known is not None:
            return known
        small = await asyncio.to_thread(self._load, self._model)
        try:
            return await self._make(small)
        finally:
            small.close()

    async def _make(self, small: SmallTexts) -> LightEncoder:
        started = self._clock()
        measured = self._settings.measured
        words = NeutralTexts.of_vocabulary(small.words()).words
        unseen = NeutralTexts(words[::_HELD_OUT_WORDS], seed=1)
        documents = _rows(await self._large.embed(unseen.statements(measured), TextRole.DOCUMENT))
        asked = await self._pairs(small, unseen.questions(measured))

        seen = NeutralTexts([word for place, word in enumerate(words) if place % _HELD_OUT_WORDS])
        texts = seen.questions(self._settings.fitted)
        parts: list[_Pairs] = []
        fitted = 0
        for start in range(0, len(texts), _BATCH):
            if fitted >= self._settings.least_fitted and self._clock() - started > self._settings.seconds:
                break
            parts.append(await self._pairs(small, texts[start : start + _BATCH]))
            fitted += len(parts[-1].small)
        return await asyncio.to_thread(self._fit, parts, asked, documents)

    async def _pairs(self, small: SmallTexts, texts: Sequence[str]) -> _Pairs:
        """Without the texts that the large model has no vector for. Raises ModelUnavailable."""
        large = await self._large.embed(texts, TextRole.QUERY)
        rows = [row for row, vector in enumerate(large) if vector is not None]
        return _Pairs((await small.embed(texts))[rows], _rows(large))

    def _fit(self, parts: Sequence[_Pairs], asked: _Pairs, documents: NDArray[np.float32]) -> LightEncoder:
        learned = LearnedMap.fitted(
            np.concatenate([part.small for part in parts]), np.concatenate([part.large for part in parts])
        )
        agreement = Agreement.measured(learned(asked.small), asked.large, documents)
        return self._folder.write(self._large.fingerprint, self._model, learned, agreement)


def _rows(vectors: Sequence[NDArray[np.float32] | None]) -> NDArray[np.float32]:
    """Raises ModelUnavailable when most texts have no vector: then it is not for the texts."""
    given = [vector for vector in vectors if vector is not None]
    if 2 * len(given) < len(vectors) or not given:
        raise ModelUnavailable(f"the model embedded {len(given)} of {len(vectors)} simple texts")
    return np.stack(given)
