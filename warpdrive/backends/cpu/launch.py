"""Launch kernels on the CPU: look at the arguments, compile, lay the arguments out in a table, and run."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import torch

from warpdrive.backends.cpu.argument_table import C_CONTIGUOUS, F_CONTIGUOUS, WRITEABLE, ArgumentTable
from warpdrive.backends.cpu.assertions import raising
from warpdrive.backends.cpu.compile import CompiledKernel, compile_kernel
from warpdrive.backends.cpu.generate import ArgumentKind, LaunchKind
from warpdrive.backends.cpu.workers import get_num_threads, launch_on_all_cores, parts_of
from warpdrive.kernels.dimensions import Dimensions, dimensions
from warpdrive.kernels.dtypes import dtype_text
from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.kernel import Kernel
from warpdrive.kernels.lowering import resolve_kernel
from warpdrive.kernels.resolve import shape_parameters

Array = npt.NDArray[Any]

_CACHE_LINES = 128
"""Bytes that processors fetch together: two cache lines."""

TABLES = 8
"""How many tables of arguments a launcher keeps: one for each mixture of kinds that it was last launched with."""


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
    return _BoundKernel(kernel, arguments, dimensions(blocks, "blocks"), dimensions(threads, "threads")).run


class _BoundKernel:
    """A kernel compiled for its arguments, and the table that its machine code finds them in."""

    def __init__(self, kernel: Kernel, arguments: Mapping[str, Any], grid: Dimensions, block: Dimensions) -> None:
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
        self._compiled = known.compiled[key]  # keeps the machine code in memory
        self._threads = get_num_threads()
        parts = parts_of(grid[0] * grid[1] * grid[2])
        sizes = [_number(size) for size in (*grid, *block)]
        self.table = ArgumentTable(
            [*sizes, *_rooms(self._compiled, parts, block)],
            [(arguments[name], arrays.get(name)) for name in kernel.parameters],
        )
        run = launch_on_all_cores(self._compiled.address, self.table.address, parts)
        self._run = raising(run) if self._compiled.has_assertions else run
        self._in_use = threading.Lock()

    def run(self) -> None:
        """Launch the kernel."""
        self._run()

    def run_with(self, arguments: tuple[Any, ...]) -> bool:
        """Launch the kernel with other arguments of the same kinds; return False if that cannot be done now."""
        if self._threads != get_num_threads() or not self._in_use.acquire(blocking=False):
            return False
        try:
            alive = self.table.refill(arguments)
            if alive is None:
                return False
            self._run()
            return True
        finally:
            self._in_use.release()


def launcher(kernel: Kernel, blocks: Any, threads: Any) -> Callable[..., None]:
    """Return a function that launches the kernel with the arguments it is called with."""
    grid, block = dimensions(blocks, "blocks"), dimensions(threads, "threads")
    launchers = _known(kernel).launchers
    if (grid, block) not in launchers:
        launchers[grid, block] = _make_launcher(kernel, grid, block)
    return launchers[grid, block]


def _make_launcher(kernel: Kernel, grid: Dimensions, block: Dimensions) -> Callable[..., None]:
    """Return a launcher, which keeps the tables of its last launches to fill them anew."""
    ready: tuple[_BoundKernel, ...] = ()

    def launch(*arguments: Any) -> None:
        nonlocal ready
        for bound in ready:
            if bound.run_with(arguments):
                return
        if len(arguments) != len(kernel.parameters):
            raise KernelError(
                f"{kernel.where}: kernel '{kernel.source.name}' takes {len(kernel.parameters)} arguments "
                f"({', '.join(kernel.parameters)}), found {len(arguments)}"
            )
        bound = _BoundKernel(kernel, dict(zip(kernel.parameters, arguments, strict=True)), grid, block)
        bound.run()
        if bound.table.can_be_refilled:
            bound.table.arguments = ()
            ready = (bound, *ready[: TABLES - 1])

    return launch


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
    layout = "C" if flags & C_CONTIGUOUS else "F" if flags & F_CONTIGUOUS else "A"
    text = dtype_text(dtype)
    return ArgumentKind(text, None) if rank is None else ArgumentKind(text, rank, layout, not flags & WRITEABLE)


def _is_computable(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype, and each field of a structured one, is of numbers; numba has float16 on GPUs alone."""
    if dtype.fields is not None:
        return all(_is_computable(field[0].base) for field in dtype.fields.values())
    return dtype.kind in "biufc" and dtype != np.float16


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
