"""The tiny models that the checks of ``gpu_contract`` run, and the measures that they are held to."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from precall.bench.gpu_model import RandomQwen3, Texts, random_texts
from precall.bench.gpu_reference import TransformersQwen3
from precall.engine.encoding.encoder import EncodedBatch, TokenizedText, TokenUsage
from precall.engine.encoding.qwen3 import Qwen3Encoder
from precall.engine.encoding.qwen3_reranker import Qwen3Reranker
from precall.engine.encoding.qwen3_settings import Qwen3EncoderSettings, Qwen3RerankerSettings
from precall.engine.encoding.torch_device import Placement

POISONED_TOKEN = 200
_LEAST_MAX_TOKENS = 1_024  # the reranker's prompt alone takes a third of that, a byte a token
SAME_TEXT = 0.9999
"""Least cosine between two computations of one text by the same model."""


@dataclass(frozen=True)
class Tolerance:
    """Against transformers in float32 on the same device: least cosine, and most difference of a score."""

    cosine: float
    score: float


TOLERANCES = {"float32": Tolerance(0.9999, 1e-3), "bfloat16": Tolerance(0.999, 3e-2)}
"""bfloat16 keeps 8 bits; two layers of the tiny models lose about half a percent of a state by it."""

SAME_PAIR = {"float32": 1e-3, "bfloat16": 1e-2}
"""Most difference between two scores of one pair by the same model."""


class NotHere(Exception):
    """The device has no such thing to check."""


class ContractModels:
    """The tiny models of a run and what was loaded of them; makes each once."""

    def __init__(self, folder: Path, device: str, *, longest: int = 4_096) -> None:
        """``longest``: tokens of the one long text of each length mix."""
        self.device = device
        self.longest = longest
        self.max_tokens = max(2 * longest, _LEAST_MAX_TOKENS)
        self.embedding = RandomQwen3().save(folder / "embedding")
        self.poisoned = RandomQwen3(poisoned_token=POISONED_TOKEN).save(folder / "poisoned")
        self.reranking = RandomQwen3(reranker=True).save(folder / "reranking")
        self._encoders: dict[str, Qwen3Encoder] = {}
        self._rerankers: dict[str, Qwen3Reranker] = {}
        self._exact: NDArray[np.float32] | None = None

    @property
    def on_gpu(self) -> bool:
        return Placement.choose(self.device, "auto").on_gpu

    def placement(self, dtype: str) -> Placement:
        return Placement.choose(self.device, dtype)

    def encoder_settings(self, dtype: str, **changes: object) -> Qwen3EncoderSettings:
        fields = {
            "model": self.embedding,
            "device": self.device,
            "dtype": dtype,
            "max_tokens": self.max_tokens,
        }
        return Qwen3EncoderSettings(**(fields | changes))  # type: ignore[arg-type]

    def encoder(self, dtype: str) -> Qwen3Encoder:
        if dtype not in self._encoders:
            self._encoders[dtype] = Qwen3Encoder(self.encoder_settings(dtype))
        return self._encoders[dtype]

    def reranker(self, dtype: str) -> Qwen3Reranker:
        if dtype not in self._rerankers:
            self._rerankers[dtype] = Qwen3Reranker(
                Qwen3RerankerSettings(
                    model=self.reranking, device=self.device, dtype=dtype, max_tokens=self.max_tokens
                )
            )
        return self._rerankers[dtype]

    def mixed_texts(self) -> Texts:
        """One token, turns of a conversation, a full passage, one long text."""
        turns = np.linspace(8, 60, 14, dtype=int).tolist()
        lengths = [1, *turns, min(512, self.longest), self.longest, 1, 2]
        return random_texts(lengths, seed=1, vocabulary=POISONED_TOKEN)

    def exact_vectors(self) -> NDArray[np.float32]:
        """Those of ``mixed_texts`` by transformers in float32, one by one."""
        if self._exact is None:
            reference = TransformersQwen3(self.embedding, self.placement("float32"))
            self._exact = reference.vectors_one_by_one(self.mixed_texts())
        return self._exact


def encode(encoder: Qwen3Encoder, texts: Texts) -> EncodedBatch:
    return encoder.encode([TokenizedText(text, TokenUsage(len(text), len(text))) for text in texts])


def least_cosine(first: NDArray[np.float32], second: NDArray[np.float32], bar: float) -> str:
    cosines = np.einsum("ij,ij->i", first, second)
    worst = int(np.argmin(cosines))
    assert cosines[worst] >= bar, f"cosine {cosines[worst]:.6f} < {bar} in row {worst} of {len(cosines)}"
    return f"least cosine {cosines[worst]:.6f}"


def most_difference(first: NDArray[np.float32], second: NDArray[np.float32], bar: float) -> str:
    worst = float(np.abs(first - second).max())
    assert worst <= bar, f"scores differ by {worst:.2e} > {bar:g}"
    return f"scores differ by {worst:.2e} at most"
