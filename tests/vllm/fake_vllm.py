"""A vLLM without models: what ``VllmLibrary`` uses of it, in this process."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from precall.engine.encoding.vllm_library import VllmLibrary
from precall.engine.encoding.vllm_worker import CacheClearing

WIDTH = 4


class EngineDeadError(Exception):
    """What every request gets once the engine is dead."""


class VLLMValidationError(Exception):
    """What vLLM raises for a prompt that it does not take."""


@dataclass
class FakeVllm:
    """Answers a prompt with its first token, ``WIDTH`` times. The tokens below do something else."""

    KILL = 1
    """The engine dies."""
    REFUSE = 2
    """The prompt is refused."""
    HANG = 3
    """There is never an answer."""
    NARROW = 4
    """The row is too short."""
    POISON = 5
    """NaN; so is whatever gets its blocks later, until the cache is cleared."""
    UNCLEAN = 6
    """As ``POISON``, and the cache cannot be cleared."""
    CACHE_BLOCKS = 9
    BLOCK_TOKENS = 2

    engines: list["FakeEngine"] = field(default_factory=list)
    starts_to_fail: int = 0
    requests: list[dict[str, Any]] = field(default_factory=list)
    parameters: list[dict[str, Any]] = field(default_factory=list)

    def library(self) -> VllmLibrary:
        module = ModuleType("vllm")
        vars(module).update(
            AsyncLLMEngine=SimpleNamespace(from_engine_args=self._start),
            AsyncEngineArgs=lambda **values: values,
            PoolingParams=lambda **values: values,
        )
        return VllmLibrary(module, on_gpu=False)

    @property
    def running(self) -> list["FakeEngine"]:
        return [engine for engine in self.engines if not engine.ended]

    def _start(self, arguments: dict[str, object]) -> "FakeEngine":
        asyncio.get_running_loop()  # as vLLM needs one
        if self.starts_to_fail:
            self.starts_to_fail -= 1
            raise RuntimeError("no memory is left")
        engine = FakeEngine(self)
        self.engines.append(engine)
        return engine


class FakeEngine:
    def __init__(self, vllm: FakeVllm) -> None:
        self._vllm = vllm
        self.errored = False
        self.ended = False
        self.clearings = 0
        self._free = deque(range(FakeVllm.CACHE_BLOCKS))
        self._blocks_freed = asyncio.Condition()
        self._tainted: set[int] = set()
        self._clean = True
        cache = SimpleNamespace(num_gpu_blocks=FakeVllm.CACHE_BLOCKS + 1, block_size=FakeVllm.BLOCK_TOKENS)
        self.vllm_config = SimpleNamespace(cache_config=cache)

    async def encode(
        self, prompt: dict[str, Any], parameters: dict[str, Any], request_id: str
    ) -> AsyncIterator[Any]:
        self._vllm.requests.append({**prompt, "request_id": request_id})
        self._vllm.parameters.append(parameters)
        token = prompt["prompt_token_ids"][0]
        if token == FakeVllm.KILL:
            self.errored = True
        if self.errored:
            raise EngineDeadError
        if token == FakeVllm.REFUSE:
            raise VLLMValidationError("too long")
        if token == FakeVllm.HANG:
            await asyncio.Event().wait()
        needed = -(-len(prompt["prompt_token_ids"]) // FakeVllm.BLOCK_TOKENS)
        async with self._blocks_freed:
            await self._blocks_freed.wait_for(lambda: len(self._free) >= needed)
            blocks = {self._free.popleft() for _ in range(needed)}
        if token in (FakeVllm.POISON, FakeVllm.UNCLEAN):
            self._tainted |= blocks
            self._clean &= token != FakeVllm.UNCLEAN
        spoiled = bool(blocks & self._tainted)
        await asyncio.sleep(0)  # the pass
        async with self._blocks_freed:
            self._free.extend(sorted(blocks))
            self._blocks_freed.notify_all()
        width = WIDTH - 1 if token == FakeVllm.NARROW else WIDTH
        row = np.full(width, np.nan if spoiled else token, dtype=np.float32)
        data = SimpleNamespace(float=lambda: SimpleNamespace(numpy=lambda: row))  # what we use of a tensor
        yield SimpleNamespace(finished=True, outputs=SimpleNamespace(data=data))

    async def reset_prefix_cache(self) -> bool:
        return self._clean

    async def collective_rpc(self, method: str) -> None:
        assert callable(getattr(CacheClearing, method))
        self.clearings += 1
        self._tainted.clear()

    def shutdown(self) -> None:
        self.ended = True
