"""Installation as ``numba.cuda`` of this process, with numba's own and numba-cuda installed or without."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from warpdrive.kernels.executed_text import keep_texts
from warpdrive.module_aliases import Alias, Package, install_in_children

NAME = "numba.cuda"
_OWN = "warpdrive.numba_cuda."

_COMPILERS = ("nvvm", "nvrtc", "libs", "linkable_code")
_HOMES = {
    "": "cuda",
    **dict.fromkeys(("api", "decorators", "device_init", "stubs", "intrinsics", "simulator"), "cuda"),
    **{"args": "arguments", "errors": "errors", "random": "random", "testing": "testing", "dispatcher": "dispatcher"},
    **{"vectorizers": "elementwise", "deviceufunc": "elementwise", "kernels.reduction": "elementwise"},
    **{
        "libdevicefuncs": "libdevicefuncs",
        "kernels.transpose": "transposition",
        "vector_types": "vectors",
        "simulator.vector_types": "vectors",
    },
    **dict.fromkeys(("compiler", "codegen", "launchconfig", *(f"cudadrv.{name}" for name in _COMPILERS)), "compilers"),
    **dict.fromkeys(("driver", "devices", "drvapi", "runtime", "enums"), "driver"),
    **{f"cudadrv.{name}": "driver" for name in ("driver", "devices", "drvapi", "runtime", "enums")},
    **{"cudadrv.error": "errors", "cudadrv.devicearray": "arrays", "simulator.cudadrv.devicearray": "arrays"},
}
"""Modules of this package that replace modules of ``numba.cuda``, by the name below it."""

_IN_CORE = ("types", "typing", "typeconv", "datamodel", "cgutils", "utils", "serialize")
_OF_NUMBA = {
    **{name: f"numba.core.{name}" for name in _IN_CORE},
    **{"core": "numba.core", "np": "numba.np", "misc": "numba.misc", "extending": "numba.extending"},
    "memory_management.nrt": "numba.core.runtime",
}
"""Packages of ``numba.cuda`` that numba-cuda copied from numba, with the package that holds them there."""

_PACKAGES = ("cudadrv", "kernels", "memory_management")


def location_of_numba_cuda() -> str | None:
    """Return the folder of numba-cuda, or else of numba's own ``numba.cuda``; None if there is neither."""
    import numba

    for finder in sys.meta_path:
        if not isinstance(finder, _Finder) and hasattr(finder, "find_spec"):
            spec = finder.find_spec(NAME, numba.__path__)
            if spec is not None and spec.submodule_search_locations:
                return str(spec.submodule_search_locations[0])
    return None


