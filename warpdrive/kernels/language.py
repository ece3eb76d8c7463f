"""The kernel language: what of ``numba.cuda`` a kernel function may name, and what each thing is called here."""

from __future__ import annotations

from functools import cache
from typing import Any

BARRIER = "syncthreads"
WARP_BARRIER = "syncwarp"
VOTES = ("syncthreads_count", "syncthreads_and", "syncthreads_or")
"""Barriers that tell every thread of a block of how many a condition holds."""
BARRIERS = (BARRIER, WARP_BARRIER, *VOTES)
"""Where the threads of a block, or of a warp, wait for each other."""
FENCES = ("threadfence", "threadfence_block", "threadfence_system")
DIMENSIONS = ("threadIdx", "blockIdx", "blockDim", "gridDim")
INDICES = tuple(f"{dimension}.{axis}" for dimension in DIMENSIONS for axis in "xyz")
WARP = 32
"""The number of threads in a warp."""
VALUES = (*INDICES, "laneid", "warpsize")
"""What is a number, not a function."""
ARRAYS = ("local.array", "shared.array")
LARGEST_ARRAY = {"local.array": 512 * 1024, "shared.array": 228 * 1024}
"""Bytes per thread and per block that a GPU has at most (CUDA programming guide, technical specifications)."""

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
"""The atomic operations, and the dtypes of the elements that each works on."""
SCALARS = {
    **dict.fromkeys(("popc", "clz", "ffs", "brev"), ("x",)),
    "cbrt": ("a",),
    "fma": ("a", "b", "c"),
    "selp": ("a", "b", "c"),
    "nanosleep": ("ns",),
}
"""The functions of numbers alone, and what they take."""
MIND_WIDTH = frozenset({"popc", "clz", "ffs", "brev", "selp"})
"""Those whose result or use depends on whether an integer has 32 bits or 64."""
PARAMETERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(ATOMIC_DTYPES, ("array", "index", "value")),
    "atomic.cas": ("array", "index", "expected", "value"),
    "atomic.compare_and_swap": ("array", "expected", "value"),
    **SCALARS,
    "const.array_like": ("array",),
}
"""What the functions take that are given all their arguments by position."""
DYNAMIC = (0,)
"""The shape of an array in shared memory whose size the launch says."""
POSITIONS = ("grid", "gridsize")
SPACES = ("atomic", "local", "shared", "const")
"""What is only there for what it contains."""
KERNEL_LIBRARY = "numba.cuda.random"
"""The module of numba whose functions are written in the kernel language."""

SUPPORTED = (*BARRIERS, *FENCES, *VALUES, *ARRAYS, *PARAMETERS, *POSITIONS)


class Intrinsic:
    """Something of ``numba.cuda`` by its dotted name there, such as ``atomic.add`` or ``threadIdx.x``."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"cuda.{self.path}"


def intrinsic_of(value: Any) -> Intrinsic | None:
    """Return the :class:`Intrinsic` that ``value`` is in ``numba.cuda``, or None if it is nothing of that kind."""
    path = _paths_by_identity().get(id(value))
    return Intrinsic(path) if path else None


def intrinsic_named(name: str) -> Intrinsic | None:
    """Return the :class:`Intrinsic` of that name in ``numba.cuda``, which in numba's simulator has none to look at."""
    is_known = any(name == path or path.startswith(f"{name}.") for path in SUPPORTED)
    return Intrinsic(name) if is_known else None


def is_cuda_module(value: Any) -> bool:
    """Whether ``value`` is the module ``numba.cuda`` itself."""
    from numba import cuda

    return value is cuda


@cache
def _paths_by_identity() -> dict[int, str]:
    from numba import cuda

    paths = {}
    for path in (*DIMENSIONS, *(path for path in SUPPORTED if path not in INDICES), *SPACES):
        value: Any = cuda
        for part in path.split("."):
            value = getattr(value, part, None)
        if value is not None:
            paths[id(value)] = path
    return paths
