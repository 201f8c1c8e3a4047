"""A vLLM engine that outlives its processes."""

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from precall.engine.encoding.vllm_clean_passes import pool_cleanly
from precall.engine.encoding.vllm_library import VllmLibrary
from precall.engine.encoding.vllm_process import VllmProcess
from precall.engine.errors import InvalidInput, ModelUnavailable, PrecallError

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PooledBatch:
    """``rows`` is float32, shape ``(n, width)``; the row of a failed prompt is zero and in ``errors``.

    A row that is NaN is so by its own text.
    """

    rows: NDArray[np.float32]
    errors: dict[int, PrecallError]


class VllmEngine:
    """Blocking and thread-safe; calls take turns.

    When its processes die, the calls that they took along fail, a replacement is started in the background,
    and calls fail at once with ``ModelUnavailable`` until it is there.
    """

    def __init__(
        self, library: VllmLibrary, arguments: dict[str, object], *, width: int, pass_seconds: float
    ) -> None:
        """Start it; blocks for tens of seconds. ``width`` is the length of a pooled row.

        Raises ``ModelUnavailable``.
        """
        self._library = library
        self._arguments = arguments
        self._width = width
        self._pass_seconds = pass_seconds
        self._turn = threading.Lock()
        self._guard = threading.Lock()
        self._closed = False
        self._fault = ""
        self._replacement: threading.Thread | None = None
        self._process: VllmProcess | None = VllmProcess(library, arguments)

    def pool(
        self,
        prompts: Sequence[NDArray[np.int64]],
        parameters: dict[str, object],
        *,
        salt: str | None = None,
    ) -> PooledBatch:
        """Pool every prompt; ``parameters`` are those of ``PoolingParams``, ``salt`` as in ``VllmProcess``.

        Raises ``InvalidInput`` for an empty batch and ``ModelUnavailable`` if the engine is dead or dies.
        """
        if not prompts:
            raise InvalidInput("a batch needs at least one text")
        seconds = self._pass_seconds
        with self._turn:
            process = self._require_process()
            answers = pool_cleanly(
                process,
                prompts,
                lambda some: process.pool(some, parameters, salt=salt, seconds=seconds),
                seconds=seconds,
            )
        if process.is_dead:
            self._replace(process)
            raise ModelUnavailable(
                f"vLLM's engine died under a batch of {len(prompts)} texts and is being started again: "
                "send the request again in a minute, in smaller parts if this goes on"
            )
        rows = np.zeros((len(prompts), self._width), dtype=np.float32)
        errors: dict[int, PrecallError] = {}
        for row, answer in enumerate(answers):
            if isinstance(answer, Exception):
                errors[row] = _as_error(answer)
            elif answer.shape != (self._width,):
                raise ModelUnavailable(
                    f"vLLM answered a row of {answer.shape} numbers where {self._width} were due: "
                    "the model's folder asks for another pooling; remove its sentence-transformers files"
                )
            else:
                rows[row] = answer
        return PooledBatch(rows, errors)

    def close(self) -> None:
        """End the engine and its processes, after the call and the start that are under way.

        Twice is as once.
        """
        with self._guard:
            self._closed = True
            replacement = self._replacement
        if replacement is not None:
            replacement.join()
        with self._turn:
            with self._guard:
                process, self._process = self._process, None
            if process is not None:
                process.close()

    def _require_process(self) -> VllmProcess:
        with self._guard:
            if self._closed:
                raise ModelUnavailable("the model was closed: make a new one")
            if self._process is None:
                fault = self._fault
                self._start_replacement(None)
                raise ModelUnavailable(
                    "vLLM's engine is being started again: send the request again in a minute"
                    + (f" (the last start failed: {fault})" if fault else "")
                )
            return self._process

    def _replace(self, dead: VllmProcess) -> None:
        with self._guard:
            if self._process is dead and not self._closed:
                self._process = None
                self._start_replacement(dead)

    def _start_replacement(self, dead: VllmProcess | None) -> None:
        """Unless one is under way. The guard is held."""
        if self._replacement is None:
            self._replacement = threading.Thread(
                target=self._run_replacement, args=(dead,), name="precall-vllm-start", daemon=True
            )
            self._replacement.start()

    def _run_replacement(self, dead: VllmProcess | None) -> None:
        process: VllmProcess | None = None
        fault = ""
        try:
            if dead is not None:
                _logger.error("vLLM's engine died; starting another one")
                dead.close()
            process = VllmProcess(self._library, self._arguments)
            _logger.warning("vLLM's engine is back")
        except Exception as error:
            # The next call, a readiness probe at the latest, tries again.
            _logger.exception("vLLM's engine could not be started again")
            fault = str(error)
        with self._guard:
            self._fault = fault
            self._replacement = None
            self._process = process


def _as_error(error: Exception) -> PrecallError:
    """Of one prompt, from an engine that lives on."""
    if isinstance(error, PrecallError):
        return error
    refused = any(kind.__name__ == "VLLMValidationError" for kind in type(error).__mro__)
    kind = InvalidInput if refused or isinstance(error, ValueError) else ModelUnavailable
    fault = kind(f"vLLM did not take the text ({type(error).__name__}: {error})")
    fault.__cause__ = error
    return fault
