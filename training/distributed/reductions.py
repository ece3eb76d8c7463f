"""Reductions over the processes of a run, for user code."""

from __future__ import annotations

from torch import Tensor

from warpdrive.training.distributed.bootstrap import join


def sum_over_processes(tensor: Tensor) -> Tensor:
    """Return the sum of a tensor over all processes that train together; for a single process, a copy.

    This is a collective: all processes must call it, in the same order, with tensors of the same shape and dtype on
    their training devices, for example from a custom update function. Callbacks run on rank 0 only and cannot use it.

    Args:
        tensor: Any tensor.

    Returns:
        A new tensor of the same shape and dtype, equal in all processes, without gradient.
    """
    return join().all_reduce(tensor.clone())


def mean_over_processes(tensor: Tensor) -> Tensor:
    """Return the mean of a floating-point tensor over all processes; see :func:`sum_over_processes`.

    Args:
        tensor: Floating-point tensor.

    Returns:
        A new tensor of the same shape and dtype, equal in all processes.
    """
    return sum_over_processes(tensor) / join().world_size
