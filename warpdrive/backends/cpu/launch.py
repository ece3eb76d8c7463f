"""Kernel launches on the CPU: argument inspection, compilation, argument table and execution."""

from __future__ import annotations

import enum
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from warpdrive.backends.cpu.argument_table import C_CONTIGUOUS, F_CONTIGUOUS, WRITEABLE, ArgumentTable, words_of
from warpdrive.backends.cpu.assertions import raising
from warpdrive.backends.cpu.compile import CompiledKernel, compile_kernel
from warpdrive.backends.cpu.fibres import WaitingLaunch
from warpdrive.backends.cpu.generate import LaunchKind
from warpdrive.backends.cpu.generate_stages import WAITING
from warpdrive.backends.cpu.nesting import flattened, nesting_of
from warpdrive.backends.cpu.repeat import RepeatedLaunch
from warpdrive.backends.host.functions import ALIGNMENT
from warpdrive.backends.host.workers import get_num_threads, launch_on_all_cores, parts_of
from warpdrive.backends.interface import MachineCode
from warpdrive.backends.shared.arguments import (
    ArgumentKind,
    baked_extents,
    baked_numbers,
    baked_values,
    resolved_for,
    takes_dynamic_memory,
)
from warpdrive.backends.shared.tensors import is_tensor
from warpdrive.kernels.classes import AuthorsClass
from warpdrive.kernels.configuration import Configuration, Dimensions, dimensions
from warpdrive.kernels.debug_checks import add_debug_checks
from warpdrive.kernels.dtypes import dtype_of, dtype_text
from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.kernel import Kernel

Array = npt.NDArray[Any]

_CACHE_LINES = 128
"""Bytes that processors fetch together: two cache lines."""


def bind(kernel: Kernel, arguments: Mapping[str, Any], blocks: Any, threads: Any) -> BoundKernel:
    """Compile a kernel for arguments.

    Args:
        kernel: The kernel.
        arguments: NumPy array, CPU tensor, number, None or tuple of these for each parameter, by name. Arrays must keep
            their memory as long as the bound kernel is used.
        blocks: Number of blocks.
        threads: Number of threads per block.

    Returns:
        The kernel, which is called without arguments.

    Raises:
        KernelError: If the kernel cannot be compiled for these arguments.
    """
    configuration = Configuration(dimensions(blocks, "blocks"), dimensions(threads, "threads"))
    return BoundKernel(kernel, arguments, configuration, replicas=blocks)


