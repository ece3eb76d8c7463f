"""The files of library functions: what they do is told with the line of their caller."""

from __future__ import annotations

import inspect

from numba.cuda import random as cuda_random

import warpdrive.random

HELPERS = frozenset(inspect.getfile(module) for module in (warpdrive.random, cuda_random))
