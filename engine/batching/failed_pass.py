"""What a caller is told when a forward pass fails, whatever the model raised."""

from contextlib import suppress
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import TracebackType
from typing import Final

from precall.engine.errors import ModelUnavailable, PrecallError

OUT_OF_MEMORY = "out_of_memory"
"""``metadata["cause"]`` of a pass for which the device had too little memory."""

_SUSPENDABLE: Final = CO_COROUTINE | CO_GENERATOR | CO_ASYNC_GENERATOR

_KINDS_OF_MEMORY = {"MemoryError", "OutOfMemoryError"}
"""Torch's own is a ``RuntimeError``. By name, because this room knows neither torch nor ONNX Runtime."""

_KINDS_IN_WORDS = {"RuntimeError", "RuntimeException", "Fail"}
"""What says in words alone that memory is short: torch on a processor, and ONNX Runtime, whose errors are
plain exceptions.
"""
_WORDS_OF_MEMORY = (
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "failed to allocate memory",
    "bad_alloc",
)
"""How the allocators of CUDA, of torch on a processor, of ONNX Runtime and of the C++ library put it."""


def failed_pass(error: BaseException, inputs: str) -> PrecallError:
    """The error of every one of ``inputs``, as in "12 texts", of a pass that raised ``error``.

    It holds on to none of the pass' tensors: the frames of a traceback would keep their memory from the pass
    that comes next, and that one would run out of it too.
    """
    failure = _described(error, inputs)
    fault: BaseException | None = failure
    while fault is not None:
        _clear_frames(fault.__traceback__)
        fault = fault.__cause__ or fault.__context__
    return failure


def _clear_frames(passed: TracebackType | None) -> None:
    """Only those of functions: a coroutine that another traceback of the same error runs through is waiting
    for something, and would be ended.
    """
    while passed is not None:
        if not passed.tb_frame.f_code.co_flags & _SUSPENDABLE:
            with suppress(RuntimeError):  # still running
                passed.tb_frame.clear()
        passed = passed.tb_next


def _described(error: BaseException, inputs: str) -> PrecallError:
    # Models wrap what they caught in an error of ours, which does not tell too little memory from the rest.
    if _is_out_of_memory(error) or _is_out_of_memory(error.__cause__):
        failure = ModelUnavailable(
            f"the device has too little memory for {inputs} at a time: send them again in smaller parts, or "
            "lower the server's max_tokens if this goes on",
            metadata={"cause": OUT_OF_MEMORY},
        )
    elif isinstance(error, PrecallError):
        return error
    else:
        failure = ModelUnavailable(
            f"the model failed on {inputs} ({type(error).__name__}): send the request again, in smaller "
            "parts if this goes on"
        )
    failure.__cause__ = error
    return failure


def _is_out_of_memory(error: BaseException | None) -> bool:
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if kinds & _KINDS_OF_MEMORY:
        return True
    text = str(error).lower()
    return bool(kinds & _KINDS_IN_WORDS) and any(words in text for words in _WORDS_OF_MEMORY)
