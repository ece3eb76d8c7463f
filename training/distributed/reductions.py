"""Sums and means over the processes of a run, for users' own code."""

from __future__ import annotations

from torch import Tensor

from warpdrive.training.distributed.meeting import join


def sum_over_processes(tensor: Tensor) -> Tensor:
    """Return the sum of a tensor over all processes that train together; of one process, a copy.

    All must call it, in the same order, with a tensor of the same shape and dtype on the device where each trains: from
    an update function of their own, say, and not from callbacks, which process 0 alone runs.
    """
    return join().sum(tensor.clone())


def mean_over_processes(tensor: Tensor) -> Tensor:
    """Return the mean of a floating-point tensor over all processes; see :func:`sum_over_processes`."""
    return sum_over_processes(tensor) / join().size
