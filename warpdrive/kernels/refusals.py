"""What of ``numba.cuda`` a kernel function may not name, and what to use instead."""

from __future__ import annotations

from functools import cache
from typing import Any

from warpdrive.kernels.language import KERNEL_LIBRARY

_SHARED = (
    "let the threads put their values into an array of cuda.shared.array and read each other's after cuda.syncthreads()"
)
_VOTE = "cuda.syncthreads_and, syncthreads_or and syncthreads_count ask all threads of a block; within a warp, {}"
_MATH = "use the function of math with the same meaning, which computes in float32 for float32"
_GRID = "end the kernel where all blocks must meet and launch a second one: launches follow each other"
_HALF = "convert to np.float32, compute, and store the result"
_HOST = "that belongs to the host: do it before the launch and pass arrays and numbers to the kernel"
_INSTEAD = {
    **dict.fromkeys(("shfl_sync", "shfl_up_sync", "shfl_down_sync", "shfl_xor_sync", "shfl_sync_intrinsic"), _SHARED),
    **dict.fromkeys(("all_sync", "any_sync", "eq_sync", "ballot_sync", "vote_sync_intrinsic"), _VOTE.format(_SHARED)),
    **dict.fromkeys(("match_any_sync", "match_all_sync"), _SHARED),
    "activemask": "threads of a warp run one after the other here; compute which take part from cuda.laneid",
    "lanemask_lt": "write (1 << cuda.laneid) - 1",
    "cg": _GRID,
    "libdevice": _MATH,
    "rsqrt": "write 1 / math.sqrt(x)",
    "fp16": _HALF,
}


_MAKES_ARRAYS = (
    *("array", "asarray", "zeros", "ones", "empty", "full", "zeros_like", "ones_like", "empty_like", "full_like"),
    *("arange", "linspace", "eye", "identity", "copy", "concatenate", "stack", "vstack", "hstack", "append"),
    *("sort", "argsort", "cumsum", "cumprod", "meshgrid", "repeat", "tile", "unique"),
)


def refuses_of_numpy(name: str) -> str:
    """Return why a kernel cannot use a function of NumPy, or nothing if it perhaps can."""
    if name not in _MAKES_ARRAYS:
        return ""
    return (
        f"np.{name} makes an array, which takes new memory: use cuda.local.array or cuda.shared.array, and compute "
        "element by element, in a loop"
    )


def refusal(path: str) -> str:
    """Return what to say of something of ``numba.cuda`` that kernels cannot use, by its dotted name there."""
    instead = _INSTEAD.get(path.split(".")[0], _HOST if path in _host_names() else "")
    return f"cuda.{path} is not part of the kernel language on this backend{': ' if instead else ''}{instead}"


def refused_path(value: Any) -> str | None:
    """Return the dotted name in ``numba.cuda`` of a value that belongs to it and has no place in a kernel, or None."""
    path = _paths().get(id(value))
    if path is not None:
        return path
    module, name = getattr(value, "__module__", None) or "", getattr(value, "__name__", None)
    if module == KERNEL_LIBRARY or name is None:
        return None
    if module == "numba.cuda.libdevice":
        return f"libdevice.{name}"
    if module == "numba.cuda.cg":
        return f"cg.{name}"
    return None


@cache
def _paths() -> dict[int, str]:
    from numba import cuda

    found = {id(value): name for name in _INSTEAD if (value := getattr(cuda, name, None)) is not None}
    half = vars(cuda.fp16) if hasattr(cuda, "fp16") else {}
    own = ((name, value) for name, value in half.items() if _is_of_cuda(value) and not name.startswith("_"))
    return found | {id(value): f"fp16.{name}" for name, value in own}


def _is_of_cuda(value: Any) -> bool:
    """Whether a value was made by ``numba.cuda``, rather than imported there: the module math, say."""
    module = getattr(value, "__module__", None) or type(value).__module__
    return str(module).startswith("numba.cuda")


@cache
def _host_names() -> frozenset[str]:
    from numba import cuda

    functions = (name for name, value in vars(cuda).items() if callable(value) and not isinstance(value, type))
    return frozenset(functions)
