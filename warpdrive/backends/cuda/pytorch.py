"""Cooperation with PyTorch: it initialises GPUs, and kernels are launched on its current stream."""

from __future__ import annotations

from collections.abc import Callable

import torch

from warpdrive.errors import BackendError


def start(index: int) -> None:
    """Make PyTorch create a GPU's primary context, before any other use.

    Raises :class:`BackendError` if PyTorch cannot use the GPU.
    """
    try:
        with torch.cuda.device(index):
            torch.zeros(1, device=f"cuda:{index}")
    except (RuntimeError, AssertionError) as error:  # AssertionError if PyTorch was built without CUDA
        reason = str(error).partition("\n")[0]
        raise BackendError(f"PyTorch {torch.__version__} cannot use GPU {index}: {reason}") from error


def make_current(index: int) -> None:
    """Make a GPU PyTorch's current device."""
    torch.cuda.set_device(index)


def current_device() -> int:
    """Return the index of PyTorch's current device."""
    return torch.cuda.current_device()


def current_stream_of(index: int) -> Callable[[], int]:
    """Return a function that returns the handle of PyTorch's current stream on a GPU."""
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # ten times as fast; used by PyTorch's compiler
    if raw is not None:
        return lambda: int(raw(index))
    return lambda: int(torch.cuda.current_stream(index).cuda_stream)
