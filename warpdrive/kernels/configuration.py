"""Launch configurations: the number of blocks, threads per block and bytes of dynamic shared memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.language import LARGEST_ARRAY

Dimensions = tuple[int, int, int]

MAX_BLOCKS = (2**31 - 1, 2**16 - 1, 2**16 - 1)
MAX_THREADS = (1024, 1024, 64)
"""Hardware limits along x, y and z (CUDA programming guide, technical specifications); 1024 threads in a block."""


@dataclass(frozen=True)
class Configuration:
    """The configuration of a kernel launch.

    Attributes:
        blocks: The number of blocks along x, y and z.
        threads: The number of threads per block along x, y and z.
        shared_bytes: Bytes of dynamic shared memory per block.
        stream: The handle of a CUDA stream, 0 for PyTorch's current stream, or None if the object given is no stream
            (an error on a GPU only).
    """

    blocks: Dimensions
    threads: Dimensions
    shared_bytes: int = 0
    stream: int | None = 0

    @classmethod
    def of(cls, given: Any, what: str = "kernel") -> Configuration:
        """Parse the subscript of ``kernel[blocks, threads]``, ``[..., stream]`` or ``[..., stream, shared_bytes]``.

        A stream orders launches on a GPU; on the CPU a launch is synchronous. Streams of PyTorch, numba.cuda and
        cuda.core, and raw handles, are accepted.

        Args:
            given: The subscript, a tuple of two to four items.
            what: The description of the kernel in error messages.

        Returns:
            The configuration.

        Raises:
            KernelError: If the subscript is malformed, or exceeds the limits of a GPU.
        """
        if not isinstance(given, tuple) or not 2 <= len(given) <= 4:
            raise KernelError(
                f"{what} is launched as k[blocks, threads](...), or k[blocks, threads, stream, bytes of shared "
                f"memory](...); found k[{', '.join(map(repr, given)) if isinstance(given, tuple) else repr(given)}]"
            )
        blocks, threads = dimensions(given[0], "blocks"), dimensions(given[1], "threads")
        for counts, most, unit in ((blocks, MAX_BLOCKS, "blocks"), (threads, MAX_THREADS, "threads")):
            if any(count > limit for count, limit in zip(counts, most, strict=True)):
                raise KernelError(f"{what} is launched with {counts} {unit}; a GPU has at most {most}")
        if math.prod(threads) > MAX_THREADS[0]:
            raise KernelError(
                f"{what} is launched with {math.prod(threads)} threads in a block; a GPU has at most {MAX_THREADS[0]}"
            )
        shared_bytes = _shared_bytes(given[3], what) if len(given) == 4 else 0
        return cls(blocks, threads, shared_bytes, _stream_handle(given[2]) if len(given) > 2 else 0)


def key_of(given: Any) -> str:
    """Return a cache key for the subscript of a launch; it distinguishes 1 from 1.0 and True, which compare equal.

    A stream is represented by its handle: the ``repr`` of an object may be an address, which a later stream can have.
    """
    if isinstance(given, tuple) and len(given) > 2:
        given = (*given[:2], _stream_handle(given[2]), *given[3:])
    return repr(given)


def dimensions(value: Any, what: str) -> Dimensions:
    """Return a number, or a sequence of one to three, as a triple. Raises :class:`KernelError` for anything else."""
    given = tuple(value) if isinstance(value, Sequence) else (value,)
    if not 1 <= len(given) <= 3 or not all(isinstance(n, (int, np.integer)) and n > 0 for n in given):
        whole = any(isinstance(n, (float, np.floating)) for n in given)
        raise KernelError(
            f"a kernel is launched with a positive number of {what}, or up to three of them; found {value!r}"
            + "; for n elements and m threads in a block write (n + m - 1) // m blocks" * (whole and what == "blocks")
        )
    x, y, z = (*map(int, given), 1, 1)[:3]
    return x, y, z


def _shared_bytes(value: Any, what: str) -> int:
    most = LARGEST_ARRAY["shared.array"]
    if not isinstance(value, (int, np.integer)) or not 0 <= value <= most:
        raise KernelError(f"{what} is launched with {value!r} bytes of shared memory: expected 0 to {most}")
    return int(value)


def _stream_handle(stream: Any) -> int | None:
    if stream is None or isinstance(stream, (int, np.integer)):
        return int(stream or 0)
    if hasattr(stream, "__cuda_stream__"):  # the protocol of cuda.core, which PyTorch has too: version and handle
        return int(stream.__cuda_stream__()[1])
    for name in ("cuda_stream", "handle", "ptr"):  # of PyTorch, numba.cuda and CuPy
        if hasattr(stream, name):
            handle = getattr(stream, name)
            return int(getattr(handle, "value", handle) or 0)
    return None