class BoundKernel:
    """Kernel compiled for its arguments, with the table from which its machine code reads them.

    Args:
        kernel: The kernel.
        arguments: Argument of each parameter, by name.
        configuration: Blocks, threads and dynamic shared memory of the launch.
        replicas: Number of replicas of a fused kernel, whose array lengths are compiled in; None for a single kernel.

    Raises:
        KernelError: If an argument is not supported, or the kernel cannot be compiled.
    """

    def __init__(
        self, kernel: Kernel, arguments: Mapping[str, Any], configuration: Configuration, replicas: int | None = None
    ) -> None:
        compiled = kernel.memory.setdefault("cpu", {})
        grid, block = configuration.blocks, configuration.threads
        baked = baked_values(kernel, arguments)
        if replicas is not None:
            baked = {**baked_numbers(arguments), **baked}
        leaves: list[tuple[Any, Array | None]] = []  # in the order of the parameters
        kinds: dict[str, ArgumentKind] = {}
        for name in kernel.parameters:
            if name in baked:
                leaves.append((arguments[name], None))
            else:
                kind = _kind(kernel, name, arguments[name], leaves)
                if replicas is not None and kind.rank:
                    kind = replace(kind, extents=baked_extents(name, arguments[name].shape))
                kinds[name] = kind
        launch_kind = LaunchKind.of(configuration)
        if replicas is not None:
            launch_kind = replace(launch_kind, views=_views(kernel.parameters, leaves), is_single=False)
        key = (*((name, type(value), value) for name, value in baked.items()), *kinds.items(), launch_kind)
        if key not in compiled:
            compiled[key] = _compile(kernel, baked, kinds, launch_kind, is_fused=replicas is not None)
        self.compiled: CompiledKernel = compiled[key]  # keeps the machine code in memory
        self._threads = get_num_threads()
        self._parameters, self._blocks, self._block = kernel.parameters, grid[0] * grid[1] * grid[2], block
        waits = bool(self.compiled.sites)
        self._parts = parts = 1 if waits else parts_of(self._blocks)
        sizes = [_number(size) for size in (*grid, *block)]
        rooms, self._memory = _rooms(self.compiled, parts, self._blocks, block)
        self.table = ArgumentTable([*sizes, *rooms], leaves)
        nestings = [nesting_of(arguments[name]) for name in kernel.parameters]
        self._nestings = nestings if any(nestings) else None
        run = (
            self._waiting_launch(kernel, configuration).run
            if waits
            else launch_on_all_cores(self.compiled.address, self.table.address, parts)
        )
        if self.compiled.faults:
            run = raising(run, self.compiled.faults)
        if self.compiled.module.ROOM_BYTES is not None:
            run = in_rounds(run, *rooms[-3:-1])
        self._run = run
        self._in_use = threading.Lock()

    def _waiting_launch(self, kernel: Kernel, configuration: Configuration) -> WaitingLaunch:
        compiled = self.compiled
        return WaitingLaunch(
            kernel.source.name,
            compiled.address,
            self.table.address,
            configuration.blocks,
            configuration.threads,
            compiled.module.STACK,
            compiled.module.SHARED,
            compiled.sites,
        )

    def rooms(self, parts: int) -> list[Array]:
        """Return new memory for the variables that are kept between barriers, for a number of parts of a launch."""
        return _rooms(self.compiled, parts, self._blocks, self._block)[0]

    def run(self) -> None:
        """Launch the kernel."""
        self._run()

    __call__ = run

    def repeated(self, counter: str, steps: int, before: Sequence[MachineCode]) -> Callable[[], None] | None:
        """Return a function that repeats the launch; see :class:`warpdrive.backends.interface.RepeatableLaunch`.

        None if threads wait for each other, or the kernel may raise an exception, which has to end it.
        """
        if self.compiled.sites or self.compiled.faults or self.compiled.module.ROOM_BYTES is not None:
            return None
        index, address = self._parameters.index(counter), self.compiled.address
        return RepeatedLaunch(
            address, partial(self.table.with_address, index), self._blocks, self._parts, steps, before
        )

    def run_with(self, arguments: tuple[Any, ...]) -> bool:
        """Launch the kernel with other arguments of the same kinds; return False if that is not possible now."""
        if self._threads != get_num_threads() or not self._in_use.acquire(blocking=False):
            return False
        try:
            flat = arguments if self._nestings is None else flattened(arguments, self._nestings)
            alive = None if flat is None else self.table.refill(tuple(flat))
            if alive is None:
                return False
            self._run()
            return True
        finally:
            self._in_use.release()

    def release_arguments(self) -> bool:
        """Release the arguments; return True if :meth:`run_with` accepts new ones."""
        self.table.arguments = ()
        return self.table.can_be_refilled


def in_rounds(run: Callable[[], None], stages: Array, waiting: Array) -> Callable[[], None]:
    """Return a function that runs the rounds of a launch, between which all blocks meet.

    Args:
        run: Runs a round, in which every block continues until it ends or waits for the other blocks.
        stages: Stage of each block.
        waiting: Number of waiting blocks of each part.

    Returns:
        The function.
    """

    def launch() -> None:
        stages.fill(0)
        run()
        while waiting.any():
            run()

    return launch


def _compile(
    kernel: Kernel, baked: Mapping[str, Any], kinds: Mapping[str, ArgumentKind], launch_kind: LaunchKind, is_fused: bool
) -> CompiledKernel:
    resolved = resolved_for(kernel, baked, kinds)
    if is_fused:
        resolved.check_fusible()
    if kernel.debug:
        add_debug_checks(resolved)
    is_dynamic = takes_dynamic_memory(kernel, resolved, launch_kind.shared_bytes)
    return compile_kernel(resolved, kinds, launch_kind if is_dynamic else replace(launch_kind, shared_bytes=0))


def _views(parameters: Sequence[str], leaves: Sequence[tuple[Any, Array | None]]) -> tuple[tuple[str, str], ...] | None:
    """Return ``LaunchKind.views`` of the arguments of a fused kernel."""
    if len(leaves) != len(parameters):  # there are tuples
        return None
    arrays = {
        name: array
        for name, (value, array) in zip(parameters, leaves, strict=True)
        if array is not None and array.nbytes and _has_memory(value)
    }
    if not all(array.ndim and array.flags.c_contiguous for array in arrays.values()):
        return None
    views: list[tuple[str, str]] = []
    owner, first, end = "", -1, -1  # the array that begins last so far, and the end of all
    for begin, name in sorted((words_of(array)[0], name) for name, array in arrays.items()):
        if begin == first:
            views.append((name, owner))
        elif begin < end:
            return None
        else:
            owner, first = name, begin
        end = max(end, begin + arrays[name].nbytes)
    return tuple(sorted(views))  # independent of the addresses of the arrays, as it is part of the cache key


