"""Number of PyTorch's CPU threads, as a context."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from warpdrive.backends.system_info import usable_cores

FEW_CORES = 4
"""Number of cores up to which one thread is the default: see ``TrainerConfig.torch_threads``."""


@contextmanager
def torch_threads(threads: int | None) -> Iterator[None]:
    """Set the number of PyTorch's threads within the block.

    None: one on a machine with few cores, unless ``OMP_NUM_THREADS`` is set; else PyTorch's default.
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
