"""Launches of single kernels on a GPU, with the author's blocks and threads."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from warpdrive.backends.cuda import pytorch
from warpdrive.backends.cuda.code import CudaCode
from warpdrive.backends.cuda.device import Device, device_at
from warpdrive.backends.cuda.launch import Launch
from warpdrive.backends.cuda.selection import check_usable
from warpdrive.backends.diagnostics import numba_lacks
from warpdrive.backends.numba_cuda.arguments import Argument, argument, read_all
from warpdrive.backends.numba_cuda.compile import compile_kernel
from warpdrive.backends.shared.arguments import baked_values, resolved_for, takes_dynamic_memory
from warpdrive.kernels.configuration import Configuration
from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.kernel import Kernel


class BoundOnGpu:
    """Kernel compiled for its arguments and loaded onto a GPU, with a buffer for the words of a launch.

    Args:
        kernel: The kernel.
        arguments: Argument of each parameter, by name.
        configuration: Blocks, threads, dynamic shared memory and stream of the launch.
        index: Index of the GPU; None for PyTorch's current one.

    Raises:
        KernelError: If a GPU does not support an argument, or the kernel itself.
        BackendError: If the GPU cannot be used.
    """

    def __init__(
        self, kernel: Kernel, arguments: Mapping[str, Any], configuration: Configuration, index: int | None
    ) -> None:
        if configuration.stream is None:
            raise KernelError(
                f"kernel '{kernel.source.name}' is launched on an object that is not a stream: pass a stream of "
                "PyTorch or numba.cuda, or 0 for PyTorch's current one"
            )
        if index is None:
            check_usable("numba", numba_lacks, 0)
            index = pytorch.current_device()
        check_usable("numba", numba_lacks, index)
        device, name = device_at(index), kernel.source.name
        baked = baked_values(kernel, arguments)
        self._baked = [(place, baked[p]) for place, p in enumerate(kernel.parameters) if p in baked]
        self._places = [place for place, p in enumerate(kernel.parameters) if p not in baked]
        self._arguments = [argument(p, arguments[p], name) for p in kernel.parameters if p not in baked]
        code = _compiled(kernel, baked, self._arguments, device, configuration.shared_bytes)
        self._launch = Launch(
            device,
            device.load(name, code.name, code.image),
            configuration.blocks,
            configuration.threads,
            [dtype for known in self._arguments for dtype in known.dtypes],
            self._words_of(tuple(arguments.values())) or [],
            configuration.shared_bytes,
            configuration.stream,
            is_cooperative=code.is_cooperative,
        )
        self._in_use = threading.Lock()

    def run(self) -> None:
        """Launch the kernel."""
        self._launch.run()

    def run_with(self, arguments: tuple[Any, ...]) -> bool:
        """Launch the kernel with other arguments of the same kinds; return False if that is not possible now."""
        words = self._words_of(arguments)
        if words is None or not self._in_use.acquire(blocking=False):
            return False
        try:
            self._launch.fill(words)
            self._launch.run()
            return True
        finally:
            self._in_use.release()

    def release_arguments(self) -> bool:
        """Return True: other arguments of the same kinds can always be taken, and none are kept."""
        return True

    def _words_of(self, arguments: tuple[Any, ...]) -> list[Any] | None:
        for place, value in self._baked:
            if arguments[place] is not value and (value is None or arguments[place] != value):
                return None
        return read_all(self._arguments, [arguments[place] for place in self._places])


def _compiled(
    kernel: Kernel, baked: Mapping[str, Any], arguments: Sequence[Argument], device: Device, shared_bytes: int
) -> CudaCode:
    """Return the code of a kernel for arguments of these kinds."""
    codes = kernel.memory.setdefault("numba", {})
    parameters = [known.parameter for known in arguments]
    key = (*baked.items(), *parameters, device.gpu.capability)
    if (key, shared_bytes > 0) not in codes:
        resolved = resolved_for(kernel, baked, {parameter.name: parameter.kind for parameter in parameters})
        takes_dynamic_memory(kernel, resolved, shared_bytes)
        codes[key, shared_bytes > 0] = compile_kernel(resolved, parameters, None, device.gpu.capability)
    found: CudaCode = codes[key, shared_bytes > 0]
    return found