class _Finder(MetaPathFinder):
    """Finder of ``numba.cuda`` and its modules."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        """Return the spec of a module of ``numba.cuda``. Raises :class:`ModuleNotFoundError` if there is none."""
        if fullname != NAME and not fullname.startswith(f"{NAME}."):
            return None
        below = fullname[len(NAME) + 1 :]
        first, _, rest = below.partition(".")
        if first == "tests":
            return None if rest else PathFinder.find_spec(fullname, [location_of_numba_cuda() or ""])
        if below in _HOMES:
            return ModuleSpec(fullname, Alias(_OWN + _HOMES[below]))
        if below in _PACKAGES:
            return ModuleSpec(fullname, _LazyPackage(), is_package=True)
        if (name := _name_in_numba(below)) and _exists(name):
            return ModuleSpec(fullname, Alias(name))
        if below in vars(sys.modules[NAME]) and isinstance(vars(sys.modules[NAME])[below], ModuleType):
            return ModuleSpec(fullname, Alias(vars(sys.modules[NAME])[below]))
        raise ModuleNotFoundError(f"No module named '{fullname}' in warpdrive.numba_cuda", name=fullname)


def _name_in_numba(below: str) -> str | None:
    """Return the name of the module of numba that corresponds to one of ``numba.cuda``, or None."""
    if below in _OF_NUMBA:
        return _OF_NUMBA[below]
    first, _, rest = below.partition(".")
    return f"{_OF_NUMBA[first]}.{rest}" if first in _OF_NUMBA else None


def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


class _LazyPackage(Package):
    """Loader of a package whose modules are imported on first use."""

    def exec_module(self, module: ModuleType) -> None:
        """Make the modules attributes of the package."""
        super().exec_module(module)
        module.__dict__["__getattr__"] = lambda name: submodule(module.__name__, name)


def submodule(package: str, name: str) -> ModuleType:
    """Return a module of ``numba.cuda``, imported on first use. Raises :class:`AttributeError` if there is none."""
    below = f"{package}.{name}"[len(NAME) + 1 :]
    if NAME not in sys.modules or not (below in _HOMES or below in _PACKAGES or below in _OF_NUMBA):
        raise AttributeError(f"module '{package}' has no attribute '{name}'")
    return importlib.import_module(f"{package}.{name}")


_former: dict[str, Any] | None = None


def is_installed() -> bool:
    """Return True between :func:`install` and :func:`uninstall`."""
    return _former is not None


def install() -> None:
    """Make ``numba.cuda`` that of this package: modules imported from now on run their kernels on the CPU.

    ``numba.config.ENABLE_CUDASIM`` becomes 1, unless the environment variable ``NUMBA_ENABLE_CUDASIM`` is set, since
    programs look there for whether there is a GPU.
    """
    global _former
    if _former is not None:
        return
    import numba

    replaced = {name: module for name, module in sys.modules.items() if f"{name}.".startswith(f"{NAME}.")}
    _former = {"modules": replaced, "attribute": vars(numba).get("cuda"), "simulated": numba.config.ENABLE_CUDASIM}
    for name in replaced:
        del sys.modules[name]
    sys.meta_path.insert(0, _Finder())
    if "NUMBA_ENABLE_CUDASIM" not in os.environ:
        numba.config.ENABLE_CUDASIM = 1
    install_in_children(install, is_installed)
    keep_texts()
    facade = importlib.import_module(NAME)
    numba.cuda = facade
    _former["builders"] = _set_builders([_builder(name) for name in ("CUDAVectorize", "CUDAGUFuncVectorize")])
    from warpdrive.kernels.language import FORMER_MODULES

    FORMER_MODULES[:] = [module for name, module in replaced.items() if name == NAME and module is not facade]


def _set_builders(builders: Sequence[Any]) -> list[Any]:
    """Set the functions that import the builders of ``vectorize`` and ``guvectorize``; return the former ones."""
    from numba.np.ufunc.decorators import GUVectorize, Vectorize

    former = []
    for kind, builder in zip((Vectorize, GUVectorize), builders, strict=True):
        registry = kind.target_registry
        imported = registry.pop("cuda", None)
        former.append(registry.ondemand.pop("cuda", None) or (lambda imported=imported: imported))
        registry.ondemand["cuda"] = builder
    return former


def _builder(name: str) -> Callable[[], Any]:
    return lambda: getattr(importlib.import_module(f"{_OWN}elementwise"), name)


def uninstall() -> None:
    """Undo :func:`install`, for modules imported from now on."""
    global _former
    if _former is None:
        return
    import numba

    from warpdrive.kernels.language import FORMER_MODULES

    FORMER_MODULES[:] = [sys.modules[NAME]]
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
    for name in [name for name in sys.modules if f"{name}.".startswith(f"{NAME}.")]:
        del sys.modules[name]
    sys.modules.update(_former["modules"])
    vars(numba).pop("cuda", None)
    if _former["attribute"] is not None:
        numba.cuda = _former["attribute"]
    numba.config.ENABLE_CUDASIM = _former["simulated"]
    keep_texts(False)
    _set_builders(_former["builders"])
    _former = None
