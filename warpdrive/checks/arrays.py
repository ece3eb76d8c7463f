"""Arrays that report each element access to a log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import index as _as_integer
from typing import Any, Protocol

import numpy as np

from warpdrive.checks.arithmetic import Undefined, cast
from warpdrive.checks.memory import Array, Block, leaves


class Log(Protocol):
    """Receiver of accesses. An address is that of an element's first byte."""

    def read(self, block: Block, address: int) -> None:
        """Record a read of an element by the running thread."""

    def write(self, block: Block, address: int, value: Any) -> None:
        """Record a write of an element by the running thread.

        Args:
            block: Memory of the element.
            address: Address of the element.
            value: Its new value.
        """

    def atomic(self, block: Block, address: int, value: Any) -> None:
        """Record an atomic update of an element by the running thread.

        Args:
            block: Memory of the element.
            address: Address of the element.
            value: Its new value.
        """

    def outside(self, block: Block, index: tuple[int, ...], shape: tuple[int, ...], wraps: bool) -> None:
        """Record an index outside of an array.

        Args:
            block: Memory of the array.
            index: The index.
            shape: Shape of the indexed array or view.
            wraps: True if the index counts from the end.
        """

    def undefined(self, what: str, what_to_do: str) -> None:
        """Record a computation with an undefined result by the running thread."""

    def lossy(self, block: Block, address: int, value: Any, element: Any) -> None:
        """Record a store of a number that an integer element cannot hold, by the running thread.

        Args:
            block: Memory of the element.
            address: Address of the element.
            value: The number.
            element: The stored value.
        """

    def broadcast(self, block: Block, value: Any, shape: tuple[int, ...]) -> None:
        """Record a write of one number to a whole row, selected by fewer indices than axes.

        Args:
            block: Memory of the array.
            value: The number.
            shape: Shape of the row.
        """


