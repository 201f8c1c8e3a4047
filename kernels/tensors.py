"""Checks of what is given to a kernel: shape, dtype, device and layout, without looking at values."""

import torch
from torch import Tensor

from precall.kernels.errors import KernelInputError

_ALIGNED = 16
"""Bytes: a kernel is compiled for addresses that are multiples of it."""


def check_tensor(
    name: str,
    tensor: Tensor,
    dtypes: tuple[torch.dtype, ...],
    shape: tuple[int | None, ...],
    device: torch.device,
) -> None:
    """Raises ``KernelInputError`` unless the tensor is on the device, contiguous, of one of the dtypes and of
    the shape, in which None stands for any length.
    """
    if tensor.dtype not in dtypes:
        wanted = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise KernelInputError(f"{name} is {str(tensor.dtype).removeprefix('torch.')}: give it as {wanted}")
    fits = len(tensor.shape) == len(shape) and all(
        wanted is None or wanted == given for wanted, given in zip(shape, tensor.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if length is None else str(length) for length in shape)
        raise KernelInputError(f"{name} has the shape {tuple(tensor.shape)}: give it as ({wanted})")
    if tensor.device != device:
        raise KernelInputError(f"{name} is on {tensor.device}: move it to {device}")
    if not tensor.is_contiguous():
        raise KernelInputError(f"{name} is a view with gaps: give its .contiguous()")
    if tensor.data_ptr() % _ALIGNED:
        raise KernelInputError(f"{name} begins at no multiple of {_ALIGNED} bytes: give a copy of it")


def next_power_of_two(number: int) -> int:
    """The smallest power of two that is not less; ``number`` >= 1."""
    return 1 << (number - 1).bit_length()
