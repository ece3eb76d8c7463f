"""PyTorch's part in the use of a GPU: it starts it, and its current stream is where kernels are launched."""

from __future__ import annotations

from collections.abc import Callable

import torch

from warpdrive.errors import BackendError


def start(index: int) -> None:
    """Have PyTorch make a GPU's primary context, before anybody else uses it.

    Raises :class:`BackendError` where PyTorch cannot use it.
    """
    try:
        with torch.cuda.device(index):
            torch.zeros(1, device=f"cuda:{index}")
    except (RuntimeError, AssertionError) as error:  # the latter where PyTorch was built without CUDA
        reason = str(error).partition("\n")[0]
        raise BackendError(f"PyTorch {torch.__version__} cannot use GPU {index}: {reason}") from error


def make_current(index: int) -> None:
    """Make a GPU the one that PyTorch uses where none is named."""
    torch.cuda.set_device(index)


def current_device() -> int:
    """Return the GPU that PyTorch uses where none is named."""
    return torch.cuda.current_device()


def current_stream_of(index: int) -> Callable[[], int]:
    """Return a function that returns the handle of PyTorch's current stream on a GPU."""
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # a tenth of the time; what PyTorch's compiler uses
    if raw is not None:
        return lambda: int(raw(index))
    return lambda: int(torch.cuda.current_stream(index).cuda_stream)
