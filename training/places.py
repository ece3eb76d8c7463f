"""Where processes run side by side on one machine: GPUs, or cores of the CPU."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """Where a process runs.

    Attributes:
        variables: of its environment.
        cores: of the CPU; none: any.
    """

    variables: dict[str, str]
    cores: tuple[int, ...] = ()


def places(parallel: int | None, gpus: int) -> list[Place]:
    """Where processes run side by side: GPUs in turns, or the cores of the CPU, shared out.

    Args:
        parallel: how many; None: one on each GPU or, without any, one on each core up to four.
        gpus: how many there are.
    """
    if gpus:
        return [Place({"CUDA_VISIBLE_DEVICES": _visible(number % gpus)}) for number in range(parallel or gpus)]
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    parallel = parallel or min(4, len(cores))
    threads = max(1, len(cores) // parallel)
    variables = {"OMP_NUM_THREADS": str(threads), "NUMBA_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}
    if parallel > len(cores):
        return [Place(variables) for _ in range(parallel)]
    return [Place(variables, tuple(cores[n * threads : (n + 1) * threads])) for n in range(parallel)]


def _visible(gpu: int) -> str:
    """A GPU as this process counts them, in words that others understand."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    return given.split(",")[gpu] if given else str(gpu)
