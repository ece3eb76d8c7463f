"""The kernel language: the subset of ``numba.cuda`` available in kernel functions, by dotted name."""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

from warpdrive.kernels import libraries

BARRIER = "syncthreads"
WARP_BARRIER = "syncwarp"
VOTES = ("syncthreads_count", "syncthreads_and", "syncthreads_or")
"""Barriers that return to every thread of a block a reduction of a condition over the block."""
BARRIERS = (BARRIER, WARP_BARRIER, *VOTES)
"""Synchronisation points of the threads of a block or of a warp."""
SHUFFLES = {
    "shfl_sync": ("mask", "value", "src_lane"),
    "shfl_up_sync": ("mask", "value", "delta"),
    "shfl_down_sync": ("mask", "value", "delta"),
    "shfl_xor_sync": ("mask", "value", "lane_mask"),
}
"""Functions that return to each thread of a warp the value of another, and the names of their parameters."""
WARP_FUNCTIONS = {
    **SHUFFLES,
    **dict.fromkeys(("all_sync", "any_sync", "eq_sync", "ballot_sync"), ("mask", "predicate")),
    **dict.fromkeys(("match_any_sync", "match_all_sync"), ("mask", "value")),
    "activemask": (),
}
"""All functions at which the threads of a warp synchronise, and the names of their parameters."""
THIS_GRID = "cg.this_grid"
"""Function that returns the group of all threads of a launch, which is known by the name :data:`GRID` in kernels."""
GRID = "cg.grid"
GRID_BARRIER = f"{GRID}.sync"
"""Barrier of all threads of a launch."""
SYNC_POINTS = (*BARRIERS, GRID_BARRIER, *WARP_FUNCTIONS)
"""Calls at which threads wait for each other."""
MET = "met."
"""Prefix of the dotted names of warp functions that are evaluated after a synchronisation (see ``inline.py``)."""
FENCES = ("threadfence", "threadfence_block", "threadfence_system")
DIMENSIONS = ("threadIdx", "blockIdx", "blockDim", "gridDim")
AXES = "xyz"
INDICES = tuple(f"{dimension}.{axis}" for dimension in DIMENSIONS for axis in AXES)
WARP = 32
"""The number of threads in a warp."""
VALUES = (*INDICES, "laneid", "warpsize")
"""Intrinsics that are numbers, not functions."""
ARRAYS = ("local.array", "shared.array")
LARGEST_ARRAY = {"local.array": 512 * 1024, "shared.array": 228 * 1024}
"""Maximum bytes per thread and per block on a GPU (CUDA programming guide, technical specifications)."""

_INTEGERS = ("int32", "uint32", "int64", "uint64")
_UNSIGNED = ("uint32", "uint64")
_NUMBERS = (*_INTEGERS, "float32", "float64")
ATOMIC_DTYPES = {
    **dict.fromkeys(("atomic.add", "atomic.sub"), _NUMBERS),
    **dict.fromkeys(("atomic.max", "atomic.min", "atomic.nanmax", "atomic.nanmin"), _NUMBERS),
    **dict.fromkeys(("atomic.and_", "atomic.or_", "atomic.xor", "atomic.exch"), _INTEGERS),
    **dict.fromkeys(("atomic.inc", "atomic.dec"), _UNSIGNED),
    **dict.fromkeys(("atomic.cas", "atomic.compare_and_swap"), _INTEGERS),
}
"""Atomic operations and the element dtypes that each supports."""
SCALARS = {
    **dict.fromkeys(("popc", "clz", "ffs", "brev"), ("x",)),
    "cbrt": ("a",),
    "fma": ("a", "b", "c"),
    "selp": ("a", "b", "c"),
    "nanosleep": ("ns",),
}
"""Functions of scalars and the names of their parameters."""
INT32_SENSITIVE = frozenset({"popc", "clz", "ffs", "brev", "selp"})
"""Scalar functions whose result depends on the integer width, 32 or 64 bits."""
PARAMETERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(ATOMIC_DTYPES, ("array", "index", "value")),
    "atomic.cas": ("array", "index", "expected", "value"),
    "atomic.compare_and_swap": ("array", "expected", "value"),
    **SCALARS,
    **WARP_FUNCTIONS,
    **{path: tuple("xyz")[: len(types.arguments)] for path, types in libraries.FUNCTIONS.items()},
    "lanemask_lt": (),
    "const.array_like": ("array",),
}
"""Parameter names of the intrinsics whose arguments are all positional."""
KEYWORDS: dict[str, tuple[str, ...]] = {
    **WARP_FUNCTIONS,
    **dict.fromkeys(VOTES, ("predicate",)),
    **dict.fromkeys(("grid", "gridsize"), ("ndim",)),
}
"""Parameter names of the intrinsics that accept keyword arguments in numba.cuda."""
DYNAMIC = (0,)
"""Shape of a dynamic shared memory array, whose size is given at launch."""
POSITIONS = ("grid", "gridsize")
SPACES = ("atomic", "local", "shared", "const", *libraries.MODULES)
"""Namespaces, which have no meaning without a member."""
KERNEL_LIBRARY = "numba.cuda.random"
"""Module of numba whose functions are written in the kernel language."""
USABLE_MODULES = (
    KERNEL_LIBRARY,
    "warpdrive.numba_cuda.random",
    "numba.cuda.cg",
    "numba.core.types",
    "numba.cuda.types",
)
"""Modules of ``numba.cuda``, or their replacements, whose members kernels may use."""

