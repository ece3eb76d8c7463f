"""Environments for other libraries, and programs of WarpDrive 2: modules that are imported on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warpdrive.interop import warpdrive2 as warpdrive2


def __getattr__(name: str) -> Any:
    if name == "warpdrive2":
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
