"""WarpDrive: write the step of a multi-agent environment as a kernel, run thousands of replicas, train.

The names below are the public face of the package. They are loaded on first use, so that
``import warpdrive`` is quick, needs no GPU and touches no driver.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME_OF = {
    "kernel": "warpdrive.kernels.kernel",
    "device_function": "warpdrive.kernels.kernel",
    "Kernel": "warpdrive.kernels.kernel",
    "KernelError": "warpdrive.kernels.errors",
    "DeviceContext": "warpdrive.device_context",
    "Environment": "warpdrive.environment",
    "EnvironmentError": "warpdrive.environment",
    "EnvWrapper": "warpdrive.env_wrapper",
    "Rollout": "warpdrive.rollout",
    "make": "warpdrive.registry",
    "register": "warpdrive.registry",
    "registered_names": "warpdrive.registry",
    "Trainer": "warpdrive.training.trainer",
    "replay": "warpdrive.training.replay",
}
_MODULES = ("random",)

__all__ = ["__version__", *_MODULES, *_HOME_OF]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"warpdrive.{name}")
    if name in _HOME_OF:
        return getattr(importlib.import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'warpdrive' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
