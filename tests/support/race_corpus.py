"""Launch arguments of the kernels of both corpora, racy and clean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from marked_lines import marked_lines
from numba import cuda

import warpdrive as wd

N = 8


@dataclass
class Launch:
    """A kernel and what it is launched with; of a racy one, the array. Its racy lines end with ``# race``."""

    kernel: Any
    blocks: Any
    threads: Any
    arguments: tuple[Any, ...]
    array: str = ""

    def check(self) -> Any:
        return wd.check_launch(self.kernel, self.blocks, self.threads, *self.arguments)

    @property
    def racy_lines(self) -> set[str]:
        return marked_lines(self.kernel, "race")


RACY: list[Any] = []
CLEAN: list[Any] = []


def racy(array: str, blocks: Any, threads: Any, *arguments: Any) -> Callable[[Any], Any]:
    def register(function: Any) -> Any:
        kernel = wd.kernel(function)
        RACY.append(pytest.param(Launch(kernel, blocks, threads, arguments, array), id=kernel.__name__))
        return kernel

    return register


def clean(blocks: Any, threads: Any, *arguments: Any) -> Callable[[Any], Any]:
    def register(function: Any) -> Any:
        kernel = wd.kernel(function)
        CLEAN.append(pytest.param(Launch(kernel, blocks, threads, arguments), id=kernel.__name__))
        return kernel

    return register


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(1, 2, shape).astype(np.float32)


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def counts(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.int32)


@wd.device_function
def meet_and_read(array, index):
    cuda.syncthreads()
    return array[index]