def _has_memory(value: Any) -> bool:
    return isinstance(value, np.ndarray) or is_tensor(value)


def _number(value: Any) -> Array:
    return np.array([value])


def _as_array(kernel: Kernel, name: str, value: Any) -> Array:
    """Return an argument as an array that shares its memory; a number becomes an array of one element."""
    if is_tensor(value):
        if value.device.type != "cpu":
            raise KernelError(f"argument '{name}' of kernel '{kernel.source.name}' is on {value.device}, not the CPU")
        try:
            return value.detach().numpy()
        except (TypeError, RuntimeError):
            raise KernelError(
                f"argument '{name}' of kernel '{kernel.source.name}' has dtype {value.dtype} and layout "
                f"{value.layout}, which kernels do not support"
            ) from None
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, np.void):  # a record: the kernel's writes go to its memory
        return np.frombuffer(value, value.dtype)
    if isinstance(value, (bool, int, float, complex, np.generic)):
        return _number(value)
    advice = ""
    if isinstance(value, list):
        advice = ": make it an array with np.array(...), or a tuple"
    elif isinstance(value, enum.Enum):
        advice = ": pass its value"
    raise KernelError(
        f"argument '{name}' of kernel '{kernel.source.name}' is a {type(value).__name__}; a kernel takes NumPy arrays, "
        f"CPU tensors, numbers, None, and tuples of these{advice}"
    )


def _kind(kernel: Kernel, name: str, value: Any, leaves: list[tuple[Any, Array | None]]) -> ArgumentKind:
    """Return the kind of an argument; its leaves are appended to ``leaves``, each with its array."""
    if isinstance(value, tuple):
        parts = [_kind(kernel, f"{name}[{index}]", part, leaves) for index, part in enumerate(value)]
        return ArgumentKind("", None, parts=tuple(parts), named=AuthorsClass.of(type(value)))
    if value is None:
        leaves.append((value, None))
        return ArgumentKind("", None)
    array = _as_array(kernel, name, value)
    if isinstance(value, int) and array.dtype == object:
        raise KernelError(f"argument '{name}' of kernel '{kernel.source.name}' is {value}, which has more than 64 bits")
    leaves.append((value, array))
    is_number = np.ndim(value) == 0 and not _has_memory(value)
    kind = _kind_of(array.dtype, None if is_number else array.ndim, array.flags.num)
    if kind is None:
        raise KernelError(
            f"argument '{name}' of kernel '{kernel.source.name}' has dtype {array.dtype}, which the CPU backend "
            f"does not support{_instead_of(array.dtype)}"
        )
    return kind


def _instead_of(dtype: np.dtype[Any]) -> str:
    if not dtype.isnative:
        return ", as its byte order is not that of this machine: convert it with .astype(dtype.newbyteorder())"
    return ""


@cache
def _kind_of(dtype: np.dtype[Any], rank: int | None, flags: int) -> ArgumentKind | None:
    """Return the kind of an array with these NumPy flags, or None if the dtype is not supported."""
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
    """Return True if kernels on the CPU support a dtype, or each field of a structured one."""
    if dtype.fields is not None:
        return all(_is_computable(field[0].base) for field in dtype.fields.values())
    return dtype.kind in "biufcmMSU"


def _rooms(compiled: CompiledKernel, parts: int, blocks: int, block: Dimensions) -> tuple[list[Array], Array]:
    """Return the arrays ``[parts, threads + padding, *shape]`` of the slots.

    The padding keeps parts on different cache lines and so avoids false sharing between cores. If blocks run in stages,
    the arrays are ``[blocks, threads, *shape]``, and stages, waiting blocks and the address of the shared memory of all
    blocks follow. That memory is the second result.
    """
    threads, room_bytes = block[0] * block[1] * block[2], compiled.module.ROOM_BYTES
    rooms, memory = [], np.zeros(0, np.uint8)
    for slot in compiled.slots:
        dtype = dtype_of(slot.dtype)
        unused = -(-_CACHE_LINES // (dtype.itemsize * math.prod(slot.shape)))
        is_of_parts = room_bytes is None or slot == WAITING
        count = (parts, threads + unused) if is_of_parts else (blocks, 1 if slot.is_of_block else threads)
        rooms.append(np.zeros((*count, *slot.shape), dtype))
    if room_bytes is not None:
        memory = np.zeros(blocks * room_bytes + ALIGNMENT, np.uint8)
        rooms.append(_number(-(-memory.ctypes.data // ALIGNMENT) * ALIGNMENT))
    return rooms, memory
