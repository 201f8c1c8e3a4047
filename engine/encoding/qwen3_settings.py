"""How the Qwen3 models are loaded and asked."""

from dataclasses import dataclass
from pathlib import Path

from precall.engine.encoding.qwen3_prompts import WEB_SEARCH_INSTRUCTION
from precall.engine.errors import ConfigurationError

EMBEDDING_MODEL = "Qwen/Qwen3-Embedding-0.6B"
RERANKER_MODEL = "Qwen/Qwen3-Reranker-0.6B"

MINIMUM_DIMENSION = 32
"""The least that the embedding models were trained to be cut to."""

DTYPES = ("auto", "float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Qwen3Settings:
    """What the encoder and the reranker have in common. Nothing is ever downloaded."""

    model: str | Path
    """A folder, or the name of a model that is in the hub's cache on this machine."""

    revision: str = "main"
    """Branch or commit in the hub's cache; a folder has none."""

    name: str | None = None
    """Name on the model's card, and so in its fingerprint; None: the hub's name, or that of the folder."""

    weights_sha256: str | None = None
    """If given, weights with another digest (see ``Qwen3Files.weights_sha256``) are refused."""

    instruction: str = WEB_SEARCH_INSTRUCTION
    """The task, in one English sentence."""

    max_tokens: int | None = None
    """Longest input, special tokens and prompt included; None: what the model takes, 32,768."""

    device: str = "auto"
    """``cpu``, ``cuda``, ``cuda:1``…; ``auto``: the first GPU, else the processor."""

    dtype: str = "auto"
    """``auto``: bfloat16 on a GPU, float32 on a processor."""

    pass_tokens: int | None = None
    """Tokens of one forward pass; None: measured defaults of the device. A longer input goes alone."""

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ConfigurationError(f"model dtype must be one of {', '.join(DTYPES)}, not {self.dtype!r}")
        for name in ("max_tokens", "pass_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigurationError(f"model {name} must be at least 1, not {value}")
        if not self.instruction.strip() or "{" in self.instruction:
            raise ConfigurationError(
                "the model's instruction must be a sentence without braces: it becomes a part of the prompt"
            )


@dataclass(frozen=True)
class Qwen3EncoderSettings(Qwen3Settings):
    model: str | Path = EMBEDDING_MODEL

    dimension: int | None = None
    """Length that vectors are cut to before they are normalised; None: all of the model's."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dimension is not None and self.dimension < MINIMUM_DIMENSION:
            raise ConfigurationError(
                f"model dimension must be at least {MINIMUM_DIMENSION}, not {self.dimension}"
            )


@dataclass(frozen=True)
class Qwen3RerankerSettings(Qwen3Settings):
    model: str | Path = RERANKER_MODEL
