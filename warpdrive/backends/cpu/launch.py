"""Launch kernels on the CPU: look at the arguments, compile, lay the arguments out in a table, and run."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import torch

from warpdrive.backends.cpu.assertions import raising
from warpdrive.backends.cpu.compile import CompiledKernel, compile_kernel
from warpdrive.backends.cpu.generate import ArgumentKind, LaunchKind
from warpdrive.backends.cpu.workers import launch_on_all_cores, parts_of
from warpdrive.kernels.dimensions import Dimensions, dimensions
from warpdrive.kernels.dtypes import dtype_text
from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.kernel import Kernel
from warpdrive.kernels.lowering import resolve_kernel
from warpdrive.kernels.resolve import shape_parameters

Array = npt.NDArray[Any]

_CACHE_LINES = 128
"""Bytes that processors fetch together: two cache lines."""

_C_CONTIGUOUS, _F_CONTIGUOUS, _WRITEABLE = 0x1, 0x2, 0x400
"""Bits of ``ndarray.flags.num``: NPY_ARRAY_C_CONTIGUOUS and its like in NumPy's C API."""


@dataclass
class _Known:
    """What is known of a kernel from launches before."""

    shape_parameters: list[str]
    compiled: dict[tuple[Any, ...], CompiledKernel] = field(default_factory=dict)
    launchers: dict[tuple[Dimensions, Dimensions], Callable[..., None]] = field(default_factory=dict)


def _known(kernel: Kernel) -> _Known:
    if "cpu" not in kernel.memory:
        kernel.memory["cpu"] = _Known(sorted(shape_parameters(kernel.source)))
    known: _Known = kernel.memory["cpu"]
    return known


def bind(kernel: Kernel, arguments: Mapping[str, Any], blocks: Any, threads: Any) -> Callable[[], None]:
    """Return a function without arguments that launches the kernel, compiled now, with these arguments.

    ``arguments`` maps each parameter to a NumPy array, a CPU tensor or a number. The arrays must stay where they
    are as long as the function is used.
    """
    grid, block = dimensions(blocks, "blocks"), dimensions(threads, "threads")
    known = _known(kernel)
    baked = _baked(kernel, known.shape_parameters, arguments)
    given = {name: arguments[name] for name in kernel.parameters if name not in baked}
    arrays = {name: _as_array(kernel, name, value) for name, value in given.items()}
    kinds = {
        name: _kind(kernel, name, array, is_number=np.ndim(given[name]) == 0 and not _has_memory(given[name]))
        for name, array in arrays.items()
    }
    launch_kind = LaunchKind.of(grid, block)
    key = (*baked.values(), *kinds.values(), launch_kind)
    if key not in known.compiled:
        known.compiled[key] = compile_kernel(resolve_kernel(kernel.source, baked), kinds, launch_kind)
    compiled = known.compiled[key]
    parts = parts_of(grid[0] * grid[1] * grid[2])
    table, kept = _table([*map(_number, (*grid, *block)), *arrays.values(), *_rooms(compiled, parts, block)])
    run = launch_on_all_cores(compiled.address, table.ctypes.data, parts)
    if compiled.has_assertions:
        run = raising(run)

    def launch() -> None:
        run()

    launch.keeps = (compiled, table, kept)  # type: ignore[attr-defined]
    return launch


def launcher(kernel: Kernel, blocks: Any, threads: Any) -> Callable[..., None]:
    """Return a function that launches the kernel with the arguments it is called with.

    It keeps the arguments of its last launch: when they come again, which they do in a loop, it only runs.
    """
    grid, block = dimensions(blocks, "blocks"), dimensions(threads, "threads")
    launchers = _known(kernel).launchers
    if (grid, block) not in launchers:
        launchers[grid, block] = _make_launcher(kernel, grid, block)
    return launchers[grid, block]


def _make_launcher(kernel: Kernel, grid: Dimensions, block: Dimensions) -> Callable[..., None]:
    last: tuple[tuple[Any, ...], list[int], Callable[[], None]] | None = None

    def launch(*arguments: Any) -> None:
        nonlocal last
        known = last  # one name for all of it, so that another Python thread never sees the half
        if (
            known is None
            or len(arguments) != len(known[0])
            or not all(map(operator.is_, arguments, known[0]))
            or _addresses(arguments) != known[1]
        ):
            if len(arguments) != len(kernel.parameters):
                raise KernelError(
                    f"{kernel.where}: kernel '{kernel.source.name}' takes {len(kernel.parameters)} arguments "
                    f"({', '.join(kernel.parameters)}), found {len(arguments)}"
                )
            run = bind(kernel, dict(zip(kernel.parameters, arguments, strict=True)), grid, block)
            known = last = (arguments, _addresses(arguments), run)
        known[2]()

    return launch


