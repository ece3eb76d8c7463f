"""How many threads PyTorch uses on the CPU, for a while."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from warpdrive.backends.machine import usable_cores

FEW_CORES = 4
"""With up to so many, one thread is the default: see ``TrainerConfig.torch_threads``."""


@contextmanager
def torch_threads(threads: int | None) -> Iterator[None]:
    """Within the block PyTorch uses ``threads`` threads.

    None: one on a machine with few cores, else PyTorch's own choice, as where ``OMP_NUM_THREADS`` is set.
    """
    former = torch.get_num_threads()
    if threads is None and usable_cores() <= FEW_CORES and "OMP_NUM_THREADS" not in os.environ:
        threads = 1
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(former)
