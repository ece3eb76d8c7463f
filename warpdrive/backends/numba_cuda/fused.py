"""What GPU code depends on of the arguments of a fused kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from warpdrive.backends.arguments import ArgumentKind, baked_values, resolved_for
from warpdrive.backends.cuda.packing import Packing
from warpdrive.backends.numba_cuda.parameters import Parameter
from warpdrive.kernels.dtypes import dtype_of, dtype_text
from warpdrive.kernels.kernel import Kernel
from warpdrive.kernels.lowering import ResolvedKernel

SHARED_BYTES = 48 * 1024
"""Shared memory that a block has on every GPU without asking for more (CUDA programming guide)."""


@dataclass(frozen=True)
class FusedCode:
    """A fused kernel that is ready to be compiled: its names resolved for its arguments, and its parameters."""

    kernel: ResolvedKernel
    parameters: list[Parameter]


def prepare(kernel: Kernel, arguments: Mapping[str, Any], replicas: int) -> FusedCode:
    """Look at the arguments of a fused kernel: tensors, read-only NumPy arrays and NumPy numbers.

    The extents of arrays are baked in but for their first axes, and those as long as there are replicas: one code
    serves for any number of replicas, and of steps of a rollout.
    """
    baked = baked_values(kernel, arguments)
    parameters = [_parameter(name, arguments[name], replicas) for name in kernel.parameters if name not in baked]
    kinds = {parameter.name: parameter.kind for parameter in parameters}
    return FusedCode(resolved_for(kernel, baked, kinds), parameters)


def packing_for(kernel: ResolvedKernel, agents: int) -> Packing:
    """Return how replicas lie on a GPU: small ones share a block, unless their shared memory does not fit then."""
    packing = Packing.of(agents)
    shared = sum(math.prod(shape) * dtype_of(dtype).itemsize for shape, dtype in kernel.table.shared.values())
    return packing if packing.replicas_per_block * shared <= SHARED_BYTES else Packing.alone(agents)


def _parameter(name: str, value: Any, replicas: int) -> Parameter:
    dtype = dtype_text(_numpy_dtype(value))
    if isinstance(value, np.generic):
        return Parameter(name, ArgumentKind(dtype, None))
    shape = tuple(value.shape)
    extents = tuple(None if axis == 0 or n == replicas else n for axis, n in enumerate(shape))
    is_readonly = isinstance(value, np.ndarray)
    return Parameter(name, ArgumentKind(dtype, len(shape), "C", is_readonly), extents)


def _numpy_dtype(value: Any) -> np.dtype[Any]:
    dtype: np.dtype[Any] = value.dtype
    if isinstance(value, torch.Tensor):
        dtype = torch.empty((), dtype=value.dtype).numpy().dtype
    return dtype
