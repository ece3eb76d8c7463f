"""Loading and launching of fused CUDA C on a GPU, through PyCUDA, in PyTorch's context and on its stream.

Only this module imports PyCUDA.

PyCUDA launches on the default stream or on one that it created. If PyTorch's current stream is neither, as during graph
capture, a stream of PyCUDA is used between two events, which a graph records as dependencies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import torch

from warpdrive.backends.cuda import pytorch
from warpdrive.backends.cuda.device import device_at
from warpdrive.backends.cuda.selection import check_usable
from warpdrive.backends.diagnostics import gpu_of, pycuda_lacks
from warpdrive.backends.pycuda.arguments import argument_bytes
from warpdrive.backends.pycuda.nvrtc import compile_fused
from warpdrive.backends.system_info import this_machine
from warpdrive.errors import BackendError
from warpdrive.kernels.fusion import Fusion

_NON_BLOCKING = 1
"""CU_STREAM_NON_BLOCKING: the stream does not synchronise with the default stream."""


def usable_device(process_id: int) -> torch.device:
    """Return the GPU of a process, assigned round-robin, and make it PyTorch's current device.

    Raises :class:`BackendError` if it cannot be used.
    """
    try:
        check_usable("pycuda", pycuda_lacks, process_id)
    except BackendError as error:
        raise BackendError(f"{error}; WARPDRIVE_CUDA_ON_HOST=1 runs CUDA C on the host, for testing") from None
    index = gpu_of(process_id, this_machine())
    pytorch.start(index)  # creates the context that PyCUDA then shares
    pytorch.make_current(index)
    _context(index)
    return torch.device("cuda", index)


def bind_on_gpu(
    fusion: Fusion, arguments: Mapping[str, Any], replicas: int, agents: int, device: torch.device
) -> Callable[[], None]:
    """See ``Backend.bind``. Launches are on PyTorch's current stream.

    Raises:
        KernelError: If the kernel cannot be compiled.
    """
    on_device = {name: _on_device(value, device) for name, value in arguments.items()}
    code, packing = compile_fused(fusion, arguments, replicas, agents, torch.cuda.get_device_capability(device))
    function = _load(device.index, code.image, code.name)
    words = argument_bytes(on_device, replicas)
    function.prepare([np.dtype((np.void, len(words)))])
    launch = _Launch(function, (packing.blocks(replicas), 1), (packing.threads, 1, 1), words, device)
    launch.kept = on_device
    return launch.run


def replicas_at_once(
    fusion: Fusion, arguments: Mapping[str, Any], replicas: int, agents: int, device: torch.device
) -> int:
    """See ``Backend.replicas_at_once``. Raises the errors of :func:`bind_on_gpu`."""
    code, packing = compile_fused(fusion, arguments, replicas, agents, torch.cuda.get_device_capability(device))
    gpu = device_at(device.index)  # in the same context; PyCUDA does not query the driver for occupancy
    return gpu.replicas_at_once(gpu.load(fusion.name, code.name, code.image), packing)


def _on_device(value: Any, device: torch.device) -> Any:
    """Return a constant array of the environment as a tensor on the GPU, and any other value unchanged."""
    return torch.from_numpy(value.copy()).to(device) if isinstance(value, np.ndarray) else value


class _Launch:
    """Loaded kernel and its arguments."""

    def __init__(
        self, function: Any, grid: tuple[int, int], block: tuple[int, int, int], words: bytes, device: torch.device
    ) -> None:
        self.function, self.grid, self.block, self.words, self.device = function, grid, block, words, device
        self.kept: Any = None  # owners of the memory that the words point to
        self.before, self.after = torch.cuda.Event(), torch.cuda.Event()
        self.current_stream = pytorch.current_stream_of(device.index)
        self.own_stream = _own_stream(device.index)  # created now, as graph capture forbids it

    def run(self) -> None:
        """Launch the kernel asynchronously.

        PyCUDA launches on its own streams and the default one. If PyTorch's current stream is another, as during graph
        capture, a stream of PyCUDA's replaces it between two events.
        """
        with torch.cuda.device(self.device):
            if self.current_stream() == 0:
                self._launch(None)
                return
            current = torch.cuda.current_stream()
            stream, same = self.own_stream
            self.before.record(current)
            same.wait_event(self.before)
            self._launch(stream)
            self.after.record(same)
            current.wait_event(self.after)

    def _launch(self, stream: Any) -> None:
        self.function.prepared_async_call(self.grid, self.block, stream, self.words)


@cache
def _driver() -> Any:
    try:
        from pycuda import driver
    except ImportError as error:
        raise BackendError(
            f"env_backend 'pycuda' needs PyCUDA, which cannot be imported: {error}; pip install 'warpdrive[pycuda]'"
        ) from None
    driver.init()
    return driver


@cache
def _context(index: int) -> Any:
    """Return PyTorch's context of a GPU as PyCUDA's; it is retained until the process ends."""
    return _driver().Device(index).retain_primary_context()


@contextmanager
def _in_context(index: int) -> Iterator[Any]:
    """Make PyCUDA create modules and streams in PyTorch's context within the block; yield PyCUDA's driver module.

    The context is popped afterwards, as PyCUDA requires an empty context stack when a thread or the process ends.
    """
    _context(index).push()
    try:
        yield _driver()
    finally:
        _driver().Context.pop()


@cache
def _module(index: int, image: bytes) -> Any:
    with _in_context(index) as driver:
        return driver.module_from_buffer(image)


def _load(index: int, image: bytes, name: str) -> Any:
    module = _module(index, image)
    with _in_context(index):
        return module.get_function(name)


@cache
def _own_stream(index: int) -> tuple[Any, torch.cuda.ExternalStream]:
    """Return a stream of PyCUDA's on a GPU, and the PyTorch stream for it."""
    with _in_context(index) as driver:
        stream = driver.Stream(_NON_BLOCKING)
    return stream, torch.cuda.ExternalStream(stream.handle, torch.device("cuda", index))
