"""One life of a vLLM engine: from its start to its death or to ``close``."""

import asyncio
import itertools
import logging
import multiprocessing
import threading
from collections.abc import Sequence
from concurrent.futures import TimeoutError as NoAnswerYet
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from precall.engine.encoding.vllm_library import VllmLibrary
from precall.engine.errors import ModelUnavailable

_logger = logging.getLogger(__name__)

Answer: TypeAlias = NDArray[np.float32] | Exception
"""Of one prompt: what was pooled, one-dimensional, or what went wrong."""

_one_start = threading.Lock()
"""Two starts at a time could not tell which child processes are whose."""

_LAST_GASP_SECONDS = 10.0


class VllmProcess:
    """An ``AsyncLLM`` on an event loop and thread of its own; the model runs in processes of vLLM's.

    Thread-safe. Once it is dead it stays so.
    """

    def __init__(self, library: VllmLibrary, arguments: dict[str, object]) -> None:
        """Start the engine; blocks for tens of seconds. Raises ``ModelUnavailable``."""
        self._library = library
        self._numbers = itertools.count()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="precall-vllm", daemon=True)
        self._thread.start()
        self._given_up = False
        self._closing = threading.Lock()
        self._engine: Any = None
        try:
            with _one_start:
                others = set(multiprocessing.active_children())
                asyncio.run_coroutine_threadsafe(self._start(arguments), self._loop).result()
                self._children = set(multiprocessing.active_children()) - others
        except Exception as error:
            self._end_loop()
            raise ModelUnavailable(
                f"vLLM did not start ({type(error).__name__}: {error}): its own messages on standard error "
                "say why; often it is memory, then lower vLLM cache_tokens or model pass_tokens"
            ) from error

    @property
    def is_dead(self) -> bool:
        """Whether there will be no more answers; closed is dead, too."""
        engine = self._engine
        return self._given_up or engine is None or bool(engine.errored)

    def pool(
        self,
        prompts: Sequence[NDArray[np.int64]],
        parameters: dict[str, object],
        *,
        salt: str | None,
        seconds: float,
    ) -> list[Answer]:
        """The answer to each prompt; blocks.

        Only prompts of the same ``salt`` share the keys and values of their common beginning. An engine that
        is silent for ``seconds`` is dead: then every answer is a ``TimeoutError``.
        """
        task = asyncio.run_coroutine_threadsafe(self._pool(prompts, parameters, salt), self._loop)
        try:
            return task.result(seconds)
        except NoAnswerYet as error:
            self._given_up = True
            task.cancel()
            return [error] * len(prompts)

    @property
    def cache_blocks(self) -> int:
        """Blocks of keys and values that texts can have; one is vLLM's own."""
        return int(self._engine.vllm_config.cache_config.num_gpu_blocks) - 1

    def blocks_of(self, prompt: NDArray[np.int64]) -> int:
        return -(-len(prompt) // int(self._engine.vllm_config.cache_config.block_size))

    def clear_cache(self, *, seconds: float) -> None:
        """Zero every key and value; nothing may be running. An engine that cannot do it is dead; blocks."""
        task = asyncio.run_coroutine_threadsafe(self._clear_cache(), self._loop)
        try:
            task.result(seconds)
        except Exception:  # whatever it was: what the engine computes from now on could be wrong
            _logger.exception("vLLM's cache could not be cleared")
            self._given_up = True
            task.cancel()

    def close(self) -> None:
        """End the engine and its processes; blocks for some seconds. Twice is as once."""
        with self._closing:
            if not self._thread.is_alive():
                return
            asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
            self._end_loop()
            for child in self._children:
                # vLLM kills what does not end by itself, but does not wait for it.
                child.join(_LAST_GASP_SECONDS)

    async def _start(self, arguments: dict[str, object]) -> None:
        # Blocks this loop on purpose: the engine's tasks have to be born on it, and nothing else lives here.
        engine_class = self._library.engine_class
        self._engine = engine_class.from_engine_args(self._library.arguments(arguments))

    async def _stop(self) -> None:
        # Let go of it as well: its finaliser complains when it runs at the interpreter's end.
        engine, self._engine = self._engine, None
        engine.shutdown()

    async def _clear_cache(self) -> None:
        if not await self._engine.reset_prefix_cache():
            raise RuntimeError("vLLM still uses its cache")
        await self._engine.collective_rpc("precall_clear_cache")

    async def _pool(
        self, prompts: Sequence[NDArray[np.int64]], parameters: dict[str, object], salt: str | None
    ) -> list[Answer]:
        answers = await asyncio.gather(
            *(self._pool_one(prompt, parameters, salt) for prompt in prompts), return_exceptions=True
        )
        return [_require_no_interrupt(answer) for answer in answers]

    async def _pool_one(
        self, prompt: NDArray[np.int64], parameters: dict[str, object], salt: str | None
    ) -> NDArray[np.float32]:
        tokens: dict[str, object] = {"type": "token", "prompt_token_ids": prompt.tolist()}
        if salt is not None:
            tokens["cache_salt"] = salt
        outputs = self._engine.encode(
            tokens, self._library.pooling(**parameters), f"precall-{next(self._numbers)}"
        )
        async for output in outputs:
            if output.finished:
                pooled: NDArray[np.float32] = output.outputs.data.float().numpy()
                return pooled.reshape(-1)
        raise ModelUnavailable("vLLM ended a request without an answer: send it again")

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _require_no_interrupt(answer: NDArray[np.float32] | BaseException) -> Answer:
    if isinstance(answer, BaseException) and not isinstance(answer, Exception):
        raise answer
    return answer
