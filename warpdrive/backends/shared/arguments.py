"""Properties of kernel arguments that compiled code is specialised for."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpdrive.errors import shown
from warpdrive.kernels.classes import AuthorsClass
from warpdrive.kernels.compile_time import DTYPE, dtype_parameters, shape_parameters, unassigned_parameters
from warpdrive.kernels.dtypes import dtype_of
from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.fusion import ROLLOUT
from warpdrive.kernels.kernel import Kernel
from warpdrive.kernels.language import DYNAMIC
from warpdrive.kernels.lowering import ResolvedKernel, resolve_kernel


@dataclass(frozen=True)
class ArgumentKind:
    """Properties of an argument that machine code is specialised for.

    Attributes:
        dtype: Text of :mod:`warpdrive.kernels.dtypes`; empty for a tuple of ``parts``, or for None.
        rank: Number of dimensions of an array; None for a number.
        layout: ``"C"``, ``"F"`` or ``"A"``, as in numba's array types.
        readonly: If True, the array cannot be written.
        parts: Kinds of the items of a tuple.
        named: Class of a named tuple.
        extents: For each axis of an array its length if that is a constant of the code, else None. If None, no length
            is constant.
    """

    dtype: str
    rank: int | None
    layout: str = "C"
    readonly: bool = False
    parts: tuple[ArgumentKind, ...] | None = None
    named: AuthorsClass | None = None
    extents: tuple[int | None, ...] | None = None

    def classes(self) -> list[AuthorsClass]:
        """Return the classes of all named tuples in the argument."""
        inner = [described for part in self.parts or () for described in part.classes()]
        return inner if self.named is None else [self.named, *inner]

    @property
    def words(self) -> int:
        """Number of 8-byte words in the argument table: the address, and the shape and strides of an array."""
        if not self.dtype:
            return sum(part.words for part in self.parts or ())
        return 1 + 2 * (1 if self.rank is None else self.rank)

    @property
    def loader_arguments(self) -> tuple[str, int, str, bool, tuple[int | None, ...]]:
        """Arguments of :func:`warpdrive.backends.host.intrinsics.array_loader` for an array."""
        assert self.rank is not None
        return (self.dtype, self.rank, self.layout, self.readonly, self.extents or (None,) * self.rank)


def baked_extents(parameter: str, shape: Sequence[int]) -> tuple[int | None, ...]:
    """Return the axis lengths of an array that are constants of a fused kernel, with None for the others.

    Not constant are the first axis, which is that of the replicas, start states or rollout steps, and in the last case
    the next one, so that the same code serves any number of them.
    """
    varying = 2 if parameter.startswith(ROLLOUT) else 1
    return tuple(None if axis < varying else n for axis, n in enumerate(shape))


def baked_values(kernel: Kernel, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the parameters that are compile-time constants: shapes, None, and members of enumerations.

    Raises :class:`KernelError` if the shape of an array is not an integer.
    """
    if "baked" not in kernel.memory:
        kernel.memory["baked"] = unassigned_parameters(kernel.source), sorted(shape_parameters(kernel.source))
    unassigned, shapes = kernel.memory["baked"]
    baked = {name: arguments[name] for name in kernel.parameters if name in unassigned and _is_baked(arguments[name])}
    for name in shapes:
        if not isinstance(arguments[name], (int, np.integer)):
            raise KernelError(
                f"{kernel.where}: '{name}' determines the shape of a local or shared array, which is known when the "
                f"kernel is compiled: it must be an integer, found {shown(arguments[name])}"
            )
        baked[name] = int(arguments[name])
    return baked


def baked_numbers(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the integers and booleans among the arguments of a fused kernel, which are constants of its code.

    They bound loops, are divisors and select branches: LLVM vectorises over replicas only if they are known. Not
    constant is the number of replicas, since the same code serves any, and that of agents: loops over agents are better
    vectorised than unrolled.
    """
    return {
        name: value
        for name, value in arguments.items()
        if isinstance(value, (np.bool_, np.integer)) and name not in ("num_envs", "num_agents")
    }


def _is_baked(value: Any) -> bool:
    return value is None or (isinstance(value, enum.Enum) and not isinstance(value, int))


def resolved_for(kernel: Kernel, baked: Mapping[str, Any], kinds: Mapping[str, ArgumentKind]) -> ResolvedKernel:
    """Resolve the names of a kernel for the given constants and argument kinds.

    Args:
        kernel: The kernel.
        baked: Values of the compile-time parameters, by name.
        kinds: Kinds of the other parameters, by name.

    Returns:
        The resolved kernel.
    """
    arrays = {name + DTYPE: kind for name, kind in kinds.items() if kind.rank is not None}
    dtypes = {name: dtype_of(arrays[name].dtype) for name in dtype_parameters(kernel.source) & arrays.keys()}
    constants = {**baked, **dtypes}
    resolved = resolve_kernel(kernel.source, constants)
    members = None if resolved.table.may_change else resolved.table.members
    kernel.memory.setdefault("resolved", {})[tuple(constants.items())] = members
    return resolved


def takes_dynamic_memory(kernel: Kernel, resolved: ResolvedKernel, shared_bytes: int) -> bool:
    """Return True if a kernel has shared memory whose size is set at launch.

    Args:
        kernel: The kernel.
        resolved: The kernel with its names resolved.
        shared_bytes: Bytes of dynamic shared memory of the launch.

    Returns:
        True if the kernel uses dynamic shared memory.

    Raises:
        KernelError: If it does and ``shared_bytes`` is 0.
    """
    is_dynamic = DYNAMIC in (shape for shape, _ in resolved.table.shared.values())
    if is_dynamic and not shared_bytes:
        raise KernelError(
            f"{kernel.where}: kernel '{kernel.source.name}' has shared memory of dynamic size: launch it as "
            "k[blocks, threads, 0, bytes](...)"
        )
    return is_dynamic
