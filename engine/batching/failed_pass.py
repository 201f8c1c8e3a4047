"""What a caller is told when a forward pass fails, whatever the model raised."""

import traceback

from precall.engine.errors import ModelUnavailable, PrecallError

OUT_OF_MEMORY = "out_of_memory"
"""``metadata["cause"]`` of a pass for which the device had too little memory."""

_WORDS_OF_MEMORY = ("out of memory", "can't allocate memory", "cannot allocate memory", "bad_alloc")
"""How the allocators of CUDA, of torch on a processor and of the C++ library put it in a ``RuntimeError``."""


def failed_pass(error: BaseException, inputs: str) -> PrecallError:
    """The error of every one of ``inputs``, as in "12 texts", of a pass that raised ``error``.

    It holds on to none of the pass' tensors: the frames of a traceback would keep their memory from the pass
    that comes next, and that one would run out of it too.
    """
    failure = error if isinstance(error, PrecallError) else _described(error, inputs)
    fault: BaseException | None = failure
    while fault is not None:
        traceback.clear_frames(fault.__traceback__)
        fault = fault.__cause__ or fault.__context__
    return failure


def _described(error: BaseException, inputs: str) -> ModelUnavailable:
    if _is_out_of_memory(error):
        failure = ModelUnavailable(
            f"the device has too little memory for {inputs} at a time: send them again in smaller parts, or "
            "lower the server's max_tokens if this goes on",
            metadata={"cause": OUT_OF_MEMORY},
        )
    else:
        failure = ModelUnavailable(
            f"the model failed on {inputs} ({type(error).__name__}): send the request again, in smaller "
            "parts if this goes on"
        )
    failure.__cause__ = error
    return failure


def _is_out_of_memory(error: BaseException) -> bool:
    # By its name, because this room knows no torch: torch.OutOfMemoryError is a RuntimeError.
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if kinds & {"MemoryError", "OutOfMemoryError"}:
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(words in text for words in _WORDS_OF_MEMORY)
