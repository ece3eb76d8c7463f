"""Library functions and arrays in fused kernels; accesses of the functions are reported at their caller's line."""

from __future__ import annotations

import inspect

from numba.cuda import random as cuda_random

import warpdrive.math
import warpdrive.random

HELPERS = frozenset(inspect.getfile(module) for module in (warpdrive.math, warpdrive.random, cuda_random))


def is_of_library(array: str) -> bool:
    """Return True if an array of a fused kernel is the library's own: such names have ``__`` in place of a dot."""
    return "__" in array