SUPPORTED = frozenset(
    {
        *(*BARRIERS, THIS_GRID, GRID_BARRIER, *FENCES, *VALUES, *ARRAYS, *PARAMETERS, *POSITIONS),
        *(*libraries.VECTORS, *libraries.VECTOR_ALIASES),
    }
)
_NAMESPACES = frozenset(path.rpartition(".")[0] for path in SUPPORTED if "." in path)


class Intrinsic:
    """A member of ``numba.cuda``, identified by its dotted name, such as ``atomic.add`` or ``threadIdx.x``."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"cuda.{self.path}"


FORMER_MODULES: list[ModuleType] = []
"""Replaced modules ``numba.cuda``, to whose members kernels may still refer."""


def intrinsic_of(value: Any) -> Intrinsic | None:
    """Return the :class:`Intrinsic` for an object of ``numba.cuda``, or None if it is not in the kernel language."""
    if isinstance(value, Intrinsic):
        return intrinsic_named(value.path)
    path = next((path for module in cuda_modules() if (path := _paths_by_identity(module).get(id(value)))), None)
    path = path or _path_in_library(value)
    return Intrinsic(path) if path else None


def intrinsic_named(name: str) -> Intrinsic | None:
    """Return the :class:`Intrinsic` of a given name. In numba's simulator some have no object to identify them by."""
    name = libraries.VECTOR_ALIASES.get(name, name)
    is_known = name in SUPPORTED or name in _NAMESPACES
    return Intrinsic(name) if is_known else None


def cuda_modules() -> tuple[ModuleType, ...]:
    """Return the module ``numba.cuda``, and the modules that it has replaced."""
    from numba import cuda

    return (cuda, *FORMER_MODULES)


def is_cuda_module(value: Any) -> bool:
    """Return True if ``value`` is the module ``numba.cuda`` itself."""
    return any(value is module for module in cuda_modules())


@cache
def _paths_by_identity(cuda: ModuleType) -> dict[int, str]:
    paths = {}
    own = SUPPORTED - libraries.FUNCTIONS.keys() - libraries.VECTOR_ALIASES.keys() - {*INDICES}
    for path in (*DIMENSIONS, *sorted(own), *SPACES):
        value: Any = cuda
        for part in path.split("."):
            value = getattr(value, part, None)
        if value is not None:
            paths[id(value)] = path
    return paths


def _path_in_library(value: Any) -> str | None:
    """Return the dotted name of libdevice or fp16, or of a function of theirs; None for anything else."""
    if isinstance(value, ModuleType):
        return libraries.MODULE_OF.get(value.__name__)
    library = libraries.MODULE_OF.get(getattr(value, "__module__", None) or "")
    path = f"{library}.{getattr(value, '__name__', '')}"
    return path if path in libraries.FUNCTIONS else None
