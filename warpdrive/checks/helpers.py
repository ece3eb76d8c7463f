"""What of a fused kernel is the library's: files of functions, told with the line of their caller, and arrays."""

from __future__ import annotations

import inspect

from numba.cuda import random as cuda_random

import warpdrive.random

HELPERS = frozenset(inspect.getfile(module) for module in (warpdrive.random, cuda_random))


def is_of_library(array: str) -> bool:
    """Whether an array of a fused kernel is the library's own: such names have ``__`` where others have a dot."""
    return "__" in array
