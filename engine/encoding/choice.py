"""Which model is to be run, by what, and how: what an operator says, before anything is loaded."""

import importlib.util
import json
import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import ModuleType

from precall.engine.encoding.minilm import CARD as MINILM_CARD
from precall.engine.encoding.qwen3_settings import EMBEDDING_MODEL
from precall.engine.errors import ConfigurationError, ModelUnavailable

DEFAULT_MODEL = "minilm"

_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


class Runtime(Enum):
    """What computes the model. ``AUTO`` stands for the best of them on this machine."""

    AUTO = "auto"
    ONNX = "onnx"
    TORCH = "torch"
    VLLM = "vllm"


class ModelFamily(Enum):
    """Models that share code. ``runtimes`` are those that can compute them."""

    MINILM = "all-MiniLM-L6-v2"
    QWEN3 = "Qwen3"

    @property
    def runtimes(self) -> tuple[Runtime, ...]:
        return (Runtime.ONNX,) if self is ModelFamily.MINILM else (Runtime.TORCH, Runtime.VLLM)


@dataclass(frozen=True)
class ModelChoice:
    """One model, or one reranker. None leaves a value to the model."""

    model: str = DEFAULT_MODEL
    """``minilm``, a folder of a model's files, or a name in the hub's cache like Qwen/Qwen3-Embedding-4B."""

    runtime: Runtime = Runtime.AUTO

    dimension: int | None = None
    """Length that vectors are cut to, where the model was trained for it."""

    query_task: str | None = None
    """The instruction that queries are prompted with, in one English sentence."""

    max_tokens: int | None = None

    threads: int | None = None
    """Threads of a forward pass on a processor; None: by the number of processors. vLLM sets its own."""

    cache_dir: Path | None = None
    """Folder of exported models; None: the user's cache."""

    @property
    def folder(self) -> Path | None:
        """The model's folder, if it was named by one."""
        path = Path(self.model).expanduser()
        return path if self.model != DEFAULT_MODEL and path.is_dir() else None

    @property
    def family(self) -> ModelFamily:
        """Read from the folder's ``config.json``; what else is in the hub's cache is taken for a Qwen3.

        Raises ``ConfigurationError`` for what cannot name a model, ``ModelUnavailable`` for a folder without
        one that this engine runs.
        """
        if self.folder is not None:
            return _family_in(self.folder)
        if self.model in (DEFAULT_MODEL, MINILM_CARD.name):
            return ModelFamily.MINILM
        if _HUB_NAME.fullmatch(self.model):
            return ModelFamily.QWEN3
        raise ConfigurationError(
            f"there is no model {self.model!r}: name `{DEFAULT_MODEL}`, a model of the hub like "
            f"{EMBEDDING_MODEL}, or a folder that holds a model's files"
        )

    @property
    def chosen_runtime(self) -> Runtime:
        """Never ``AUTO``. Raises ``ConfigurationError`` for one that cannot compute the model, and what
        ``family`` raises.
        """
        family = self.family
        if self.runtime is Runtime.AUTO:
            return _best_runtime() if family is ModelFamily.QWEN3 else Runtime.ONNX
        if self.runtime not in family.runtimes:
            names = " or ".join(runtime.value for runtime in family.runtimes)
            raise ConfigurationError(
                f"the runtime {self.runtime.value} does not run {family.value}: set it to auto or {names}"
            )
        return self.runtime


def has_gpu() -> bool:
    """Whether torch sees one. Raises ``ModelUnavailable`` without torch."""
    return bool(_torch().cuda.is_available())


def prepare_torch(threads: int | None) -> None:
    """``threads``: of every later pass of torch on a processor, in the whole process; None: torch's choice.

    Raises ``ModelUnavailable`` without torch.
    """
    torch = _torch()
    if threads is not None:
        torch.set_num_threads(threads)


def _best_runtime() -> Runtime:
    spec = importlib.util.find_spec("vllm")
    # A folder that happens to be called vllm has no origin, and is no installed package.
    is_installed = spec is not None and spec.origin is not None
    return Runtime.VLLM if is_installed and has_gpu() else Runtime.TORCH


def _family_in(folder: Path) -> ModelFamily:
    path = folder / "config.json"
    try:
        kind = json.loads(path.read_text(encoding="utf-8")).get("model_type")
    except OSError as error:
        raise ModelUnavailable(
            f"{path} cannot be read ({error.strerror or error}): name a folder that holds a model's files"
        ) from error
    except (ValueError, AttributeError) as error:
        raise ModelUnavailable(f"{path} is damaged: bring the model's files here again") from error
    families = {"bert": ModelFamily.MINILM, "qwen3": ModelFamily.QWEN3}
    if kind not in families:
        raise ModelUnavailable(
            f"{folder} holds a model of type {kind!r}: this engine runs {MINILM_CARD.name}, "
            "Qwen3-Embedding and Qwen3-Reranker, name one of those"
        )
    return families[kind]


def _torch() -> ModuleType:
    try:
        import torch
    except ImportError as error:
        raise ModelUnavailable(
            f"torch cannot be imported ({error}): `pip install 'precall[server]'`, or `precall[gpu]` on a GPU"
        ) from error
    return torch
