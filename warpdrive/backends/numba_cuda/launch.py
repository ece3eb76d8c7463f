"""Bind fused kernels to arguments on a GPU: compile, load, and lay out what a launch needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from warpdrive.backends.cuda.device import Device
from warpdrive.backends.cuda.launch import Launch
from warpdrive.backends.cuda.packing import Packing
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
    """Return a function without arguments that launches the kernel, compiled now, for replicas of so many agents.

    ``arguments`` maps each parameter to a contiguous tensor on the GPU, which must stay where it is, a read-only NumPy
    array, which ``to_device`` copies there, or a NumPy number.

    Raises :class:`KernelError` for what cannot be compiled, and :class:`BackendError` for what cannot be loaded.
    """
    fused = prepare(kernel, arguments, replicas)
    packing = Packing.of(agents, fused.shared_bytes)
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
    """Return how many replicas a GPU runs at a time. Arguments and errors are those of :func:`bind`."""
    fused = prepare(kernel, arguments, replicas)
    packing = Packing.of(agents, fused.shared_bytes)
    code = compile_kernel(fused.kernel, fused.parameters, packing, device.gpu.capability)
    return device.replicas_at_once(device.load(kernel.source.name, code.name, code.image), packing)


def _value(word: Word, argument: Any) -> Any:
    if word.what == "number":
        return argument
    assert argument.is_contiguous() and word.what != "stride"
    return argument.data_ptr() if word.what == "address" else argument.shape[word.axis]
