"""Launch kernels on the CPU: arguments to numba types, room for slots, and the call itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numba
import numpy as np
import torch
from numba import types

from warpdrive.backends.cpu.compile import CompiledKernel, compile_kernel
from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.kernel import Kernel
from warpdrive.kernels.lowering import resolve_kernel
from warpdrive.kernels.resolve import shape_parameters

Dimensions = tuple[int, int, int]


def bind(kernel: Kernel, arguments: Mapping[str, Any], blocks: Any, threads: Any) -> Callable[[], None]:
    """Return a function without arguments that launches the kernel, compiled now, with these arguments.

    ``arguments`` maps each parameter to a NumPy array, a CPU tensor or a number. The arrays must stay where they
    are as long as the function is used.
    """
    grid, block = dimensions(blocks, "blocks"), dimensions(threads, "threads")
    values, compiled = _prepare(kernel, arguments, block)
    entry = compiled.entry
    workers = _workers(grid)
    fixed = (*values, *grid, *block, workers, *_rooms(compiled, workers, block))
    return lambda: entry(*fixed)


def launcher(kernel: Kernel, blocks: Any, threads: Any) -> Callable[..., None]:
    """Return a function that launches the kernel with the arguments it is called with."""
    grid, block = dimensions(blocks, "blocks"), dimensions(threads, "threads")

    def launch(*arguments: Any) -> None:
        if len(arguments) != len(kernel.parameters):
            raise KernelError(
                f"{kernel.where}: kernel '{kernel.source.name}' takes {len(kernel.parameters)} arguments "
                f"({', '.join(kernel.parameters)}), found {len(arguments)}"
            )
        bind(kernel, dict(zip(kernel.parameters, arguments, strict=True)), grid, block)()

    return launch


def dimensions(value: Any, what: str) -> Dimensions:
    """Return a number, or a sequence of up to three, as three. Raises :class:`KernelError` for anything else."""
    given = tuple(value) if isinstance(value, Sequence) else (value,)
    if not 1 <= len(given) <= 3 or not all(isinstance(n, (int, np.integer)) and n > 0 for n in given):
        raise KernelError(
            f"a kernel is launched with a positive number of {what}, or up to three of them; found {value!r}"
        )
    x, y, z = (*map(int, given), 1, 1)[:3]
    return x, y, z


def _prepare(kernel: Kernel, arguments: Mapping[str, Any], block: Dimensions) -> tuple[list[Any], CompiledKernel]:
    needed = shape_parameters(kernel.source)
    baked = {}
    for name in sorted(needed):
        if not isinstance(arguments[name], (int, np.integer)):
            raise KernelError(f"{kernel.where}: '{name}' is the shape of an array, so it must be an integer")
        baked[name] = int(arguments[name])
    values = {name: _host_value(kernel, name, arguments[name]) for name in kernel.parameters if name not in baked}
    argument_types = {name: _type_of(kernel, name, value) for name, value in values.items()}
    block_rank = 1 if block[1] == block[2] == 1 else 3
    return list(values.values()), compile_kernel(resolve_kernel(kernel.source, baked), argument_types, block_rank)


def _host_value(kernel: Kernel, name: str, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        if value.device.type != "cpu":
            raise KernelError(f"argument '{name}' of kernel '{kernel.source.name}' is on {value.device}, not the CPU")
        return value.detach().numpy()
    return value


def _type_of(kernel: Kernel, name: str, value: Any) -> types.Type:
    if isinstance(value, np.ndarray):
        layout = "C" if value.flags.c_contiguous else "F" if value.flags.f_contiguous else "A"
        try:
            return types.Array(numba.from_dtype(value.dtype), value.ndim, layout, readonly=not value.flags.writeable)
        except numba.core.errors.NumbaError:
            raise KernelError(
                f"argument '{name}' of kernel '{kernel.source.name}' has dtype {value.dtype}, which no device has"
            ) from None
    if isinstance(value, (bool, int, float, complex, np.generic)):
        return numba.typeof(value)
    raise KernelError(
        f"argument '{name}' of kernel '{kernel.source.name}' is a {type(value).__name__}; a kernel takes NumPy arrays, "
        "tensors and numbers"
    )


def _workers(grid: Dimensions) -> int:
    return min(grid[0] * grid[1] * grid[2], int(numba.get_num_threads()))


def _rooms(compiled: CompiledKernel, workers: int, block: Dimensions) -> list[np.ndarray[Any, Any]]:
    threads = block[0] * block[1] * block[2]
    return [np.zeros((workers, threads, *slot.shape), np.dtype(slot.dtype)) for slot in compiled.slots]
