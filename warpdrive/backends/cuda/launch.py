"""Launches of loaded code: all parameters are laid out beforehand, so that a launch is one driver call.

A launch neither allocates nor waits, so that it can be captured in a CUDA graph.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from ctypes import c_void_p
from typing import Any

import numpy as np

from warpdrive.backends.cuda import pytorch
from warpdrive.backends.cuda.device import Device, Function
from warpdrive.kernels.configuration import Dimensions
from warpdrive.kernels.errors import KernelError

WORD = 8
"""Bytes reserved for each parameter. The driver reads as many of them as the kernel declares."""

_LETTERS = {
    **{"b1": "?", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q"},
    **{"f2": "e", "f4": "f", "f8": "d"},
}
_OUT_OF_RESOURCES = 701
_SHARED_BYTES_UNASKED = 48 << 10
"""Shared memory available to a block on every GPU without opting in (CUDA programming guide)."""


class Launch:
    """Kernel with its grid and its parameters.

    A launch neither allocates nor synchronises, and can be captured in a CUDA graph. Memory that address parameters
    point to must stay valid; pass objects that own it in ``keep``.

    Args:
        device: The GPU.
        function: The kernel.
        blocks: Blocks of the grid in each dimension.
        threads: Threads per block in each dimension.
        dtypes: Dtypes of the parameters that the kernel declares; int64 for an address.
        values: Values of the parameters.
        shared_bytes: Dynamic shared memory per block in bytes.
        stream: Handle of a stream; 0 for PyTorch's current stream at each launch.
        keep: Objects to keep alive as long as this one.
        is_cooperative: If True, all blocks must run at once, since they wait for each other at barriers of the grid.

    Raises:
        KernelError: If a block has more threads than the GPU supports for this kernel.
        DriverError: If the GPU does not have that much shared memory.
    """

    def __init__(
        self,
        device: Device,
        function: Function,
        blocks: Dimensions,
        threads: Dimensions,
        dtypes: Sequence[np.dtype[Any]],
        values: Sequence[Any],
        shared_bytes: int = 0,
        stream: int = 0,
        keep: Sequence[Any] = (),
        is_cooperative: bool = False,
    ) -> None:
        _check_threads(device, function, threads)
        if function.shared_bytes + shared_bytes > _SHARED_BYTES_UNASKED:
            device.allow_shared_bytes(function, shared_bytes)
        self._layout = struct.Struct("".join(["<", *map(_word_format, dtypes)]))
        self.parameters = ctypes.create_string_buffer(WORD * len(dtypes))
        self._keep = keep
        start = ctypes.addressof(self.parameters)
        places = (c_void_p * max(len(dtypes), 1))(*range(start, start + WORD * len(dtypes), WORD))
        self.fill(values)
        self._run = _runner(device, function, (*blocks, *threads, shared_bytes), places, stream, is_cooperative)

    def fill(self, values: Sequence[Any]) -> None:
        """Replace the values of the parameters."""
        self._layout.pack_into(self.parameters, 0, *values)

    def run(self) -> None:
        """Launch the kernel. Raises :class:`warpdrive.backends.cuda.driver.DriverError` on failure."""
        self._run()


def _word_format(dtype: np.dtype[Any]) -> str:
    """Return the :mod:`struct` format of a number of this dtype, padded to a word."""
    letter = _LETTERS[dtype.str[1:]]
    return f"{letter}{WORD - dtype.itemsize}x"


def _runner(
    device: Device,
    function: Function,
    sizes: tuple[int, ...],
    places: ctypes.Array[c_void_p],
    stream: int,
    is_cooperative: bool,
) -> Callable[[], None]:
    """Return a function that launches the kernel."""
    library = device.driver.library
    launch = library.cuLaunchCooperativeKernel if is_cooperative else library.cuLaunchKernel
    current_context, context = library.cuCtxGetCurrent, device.context
    lists = (places,) if is_cooperative else (places, None)
    given = (function.handle, *sizes)
    stream_now = pytorch.current_stream_of(device.index) if stream == 0 else lambda: stream

    def run() -> None:
        found = c_void_p()
        if current_context(found) == 0 and found.value == context:
            code = launch(*given, stream_now(), *lists)
        else:  # no context, or that of another GPU, is current in this thread
            with device.in_context():
                code = launch(*given, stream_now(), *lists)
        if code:
            raise_failure(code)

    def raise_failure(code: int) -> None:
        blocks, threads = sizes[:3], sizes[3:6]
        device.driver.check(
            f"kernel '{function.name}' cannot be launched with {blocks} blocks of {threads} threads on GPU "
            f"{device.index}",
            code,
            details=_needs(function, sizes[6]) if code == _OUT_OF_RESOURCES else "",
        )

    return run


def _check_threads(device: Device, function: Function, threads: Dimensions) -> None:
    count = threads[0] * threads[1] * threads[2]
    if count > function.most_threads:
        raise KernelError(
            f"kernel '{function.name}' is launched with {count} threads in a block; {_needs(function)}, and so GPU "
            f"{device.index} ({device.gpu.name}) runs it with at most {function.most_threads}"
        )


def _needs(function: Function, dynamic_shared_bytes: int = 0) -> str:
    shared = function.shared_bytes + dynamic_shared_bytes
    return f"it takes {function.registers} registers in each thread and {shared} bytes of shared memory in each block"
