"""Placement of parallel processes on one machine: GPUs, or CPU cores."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """Placement of a process.

    Attributes:
        variables: Environment variables.
        cores: CPU cores; empty: any.
    """

    variables: dict[str, str]
    cores: tuple[int, ...] = ()


def places(parallel: int | None, gpus: int) -> list[Place]:
    """Return the placements of parallel processes: GPUs in turn, or CPU cores, divided evenly.

    Args:
        parallel: Number of processes; None: one per GPU or, without any, one per core up to four.
        gpus: Number of GPUs.
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
    """Return the id of a GPU of this process for the environment of another one."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    return given.split(",")[gpu] if given else str(gpu)
