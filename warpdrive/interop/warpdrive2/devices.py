"""Memory that kernels and PyTorch share: on a GPU of numba-cuda, else on the CPU backend."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch


@functools.cache
def on_gpu() -> bool:
    """Return True if kernels run on a GPU."""
    return torch.cuda.is_available()


def on_device(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor on the device of the kernels."""
    return tensor.to("cuda") if on_gpu() else tensor


def device_copy(array: np.ndarray[Any, Any]) -> tuple[torch.Tensor, Any]:
    """Copy a host array to the device.

    Args:
        array: A contiguous array.

    Returns:
        A tensor, and the argument for kernels that shares its memory.
    """
    from numba import cuda

    if on_gpu():
        tensor = torch.from_numpy(array).to("cuda", copy=True)
        return tensor, cuda.as_cuda_array(tensor)
    from warpdrive.numba_cuda.arrays import as_host_array

    argument = cuda.to_device(array)
    return torch.from_numpy(as_host_array(argument)), argument
