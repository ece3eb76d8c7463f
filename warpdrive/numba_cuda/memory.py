"""Allocations of device memory, which is host memory; arrays are found by any address within them."""

from __future__ import annotations

import ctypes
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from warpdrive.numba_cuda.errors import INVALID_VALUE, CudaAPIError

Array = npt.NDArray[Any]

_allocations: WeakValueDictionary[tuple[int, int], Array] = WeakValueDictionary()
"""Arrays by address and identity: mapped arrays can be parts of others."""


class MemoryPointer:
    """Part of an allocation.

    Args:
        buffer: The bytes, which stay allocated as long as the pointer.
    """

    __cuda_memory__ = True

    def __init__(self, buffer: Array) -> None:
        self.buffer, self.size = buffer, buffer.nbytes

    @property
    def device_pointer_value(self) -> int:
        """Address of the first byte."""
        return int(self.buffer.ctypes.data)

    @property
    def device_ctypes_pointer(self) -> Any:
        """Address of the first byte as ``ctypes.c_void_p``."""
        return ctypes.c_void_p(self.device_pointer_value)

    handle = device_pointer = device_ctypes_pointer

    def __int__(self) -> int:
        return self.device_pointer_value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemoryPointer) and (int(self), self.size) == (int(other), other.size)

    __hash__ = None  # type: ignore[assignment]

    def view(self, start: int, stop: int | None = None) -> MemoryPointer:
        """Return a pointer to the bytes from ``start`` to ``stop``."""
        return MemoryPointer(self.buffer[start : self.size if stop is None else stop])

    def memset(self, byte: int, count: int | None = None, stream: Any = 0) -> None:
        """Set the first ``count`` bytes, or all of them."""
        self.buffer[:count] = byte

    def free(self) -> None:
        """Do nothing: memory is released with the last reference to it."""


def new_array(shape: Any, dtype: Any, strides: Any = None, order: Any = "C") -> Array:
    """Return an uninitialised array in new memory.

    Args:
        shape: An integer or a sequence of integers.
        dtype: Anything that ``np.dtype`` takes.
        strides: Bytes between elements along each axis, not negative; None for those of a contiguous array.
        order: ``"C"`` or ``"F"``.

    Returns:
        The array.

    Raises:
        ValueError: If ``order`` is neither, or the strides do not match the shape.
    """
    if order not in ("C", "F"):
        raise ValueError(f"order is {order!r}: expected 'C' or 'F'")
    if not strides:
        return registered(np.empty(shape, np.dtype(dtype), order))
    lengths = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    steps = tuple(strides) if isinstance(strides, (tuple, list)) else (strides,)
    buffer = registered(np.empty(extent(lengths, steps, np.dtype(dtype).itemsize), np.uint8))
    made: Array = np.ndarray(lengths, dtype, buffer.data, strides=steps)
    return made


def registered(array: Array) -> Array:
    """Register the memory of a contiguous array as device memory while the array exists, and return the array."""
    if array.size:
        _allocations[address_of(array), id(array)] = array
    return array


def address_of(array: Array) -> int:
    """Return the address of the first element of an array; 0 if it has none."""
    return int(array.__array_interface__["data"][0]) if array.size else 0


def extent(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> int:
    """Return the number of bytes from the first byte of an array to its last, for strides that are not negative.

    Raises:
        ValueError: If the strides do not match the shape.
    """
    if 0 in shape:
        return 0
    return itemsize + sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True))


def found_at(address: int, size: int) -> Array:
    """Return the ``size`` bytes at an address of device memory.

    Raises:
        CudaAPIError: If they are not part of one allocation.
    """
    if not size:
        return np.empty(0, np.uint8)
    for (start, _), owner in list(_allocations.items()):
        if start <= address and address + size <= start + owner.nbytes:
            whole: Array = owner.reshape(-1, order="A").view(np.uint8)
            return whole[address - start : address - start + size]
    raise CudaAPIError(INVALID_VALUE, f"{size} bytes at {address:#x} are not memory of this device")
