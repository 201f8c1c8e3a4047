"""The one place where vLLM is imported, quiet and offline."""

import os
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from precall.engine.encoding.vllm_plugin import MARK
from precall.engine.errors import ConfigurationError, ModelUnavailable

_ENVIRONMENT = {
    # Standard output belongs to our own commands. The engine's processes inherit all of this.
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    # A server has threads, and a fork of a process with threads inherits locks that nobody will release.
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    MARK: "1",
}


@dataclass(frozen=True, slots=True)
class VllmLibrary:
    """What we use of vLLM, and whether it was built for processors or for GPUs."""

    module: ModuleType
    on_gpu: bool

    @property
    def engine_class(self) -> Any:
        return self.module.AsyncLLMEngine

    def arguments(self, values: dict[str, object]) -> Any:
        """``AsyncEngineArgs``. Raises ``TypeError`` for a vLLM that does not know one of the names."""
        return self.module.AsyncEngineArgs(**values)

    def pooling(self, **values: object) -> Any:
        """``PoolingParams``; each request needs its own, for vLLM fills it in."""
        return self.module.PoolingParams(**values)

    @classmethod
    def load(cls, device: str) -> "VllmLibrary":
        """Import vLLM for ``device`` (``auto``, ``cpu`` or ``cuda``).

        Sets environment variables of vLLM that the operator has not set. Raises ``ModelUnavailable`` if vLLM
        is missing or broken, ``ConfigurationError`` for a device that this build does not drive.
        """
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        try:
            import vllm
            from vllm.platforms import current_platform
        except Exception as error:  # a build for another torch or CUDA fails in any number of ways
            raise ModelUnavailable(
                f"vLLM cannot be imported ({type(error).__name__}: {error}): "
                "`pip install 'precall[gpu]'`, or let torch run the model"
            ) from error
        on_gpu = not current_platform.is_cpu()
        built_for = "cuda" if on_gpu else "cpu"
        if device not in ("auto", built_for):
            raise ConfigurationError(
                f"the model's device is {device!r} and this vLLM runs on {built_for!r}: set it to auto; "
                "among several GPUs CUDA_VISIBLE_DEVICES chooses"
            )
        return cls(vllm, on_gpu)
