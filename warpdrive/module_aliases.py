"""Modules under other names, which packages are replaced by: loaders, and installation in child processes."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class Alias(Loader):
    """Loader of a module that exists under another name, which it keeps.

    Args:
        module: The module, or its name.
    """

    def __init__(self, module: str | ModuleType) -> None:
        self.module = module
        self.spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module."""
        module = importlib.import_module(self.module) if isinstance(self.module, str) else self.module
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the spec that the import system replaced."""
        module.__spec__ = self.spec


class Package(Loader):
    """Loader of a package that only holds modules."""

    def create_module(self, spec: ModuleSpec) -> None:
        """Return None: the package is a new module."""

    def exec_module(self, module: ModuleType) -> None:
        """Mark the module as a package."""
        module.__path__ = []


_installers: dict[Callable[[], object], Callable[[], bool]] = {}


def install_in_children(install: Callable[[], object], is_installed: Callable[[], bool]) -> None:
    """Have processes that ``multiprocessing`` starts call a function before they import the main module.

    Args:
        install: The function, of a module.
        is_installed: True for processes that start while it returns True.
    """
    if not _installers:
        _call_in_children()
    _installers[install] = is_installed


def _call_in_children() -> None:
    from multiprocessing import spawn

    prepare = spawn.get_preparation_data

    def get_preparation_data(name: str) -> dict[str, Any]:
        calls = [_Call(install) for install, is_installed in reversed(_installers.items()) if is_installed()]
        return {"warpdrive.module_aliases": calls, **prepare(name)}

    spawn.get_preparation_data = get_preparation_data


class _Call:
    """Object that calls a function where it is unpickled."""

    def __init__(self, function: Callable[[], object]) -> None:
        self.function = function

    def __reduce__(self) -> tuple[Any, ...]:
        return self.function, ()