class CheckedArray:
    """Array as seen by a kernel: indexed by one integer per axis, or by fewer, or slices, for a view.

    A read out of bounds returns 0; a write out of bounds is discarded.

    Args:
        array: The array, or a view of it.
        block: Memory that it belongs to.
        log: Log that accesses are reported to.
    """

    def __init__(self, array: Array, block: Block, log: Log) -> None:
        self._array, self._block, self._log = array, block, log
        self._address, self._axes = array.ctypes.data, tuple(zip(array.shape, array.strides, strict=True))
        self.shape, self.ndim, self.size, self.dtype = array.shape, array.ndim, array.size, array.dtype

    def __getitem__(self, index: Any) -> Any:
        """Read an element, or return a view."""
        if isinstance(index, str):
            return self._view(self._array[index])
        place = self._element(index) or self._place(index)
        if place is None:
            return self._loaded(np.zeros((), self.dtype)[()])
        if isinstance(place, np.ndarray):
            return self._view(place)
        index, address = place
        if self.dtype.names is not None:
            return CheckedRecord(self._array[index], address, self._block, self._log)
        if self._block.is_mixed:
            self._log_access(self._log.read, address)
        else:
            self._log.read(self._block, address)
        return self._loaded(self._array[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        place = self._element(index) or self._place(index)
        if place is None:
            return
        if isinstance(place, np.ndarray):
            if place.size > 1 and np.isscalar(value) and value != 0 and _names_a_row(index):
                self._log.broadcast(self._block, value, place.shape)
            self._view(place)._fill(value)
            return
        index, address = place
        if isinstance(value, CheckedRecord):
            value = value.read_all()
        if type(value) is not self.dtype.type:
            given, value = value, stored(value, self.dtype, self._log.undefined)
            if is_lossy(given, value, self.dtype):
                self._log.lossy(self._block, address, given, value)
        self._array[index] = value
        if self._block.is_mixed or self.dtype.names is not None:
            self._log_access(self._log.write, address, self._array[index])
        else:
            self._log.write(self._block, address, self._array[index])

    def change(self, index: Any, new: Callable[[Any], Any], operands: Sequence[Any] = ()) -> Any:
        """Update an element atomically to ``new(old)``, which converts ``operands``, and return the old value."""
        place = self._place(index)
        if place is None or isinstance(place, np.ndarray):
            return self._loaded(np.zeros((), self.dtype)[()])
        index, address = place
        for operand in operands:
            if is_lossy(operand, converted := cast(operand, self.dtype), self.dtype):
                self._log.lossy(self._block, address, operand, converted)
        before = self._loaded(self._array[index])
        self._array[index] = stored(new(before), self.dtype, self._log.undefined)
        self._log_access(self._log.atomic, address, self._array[index])
        return before

    def _as_a_whole(self, *operands: Any) -> Any:
        raise TypeError("a kernel computes with arrays element by element, in a loop")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _as_a_whole
    __neg__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __lt__ = __gt__ = _as_a_whole

    def __len__(self) -> int:
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self.dtype.names and name in self.dtype.names:
            return self._view(self._array[name])
        if name in ("T", "strides", "itemsize", "nbytes", "real", "imag"):
            value = getattr(self._array, name)
            return self._view(value) if isinstance(value, np.ndarray) else value
        if name == "flat":
            return CheckedFlat(self)
        if name in ("reshape", "ravel", "view", "transpose"):
            return lambda *arguments: self._view(getattr(self._array, name)(*arguments))
        raise AttributeError(f"an array in a kernel has no '{name}' that can be checked")

    def __repr__(self) -> str:
        return f"{self._block.name}: {self._array!r}"

    def _view(self, array: Array) -> CheckedArray:
        self._block.is_mixed |= array.itemsize != self.dtype.itemsize and self.dtype.names is None
        return CheckedArray(array, self._block, self._log)

    def _fill(self, value: Any) -> None:
        for place in np.ndindex(self.shape):
            self[place] = value[place[-value.ndim :]] if isinstance(value, CheckedArray) else value

    def _log_access(self, access: Callable[..., None], address: int, *value: Any) -> None:
        """Report an access of all bytes of an element or, for a record, of all its numbers."""
        parts = range(self.dtype.itemsize) if self._block.is_mixed else leaves(self.dtype)
        for part in parts:
            access(self._block, address + part, *value)

    def _element(self, index: Any) -> tuple[Any, int] | None:
        """Return the index and address of an element within bounds, or None for any other index: the fast path."""
        if type(index) is not tuple:
            index = (index,)
        if len(index) != self.ndim:
            return None
        address = self._address
        try:
            for given, (length, stride) in zip(index, self._axes, strict=True):
                place = _as_integer(given)
                if not 0 <= place < length:
                    return None
                address += place * stride
        except TypeError:
            return None
        return index, address

    def _place(self, index: Any) -> tuple[tuple[int, ...], int] | Array | None:
        """Return the index and address of an element, a view, or None if out of bounds."""
        if type(index) is not tuple:
            index = (index,)
        if len(index) != self.ndim or not all(map(_is_integer, index)):
            return self._part(index)
        address, wraps = self._address, False
        places = []
        for given, (length, stride) in zip(index, self._axes, strict=True):
            place = _as_integer(given)
            if not 0 <= place < length:
                wraps = True
                if not -length <= place < 0:
                    self._log.outside(self._block, tuple(map(int, index)), self.shape, wraps=False)
                    return None
                place += length
            address += place * stride
            places.append(place)
        if wraps:
            self._log.outside(self._block, tuple(map(int, index)), self.shape, wraps=True)
        return tuple(places), address

    def _part(self, index: tuple[Any, ...]) -> Array | None:
        of_axes = [given for given in index if given is not None and given is not Ellipsis]
        if len(of_axes) > self.ndim:
            raise IndexError(f"'{self._block.name}' has {self.ndim} axes, found {len(of_axes)} indices")
        if any(given is Ellipsis for given in index):
            whole = [given for given in index if given is not None]
            place = next(place for place, given in enumerate(whole) if given is Ellipsis)
            of_axes[place:place] = [slice(None)] * (self.ndim - len(of_axes))
        for given, length in zip(of_axes, self.shape, strict=False):
            if _is_integer(given) and not 0 <= _as_integer(given) < length:
                wraps = -length <= given < 0
                integers = tuple(int(given) for given in of_axes if _is_integer(given))
                self._log.outside(self._block, integers, self.shape, wraps=wraps)
                if not wraps:
                    return np.asarray(np.zeros_like(self._array[tuple(0 if _is_integer(i) else i for i in index)]))
        part: Array = self._array[index]
        return part

    @staticmethod
    def _loaded(value: Any) -> Any:
        """Return an element as an operand: booleans become Python's, since NumPy's do not count as numbers."""
        return bool(value) if type(value) is np.bool_ else value


class CheckedFlat:
    """Flat view of an array in C order, whatever its memory layout."""

    def __init__(self, array: CheckedArray) -> None:
        self._array = array

    def __getitem__(self, index: Any) -> Any:
        """Read an element."""
        return self._array[self._place(index)]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._array[self._place(index)] = value

    def __len__(self) -> int:
        return int(self._array.size)

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def _place(self, index: Any) -> tuple[int, ...]:
        """Return the index of a flat element; one out of bounds is out of bounds along the first axis."""
        place: list[int] = []
        rest = _as_integer(index)
        for length in self._array.shape[:0:-1]:
            rest, last = divmod(rest, length)
            place.append(last)
        return (rest, *reversed(place)) if self._array.ndim else ()


class CheckedRecord:
    """Element of a structured array, whose fields are accessed by name.

    Args:
        record: The record.
        address: Its address.
        block: Memory that it belongs to.
        log: Log that accesses are reported to.
    """

    __slots__ = ("_address", "_block", "_log", "_record")

    def __init__(self, record: Any, address: int, block: Block, log: Log) -> None:
        for name, value in zip(self.__slots__, (address, block, log, record), strict=True):
            object.__setattr__(self, name, value)

    def __getitem__(self, name: str) -> Any:
        value = self._record[name]
        address = self._address + self._record.dtype.fields[name][1]
        if isinstance(value, np.ndarray):
            return CheckedArray(value, self._block, self._log)
        if isinstance(value, np.void):
            return CheckedRecord(value, address, self._block, self._log)
        self._log.read(self._block, address)
        return CheckedArray._loaded(value)

    def __setitem__(self, name: str, value: Any) -> None:
        dtype, offset = self._record.dtype.fields[name][:2]
        self._record[name] = element = stored(value, dtype, self._log.undefined)
        if is_lossy(value, element, dtype):
            self._log.lossy(self._block, self._address + offset, value, element)
        self._log.write(self._block, self._address + offset, self._record[name])

    def __getattr__(self, name: str) -> Any:
        if name not in (self._record.dtype.names or ()):
            raise AttributeError(f"a record of '{self._block.name}' has no field '{name}'")
        return self[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def read_all(self) -> Any:
        """Read the whole record."""
        for leaf in leaves(self._record.dtype):
            self._log.read(self._block, self._address + leaf)
        return self._record.copy()


def stored(value: Any, dtype: Any, undefined: Undefined) -> Any:
    """Return a value converted to ``dtype`` for a store, with integers wrapped.

    Args:
        value: The value.
        dtype: Dtype of the element.
        undefined: Callback for a conversion with an undefined result.

    Returns:
        The converted value.
    """
    if isinstance(value, int) and dtype.kind in "iu":
        bits = 8 * dtype.itemsize
        value %= 1 << bits
        return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value
    return cast(value, dtype, undefined) if isinstance(value, (np.generic, float, complex)) else value


def is_lossy(value: Any, element: Any, dtype: Any) -> bool:
    """Return True if an integer element lacks the fraction of a number stored in it, or the number was out of range.

    Unsigned integers of 32 and 64 bits may wrap: hashes and random numbers do so by design. Conversions of floats out
    of range are undefined instead.

    Args:
        value: The number.
        element: The element after the store.
        dtype: Dtype of the element.
    """
    if dtype.kind not in "iu":
        return False
    if isinstance(value, (float, np.floating)):
        return bool(0 < abs(value - element) < 1)
    is_modular = dtype.kind == "u" and dtype.itemsize >= 4
    return isinstance(value, (int, np.integer)) and not is_modular and int(value) != int(element)


def _names_a_row(index: Any) -> bool:
    """Return True if an index omits the last axes instead of selecting them explicitly."""
    return all(map(_is_integer, index if type(index) is tuple else (index,)))


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer))
