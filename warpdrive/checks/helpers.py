"""Library functions and arrays in fused kernels; accesses of the functions are reported at their caller's line."""

from __future__ import annotations

import inspect

from numba.cuda import random as cuda_random

import warpdrive.draw
import warpdrive.math
import warpdrive.random
from warpdrive.kernels.source import FunctionSource

_MODULES = (warpdrive.draw, warpdrive.math, warpdrive.random, cuda_random)
HELPERS = frozenset(inspect.getfile(module) for module in _MODULES)


def is_guard_of_shapes(source: FunctionSource) -> bool:
    """Return True for the function with which ``wd.draw`` ignores shapes that do not exist."""
    return (source.file, source.name) == (inspect.getfile(warpdrive.draw), "_is_inside")


def is_of_library(array: str) -> bool:
    """Return True if an array of a fused kernel is the library's own: such names have ``__`` in place of a dot."""
    return "__" in array
