"""What a caller is told of a failed pass, and what the failure lets go of."""

import asyncio
import gc
import weakref

import numpy as np
import pytest

from precall.engine.batching.failed_pass import OUT_OF_MEMORY, failed_pass
from precall.engine.errors import ModelUnavailable, NumericsError


class OutOfMemoryError(RuntimeError):
    """Named as torch names its own."""


class DeepOutOfMemoryError(OutOfMemoryError):
    pass


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        np._core._exceptions._ArrayMemoryError((1,), np.dtype(np.int8)),  # type: ignore[attr-defined]
        OutOfMemoryError("no block is left"),
        DeepOutOfMemoryError("no block is left"),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("std::bad_alloc"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_too_little_memory_is_told_with_what_to_do(error: Exception) -> None:
    failure = failed_pass(error, "a batch of 12 texts")
    assert isinstance(failure, ModelUnavailable)
    assert failure.metadata == {"cause": OUT_OF_MEMORY}
    assert "12 texts" in failure.message and "smaller parts" in failure.message
    assert failure.__cause__ is error


@pytest.mark.parametrize(
    "error", [RuntimeError("device lost"), ValueError("out of memory is not meant"), SystemExit(1)]
)
def test_any_other_failure_is_told_by_its_kind(error: BaseException) -> None:
    failure = failed_pass(error, "12 texts")
    assert isinstance(failure, ModelUnavailable) and failure.metadata == {}
    assert type(error).__name__ in failure.message


def test_a_failure_that_has_a_type_keeps_it() -> None:
    error = NumericsError("NaN")
    assert failed_pass(error, "12 texts") is error


def test_too_little_memory_is_told_even_if_a_model_has_put_it_in_an_error_of_ours() -> None:
    wrapped = ModelUnavailable("the model failed")
    wrapped.__cause__ = RuntimeError("can't allocate memory")
    assert failed_pass(wrapped, "12 texts").metadata == {"cause": OUT_OF_MEMORY}
    other = ModelUnavailable("the model failed")
    other.__cause__ = ValueError("shape")
    assert failed_pass(other, "12 texts") is other


def test_torch_out_of_memory_on_a_processor_is_told_as_such() -> None:
    """The library's own error, through the class that runs every torch model."""
    torch = pytest.importorskip("torch")
    from precall.engine.encoding.torch_device import Placement
    from precall.engine.encoding.torch_runner import PackedRunner

    runner = PackedRunner(lambda _: torch.empty(1 << 50), Placement(torch.device("cpu"), torch.float32))
    with pytest.raises(ModelUnavailable) as caught:
        runner.run([np.arange(3)])
    assert failed_pass(caught.value, "3 texts").metadata == {"cause": OUT_OF_MEMORY}


class Tensor:
    """Something large."""


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_failure_holds_on_to_nothing_of_its_pass(wrapped: bool) -> None:
    """Else the memory of the pass would stay with the error, and the next pass run out of it as well."""
    seen: list[weakref.ref[Tensor]] = []

    def layer() -> None:
        activations = Tensor()
        seen.append(weakref.ref(activations))
        raise OutOfMemoryError("no block is left")

    def forward() -> None:
        if not wrapped:
            layer()
        try:
            layer()
        except OutOfMemoryError as error:
            raise ModelUnavailable("too little memory") from error

    try:
        forward()
    except Exception as error:
        failure = failed_pass(error, "12 texts")
    gc.collect()
    assert failure is not None and [tensor() for tensor in seen] == [None]


async def test_whoever_waits_in_another_traceback_of_the_same_error_goes_on_waiting() -> None:
    """An encoder may keep its fault and raise it again: callers have caught it, and are in the middle."""
    fault, caught, go_on = OutOfMemoryError("no block is left"), asyncio.Event(), asyncio.Event()

    async def caller() -> str:
        try:
            raise fault
        except OutOfMemoryError:
            caught.set()
            await go_on.wait()
        return "went on"

    waiting = asyncio.create_task(caller())
    await caught.wait()
    failed_pass(fault, "12 texts")
    go_on.set()
    assert await asyncio.wait_for(waiting, 10) == "went on"
