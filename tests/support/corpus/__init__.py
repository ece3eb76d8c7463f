"""Kernels as they are written for ``numba.cuda``, a module for each kind, all of them without mistakes."""

import importlib
import pkgutil

from .cases import CASES, Case

__all__ = ["CASES", "Case"]

for module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{module.name}")
