"""Cases of the corpus, and the list of all.

A case is a function ``run(launch, rng)`` that does what the host does: it makes arrays, launches kernels by
``launch(kernel, blocks, threads, *arguments, shared=0)`` (``shared`` is the size of dynamic shared memory in bytes),
which changes the arrays, and compares them with what NumPy or a sequential program computes. Who runs the case says
what launching means: on a backend, in an interpreter, under checks.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Launch = Callable[..., Any]
CASES: list[Case] = []


@dataclass(frozen=True)
class Case:
    """Kernels with arguments and expected results. ``float64``: whether they compute in float64 on purpose."""

    function: Callable[[Launch, np.random.Generator], None]
    float64: bool

    @property
    def name(self) -> str:
        kind = self.function.__module__.rpartition(".")[2]
        return f"{kind}-{self.function.__name__}"

    def run(self, launch: Launch) -> None:
        """Raises ``AssertionError`` for a wrong result."""
        self.function(launch, np.random.default_rng(zlib.crc32(self.name.encode())))


def case(function: Any = None, *, float64: bool = False) -> Any:
    """Add a function to the corpus; a decorator, with or without arguments."""

    def add(function: Any) -> Any:
        CASES.append(Case(function, float64))
        return function

    return add if function is None else add(function)


def equal(found: Any, expected: Any) -> None:
    np.testing.assert_array_equal(found, expected)


def close(found: Any, expected: Any, rtol: float = 1e-4, atol: float = 1e-5) -> None:
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)
