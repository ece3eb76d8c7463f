"""Binding of fused kernels to arguments on a GPU: compilation, loading and launch parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from warpdrive.backends.cuda.device import Device
from warpdrive.backends.cuda.launch import Launch
from warpdrive.backends.numba_cuda.compile import compile_kernel
from warpdrive.backends.numba_cuda.fused import prepare
from warpdrive.backends.numba_cuda.parameters import Word, words_of
from warpdrive.kernels.dtypes import dtype_of
from warpdrive.kernels.kernel import Kernel


def bind(
    kernel: Kernel,
    arguments: Mapping[str, Any],
    replicas: int,
    agents: int,
    device: Device,
    to_device: Callable[[npt.NDArray[Any]], torch.Tensor],
) -> Callable[[], None]:
    """Compile a fused kernel and return a function without arguments that launches it.

    Args:
        kernel: The fused kernel.
        arguments: For each parameter, by name, a contiguous tensor on the GPU, which must keep its memory, a read-only
            NumPy array, or a NumPy number.
        replicas: Number of replicas.
        agents: Number of agents per replica.
        device: The GPU.
        to_device: Function that copies a NumPy array to the GPU.

    Returns:
        The function that launches the kernel.

    Raises:
        KernelError: If the kernel cannot be compiled.
        BackendError: If the code cannot be loaded.
    """
    fused = prepare(kernel, arguments, replicas)
    packing = fused.packing(agents)
    code = compile_kernel(fused.kernel, fused.parameters, packing, device.gpu.capability)
    there = {name: to_device(value) if isinstance(value, np.ndarray) else value for name, value in arguments.items()}
    numbers = {p.name: dtype_of(p.kind.dtype) for p in fused.parameters if p.kind.rank is None}
    words = words_of(fused.parameters)
    return Launch(
        device,
        device.load(kernel.source.name, code.name, code.image),
        (packing.blocks(replicas), 1, 1),
        (packing.threads, 1, 1),
        [np.dtype(np.int32), *(numbers.get(word.name, np.dtype(np.int64)) for word in words)],
        [replicas, *(_value(word, there[word.name]) for word in words)],
        keep=list(there.values()),
    ).run


def replicas_at_once(kernel: Kernel, arguments: Mapping[str, Any], replicas: int, agents: int, device: Device) -> int:
    """See ``Backend.replicas_at_once``. Raises the errors of :func:`bind`."""
    fused = prepare(kernel, arguments, replicas)
    packing = fused.packing(agents)
    code = compile_kernel(fused.kernel, fused.parameters, packing, device.gpu.capability)
    return device.replicas_at_once(device.load(kernel.source.name, code.name, code.image), packing)


def _value(word: Word, argument: Any) -> Any:
    if word.what == "number":
        return argument
    assert argument.is_contiguous() and word.what != "stride"
    return argument.data_ptr() if word.what == "address" else argument.shape[word.axis]
