"""What compiled code depends on of a kernel's arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpdrive.kernels.classes import AuthorsClass
from warpdrive.kernels.compile_time import DTYPE, dtype_parameters, shape_parameters, unassigned_parameters
from warpdrive.kernels.dtypes import dtype_of
from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.kernel import Kernel
from warpdrive.kernels.language import DYNAMIC
from warpdrive.kernels.lowering import ResolvedKernel, resolve_kernel


@dataclass(frozen=True)
class ArgumentKind:
    """What the machine code depends on of an argument; ``rank`` is None for a number.

    ``dtype`` is text of :mod:`warpdrive.kernels.dtypes`, or empty: then the argument is a tuple of ``parts``, or None.
    ``named`` describes the class of a named tuple. ``extents`` holds for each axis of an array its length where that is
    baked in, else None; without it, none is.
    """

    dtype: str
    rank: int | None
    layout: str = "C"
    readonly: bool = False
    parts: tuple[ArgumentKind, ...] | None = None
    named: AuthorsClass | None = None
    extents: tuple[int | None, ...] | None = None

    def classes(self) -> list[AuthorsClass]:
        """Return the classes of the named tuples in it."""
        inner = [described for part in self.parts or () for described in part.classes()]
        return inner if self.named is None else [self.named, *inner]

    @property
    def words(self) -> int:
        """How many words of 8 bytes it takes in the table: its address, and an array's shape and strides."""
        if not self.dtype:
            return sum(part.words for part in self.parts or ())
        return 1 + 2 * (1 if self.rank is None else self.rank)

    @property
    def loader_arguments(self) -> tuple[str, int, str, bool, tuple[int | None, ...]]:
        """The arguments of :func:`warpdrive.backends.cpu.intrinsics.array_loader` for an array."""
        assert self.rank is not None
        return (self.dtype, self.rank, self.layout, self.readonly, self.extents or (None,) * self.rank)


def baked_extents(shape: Sequence[int], replicas: int) -> tuple[int | None, ...]:
    """Return which lengths of an array's axes are baked into a fused kernel: one code serves for all others.

    Those are its first axis, and those as long as there are replicas: any number of replicas, and of a rollout's steps.
    """
    return tuple(None if axis == 0 or n == replicas else n for axis, n in enumerate(shape))


def baked_values(kernel: Kernel, arguments: Mapping[str, Any]) -> dict[str, int | None]:
    """Return the values of the parameters that must be known when a kernel is compiled, and those that are None.

    Raises :class:`KernelError` for the shape of an array that is no integer.
    """
    if "baked" not in kernel.memory:
        kernel.memory["baked"] = unassigned_parameters(kernel.source), sorted(shape_parameters(kernel.source))
    unassigned, shapes = kernel.memory["baked"]
    absent = (name for name in kernel.parameters if name in unassigned and arguments[name] is None)
    baked: dict[str, int | None] = dict.fromkeys(absent)
    for name in shapes:
        if not isinstance(arguments[name], (int, np.integer)):
            raise KernelError(f"{kernel.where}: '{name}' is the shape of an array, so it must be an integer")
        baked[name] = int(arguments[name])
    return baked


def resolved_for(kernel: Kernel, baked: Mapping[str, int | None], kinds: Mapping[str, ArgumentKind]) -> ResolvedKernel:
    """Resolve the names of a kernel that is given baked values, and other arguments of such kinds."""
    arrays = {name + DTYPE: kind for name, kind in kinds.items() if kind.rank is not None}
    dtypes = {name: dtype_of(arrays[name].dtype) for name in dtype_parameters(kernel.source) & arrays.keys()}
    return resolve_kernel(kernel.source, {**baked, **dtypes})


def takes_dynamic_memory(kernel: Kernel, resolved: ResolvedKernel, shared_bytes: int) -> bool:
    """Whether a kernel has shared memory whose size is given at launch.

    Raises :class:`KernelError` if it has, and none is given.
    """
    is_dynamic = DYNAMIC in (shape for shape, _ in resolved.table.shared.values())
    if is_dynamic and not shared_bytes:
        raise KernelError(
            f"{kernel.where}: kernel '{kernel.source.name}' has shared memory of dynamic size: launch it as "
            "k[blocks, threads, 0, bytes](...)"
        )
    return is_dynamic
