"""Kernels as they are written for ``numba.cuda``, a module for each kind, all of them without mistakes.

A case is a host program that takes ``launch``: the CPU backend beside the interpreter of the tests, the checks, which
must find nothing, or any other way to launch. Of the 198 kernels, one has a loop that another thread might have to end:
a lock that its thread releases.
"""

import importlib
import pkgutil

from .cases import CASES, Case

__all__ = ["CASES", "Case"]

for module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{module.name}")
