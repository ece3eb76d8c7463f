"""Memory of a launch: copies of arguments that preserve aliasing, and names for addresses."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from warpdrive.backends.shared.tensors import is_tensor

Array = npt.NDArray[Any]


@dataclass(eq=False)
class Block:
    """Named memory of a kernel: an argument, or a shared or local array.

    ``written`` holds the addresses of written elements of memory that is initially undefined; it is None for an
    argument (``is_argument``), whose memory outlives the launch. ``is_mixed`` is True if elements of other sizes
    overlap the memory; accesses are then reported byte by byte.
    """

    name: str
    array: Array
    is_private: bool = False
    written: set[int] | None = None
    writers: dict[int, Any] = field(default_factory=dict)
    is_argument: bool = field(init=False)
    is_mixed: bool = False

    def __post_init__(self) -> None:
        self.is_argument = self.written is None

    def index_of(self, address: int) -> tuple[int, ...]:
        """Return the index of the element that contains an address."""
        rest, index = address - self.array.ctypes.data, [0] * self.array.ndim
        for axis in sorted(range(self.array.ndim), key=lambda axis: -abs(self.array.strides[axis])):
            stride = self.array.strides[axis]
            if stride > 0:
                index[axis] = min(rest // stride, self.array.shape[axis] - 1)
            elif stride < 0:
                index[axis] = -(-rest // stride)
            rest -= index[axis] * stride
        return tuple(int(i) for i in index)

    def element_at(self, address: int) -> str:
        """Return the name of the element that contains an address, with the field for a record."""
        index = self.index_of(address)
        start = self.array.ctypes.data + sum(i * stride for i, stride in zip(index, self.array.strides, strict=True))
        return f"{self.name}[{', '.join(map(str, index))}]{_field_at(self.array.dtype, address - start)}"


def mark_mixed(blocks: Sequence[Block]) -> None:
    """Set ``is_mixed`` for arrays that overlap arrays with another element size."""
    for block in blocks:
        low, high = _extent(block.array)
        for other in blocks:
            other_low, other_high = _extent(other.array)
            if other.array.itemsize != block.array.itemsize and low < other_high and other_low < high:
                block.is_mixed = True


def leaves(dtype: Any) -> list[int]:
    """Return the offset of each number in an element of ``dtype``: for a record, in all of its fields."""
    if dtype.subdtype is not None:
        part, shape = dtype.subdtype
        return [k * part.itemsize + leaf for k in range(int(np.prod(shape))) for leaf in leaves(part)]
    if dtype.names is not None:
        return [dtype.fields[name][1] + leaf for name in dtype.names for leaf in leaves(dtype.fields[name][0])]
    return [0]


def _field_at(dtype: Any, offset: int) -> str:
    """Return the path of fields to an offset in a record, as ``.name.name``."""
    for name in dtype.names or ():
        kind, first = dtype.fields[name][:2]
        if first <= offset < first + kind.itemsize:
            return f".{name}{_field_at(kind, offset - first)}"
    return ""


def as_array(value: Any) -> Any:
    """Return a tensor as a NumPy array, which shares its memory if that is on the CPU; other values unchanged.

    Tensors in tuples are converted, too.
    """
    if isinstance(value, tuple):
        return like(value, map(as_array, value))
    if is_tensor(value):
        return value.detach().cpu().numpy()
    return value


def with_fields(value: Any) -> Any:
    """Return a record, or an array of records, with fields as attributes, as in a kernel; other values unchanged."""
    if isinstance(value, np.void):
        return memory_of(value).view(np.recarray)[0]
    is_structured = isinstance(value, np.ndarray) and value.dtype.names is not None
    return value.view(np.recarray) if is_structured else value


def memory_of(record: np.void) -> Array:
    """Return the memory of a record as an array of one element."""
    address = np.frombuffer(record, np.uint8).ctypes.data
    memory: Any = (ctypes.c_char * record.nbytes).from_address(address)
    memory.owner = record  # keeps the record alive as long as the array
    array: Array = np.ndarray((1,), record.dtype, memory)
    return array


def like(value: Any, items: Iterable[Any]) -> Any:
    """Return a tuple of the type of ``value``, which may be a named tuple, with other items."""
    return type(value)(*items) if hasattr(value, "_fields") else tuple(items)


def named_arrays(name: str, value: Any) -> dict[str, Array]:
    """Return the arrays of an argument, which may be a tuple, by their names in a kernel."""
    if isinstance(value, tuple):
        return {key: array for k, item in enumerate(value) for key, array in named_arrays(f"{name}[{k}]", item).items()}
    if isinstance(value, np.void):
        return {name: memory_of(value)}
    return {name: value} if isinstance(value, np.ndarray) else {}


def copies(values: Sequence[Any]) -> list[Any]:
    """Return the values with arrays copied; arrays that share memory share memory in the copies."""
    arrays = [array for value in values for array in named_arrays("", value).values()]
    extents = _merged(map(_extent, arrays))
    buffers = {low: np.empty(high - low, np.uint8) for low, high in extents}
    for low, buffer in buffers.items():
        ctypes.memmove(buffer.ctypes.data, low, buffer.nbytes)

    def copy(value: Any) -> Any:
        if isinstance(value, tuple):
            return like(value, map(copy, value))
        if isinstance(value, np.void) or (isinstance(value, np.ndarray) and value.size == 0):
            return value.copy()
        if not isinstance(value, np.ndarray):
            return value
        own_low, _ = _extent(value)
        low = next(low for low, high in extents if low <= own_low < high)
        offset = value.ctypes.data - low
        return np.ndarray(value.shape, value.dtype, buffers[low].data, offset, value.strides)

    return [copy(value) for value in values]


def _extent(array: Array) -> tuple[int, int]:
    """Return the addresses of the first byte of an array and of the first byte after it."""
    if array.size == 0:
        return array.ctypes.data, array.ctypes.data
    spans = [(length - 1) * stride for length, stride in zip(array.shape, array.strides, strict=True)]
    low = array.ctypes.data + sum(span for span in spans if span < 0)
    return low, array.ctypes.data + sum(span for span in spans if span > 0) + array.itemsize


def _merged(extents: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(extent for extent in extents if extent[0] < extent[1]):
        if merged and low < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged
