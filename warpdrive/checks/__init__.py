"""Kernel checks on any machine: races, bounds, uninitialised memory, divergence, order, float64, NaN.

An interpreter runs a kernel thread by thread and logs every memory access. ``docs/guides/checks.md`` describes the
findings and the limits.

``linking`` converts a kernel function to a Python function, which ``interpreter`` runs on a grid of threads, each a
generator that yields at barriers; ``debugger`` (``wd.debug``) consists of these alone. ``checked_interpreter`` adds the
arithmetic of compiled code (``arithmetic``) and arrays (``arrays``, ``memory``) that report each access to a log:
``access_log``, with the order of ``happens_before``, or ``null_log``, which only counts steps.

``launch`` passes a kernel through the front end (``language``), runs it with the access log and, only if threads
accessed an element in an undefined order, again in other orders (``schedules``): without such accesses the result
cannot depend on the order. ``inference`` asks numba for types, in which ``float64`` finds the origins of float64.
Findings are collected in a ``Report`` (``findings``, ``advice``). ``environment`` is a backend that runs an
environment's fused kernels in the interpreter: ``EnvWrapper`` accepts any ``Backend`` as ``env_backend``. ``behaviour``
plays an environment, ``backends`` compares all backends of the machine, and ``complete`` runs all checks. ``programs``
checks the launches of any program of ``numba.cuda``, and ``pytest_plugin`` those of tests.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warpdrive.checks.behaviour import check_environment_behaviour as check_environment_behaviour
    from warpdrive.checks.environment import check_environment_kernels as check_environment_kernels
    from warpdrive.checks.findings import Finding as Finding, Report as Report
    from warpdrive.checks.launch import check_launch as check_launch

_HOME_OF = {
    "check_environment_behaviour": "behaviour",
    "check_environment_kernels": "environment",
    "check_launch": "launch",
    **dict.fromkeys(("Finding", "Report"), "findings"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