def _addresses(arguments: Sequence[Any]) -> list[int]:
    """Return where the tensors among the arguments are: assigning to ``tensor.data`` moves one."""
    return [value.data_ptr() for value in arguments if isinstance(value, torch.Tensor)]


def _baked(kernel: Kernel, names: Sequence[str], arguments: Mapping[str, Any]) -> dict[str, int]:
    """Return the values of the parameters that must be known when the kernel is compiled."""
    baked = {}
    for name in names:
        if not isinstance(arguments[name], (int, np.integer)):
            raise KernelError(f"{kernel.where}: '{name}' is the shape of an array, so it must be an integer")
        baked[name] = int(arguments[name])
    return baked


def _has_memory(value: Any) -> bool:
    return isinstance(value, (np.ndarray, torch.Tensor))


def _number(value: Any) -> Array:
    return np.array([value])


def _as_array(kernel: Kernel, name: str, value: Any) -> Array:
    """Return an argument as an array: the same memory, or a number as an array of one."""
    if isinstance(value, torch.Tensor):
        if value.device.type != "cpu":
            raise KernelError(f"argument '{name}' of kernel '{kernel.source.name}' is on {value.device}, not the CPU")
        try:
            return value.detach().numpy()
        except (TypeError, RuntimeError):
            raise KernelError(
                f"argument '{name}' of kernel '{kernel.source.name}' has dtype {value.dtype} and layout "
                f"{value.layout}, which no kernel can use"
            ) from None
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, (bool, int, float, complex, np.generic)):
        return _number(value)
    raise KernelError(
        f"argument '{name}' of kernel '{kernel.source.name}' is a {type(value).__name__}; a kernel takes NumPy arrays, "
        "tensors and numbers"
    )


def _kind(kernel: Kernel, name: str, array: Array, is_number: bool) -> ArgumentKind:
    kind = _kind_of(array.dtype, None if is_number else array.ndim, array.flags.num)
    if kind is None:
        raise KernelError(
            f"argument '{name}' of kernel '{kernel.source.name}' has dtype {array.dtype}, "
            "which the CPU backend does not compute with"
        )
    return kind


@cache
def _kind_of(dtype: np.dtype[Any], rank: int | None, flags: int) -> ArgumentKind | None:
    """Return the kind of an array with these flags (as NumPy numbers them), or None if it cannot be computed with."""
    if not _is_computable(dtype):
        return None
    try:
        numba.from_dtype(dtype)
    except numba.core.errors.NumbaError:
        return None
    layout = "C" if flags & _C_CONTIGUOUS else "F" if flags & _F_CONTIGUOUS else "A"
    text = dtype_text(dtype)
    return ArgumentKind(text, None) if rank is None else ArgumentKind(text, rank, layout, not flags & _WRITEABLE)


def _is_computable(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype, and each field of a structured one, is of numbers; numba has float16 on GPUs alone."""
    if dtype.fields is not None:
        return all(_is_computable(field[0].base) for field in dtype.fields.values())
    return dtype.kind in "biufc" and dtype != np.float16


def _table(arrays: Sequence[Array]) -> tuple[npt.NDArray[np.int64], Sequence[Array]]:
    """Return the words that tell machine code where the arrays are, and what must be kept alive for them."""
    words: list[int] = []
    for array in arrays:
        words += (array.__array_interface__["data"][0], *array.shape, *array.strides)
    return np.array(words, np.int64), arrays


def _rooms(compiled: CompiledKernel, parts: int, block: Dimensions) -> list[Array]:
    """Return the arrays ``[parts, threads, *shape]`` of the slots.

    Each part's room ends with a stretch that nobody uses: two cores that write to one cache line wait for each other.
    """
    threads = block[0] * block[1] * block[2]
    rooms = []
    for slot in compiled.slots:
        dtype = np.dtype(slot.dtype)
        unused = -(-_CACHE_LINES // (dtype.itemsize * math.prod(slot.shape)))
        rooms.append(np.zeros((parts, threads + unused, *slot.shape), dtype))
    return rooms
