"""Properties of a fused kernel's arguments that GPU code is specialised for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from warpdrive.backends.cuda.packing import MAX_THREADS, Packing
from warpdrive.backends.numba_cuda.parameters import Parameter
from warpdrive.backends.shared.arguments import (
    ArgumentKind,
    baked_extents,
    baked_values,
    resolved_for,
    takes_dynamic_memory,
)
from warpdrive.kernels.compile_time import ON_GPU
from warpdrive.kernels.dtypes import dtype_of, dtype_text
from warpdrive.kernels.errors import refuse
from warpdrive.kernels.kernel import Kernel
from warpdrive.kernels.language import WARP_FUNCTIONS
from warpdrive.kernels.lowering import ResolvedKernel
from warpdrive.kernels.syntax import IntrinsicName, walk

_ALIGNMENT = 16
"""Alignment in bytes, sufficient for any number."""


@dataclass(frozen=True)
class FusedCode:
    """Fused kernel ready for compilation: its names resolved for its arguments, and its parameters."""

    kernel: ResolvedKernel
    parameters: list[Parameter]

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a replica in bytes, with each array aligned for any number."""
        arrays = self.kernel.table.shared.values()
        sizes = (math.prod(shape) * dtype_of(dtype).itemsize for shape, dtype in arrays)
        return sum(-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes)

    def packing(self, agents: int) -> Packing:
        """Return the packing of replicas with this many agents; replicas that use functions of a warp share none.

        Raises:
            KernelError: If a thread would run several agents of a kernel that uses functions of a warp.
        """
        functions = [*self.kernel.function.callees(), self.kernel.function]
        named = (node for function in functions for node in walk(function.body) if isinstance(node, IntrinsicName))
        node = next((node for node in named if node.path in WARP_FUNCTIONS), None)
        if node is None:
            return Packing.of(agents, self.shared_bytes)
        if agents > MAX_THREADS:
            refuse(node, f"cuda.{node.path} works on a GPU for up to {MAX_THREADS} agents, found {agents}")
        return Packing.unshared(agents)


def prepare(kernel: Kernel, arguments: Mapping[str, Any], replicas: int) -> FusedCode:
    """Resolve a fused kernel for its arguments: tensors, read-only NumPy arrays and NumPy numbers.

    Args:
        kernel: The fused kernel.
        arguments: Argument of each parameter, by name.
        replicas: Number of replicas.

    Returns:
        The kernel, ready for compilation.

    Raises:
        KernelError: If the kernel has dynamic shared memory.
    """
    baked = baked_values(kernel, arguments)
    if ON_GPU in kernel.parameters:
        baked[ON_GPU] = True
    parameters = [_parameter(name, arguments[name], replicas) for name in kernel.parameters if name not in baked]
    kinds = {parameter.name: parameter.kind for parameter in parameters}
    resolved = resolved_for(kernel, baked, kinds)
    resolved.check_fusible()
    takes_dynamic_memory(kernel, resolved, 0)
    return FusedCode(resolved, parameters)


def _parameter(name: str, value: Any, replicas: int) -> Parameter:
    dtype = dtype_text(_numpy_dtype(value))
    if isinstance(value, np.generic):
        return Parameter(name, ArgumentKind(dtype, None))
    is_readonly = isinstance(value, np.ndarray)
    kind = ArgumentKind(dtype, value.ndim, "C", is_readonly)
    return Parameter(name, kind, baked_extents(name, value.shape))


def _numpy_dtype(value: Any) -> np.dtype[Any]:
    dtype: np.dtype[Any] = value.dtype
    if isinstance(value, torch.Tensor):
        dtype = torch.empty((), dtype=value.dtype).numpy().dtype
    return dtype
