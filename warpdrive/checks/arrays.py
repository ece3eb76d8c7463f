"""Arrays that tell a log of every element that is read or written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import index as _as_integer
from typing import Any, Protocol

import numpy as np

from warpdrive.checks.arithmetic import Undefined, cast
from warpdrive.checks.memory import Array, Block, leaves


class Log(Protocol):
    """Who is told of accesses. An address is that of an element's first byte."""

    def read(self, block: Block, address: int) -> None:
        """Note that the running thread reads an element."""

    def write(self, block: Block, address: int, value: Any) -> None:
        """Note that the running thread writes an element."""

    def atomic(self, block: Block, address: int, value: Any) -> None:
        """Note that the running thread changes an element atomically; ``value`` is the new one."""

    def outside(self, block: Block, index: tuple[int, ...], shape: tuple[int, ...], wraps: bool) -> None:
        """Note an index outside of an array; ``wraps`` if it is one that counts from the end."""

    def undefined(self, what: str, what_to_do: str) -> None:
        """Note that the running thread computes what has no defined result."""

    def broadcast(self, block: Block, value: Any, shape: tuple[int, ...]) -> None:
        """Note that the running thread writes one number to all elements of a row that it names by fewer indices."""


class CheckedArray:
    """An array as a kernel sees it: indexed by integers, one per axis, or by fewer, or slices, for a view.

    A read outside of it gives 0, a write outside of it is lost.
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
            self._tell_of(self._log.read, address)
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
            value = stored(value, self.dtype, self._log.undefined)
        self._array[index] = value
        if self._block.is_mixed or self.dtype.names is not None:
            self._tell_of(self._log.write, address, self._array[index])
        else:
            self._log.write(self._block, address, self._array[index])

    def change(self, index: Any, new: Callable[[Any], Any]) -> Any:
        """Change an element atomically to what ``new`` makes of it, and return what it was."""
        place = self._place(index)
        if place is None or isinstance(place, np.ndarray):
            return self._loaded(np.zeros((), self.dtype)[()])
        index, address = place
        before = self._loaded(self._array[index])
        self._array[index] = stored(new(before), self.dtype, self._log.undefined)
        self._tell_of(self._log.atomic, address, self._array[index])
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

    def _tell_of(self, access: Callable[..., None], address: int, *value: Any) -> None:
        """Tell the log of an access of all of an element's bytes or, of a record, of all of its numbers."""
        parts = range(self.dtype.itemsize) if self._block.is_mixed else leaves(self.dtype)
        for part in parts:
            access(self._block, address + part, *value)

    def _element(self, index: Any) -> tuple[Any, int] | None:
        """Return the index and address of an element within the array, or None for any other index: the quick way."""
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
        """Return an element's index and address, a view, or None for what lies outside."""
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
        """Return an element as an operand: booleans are Python's, as those of NumPy do not count as numbers."""
        return bool(value) if type(value) is np.bool_ else value


class CheckedFlat:
    """The elements of an array one after the other, the last axis running first, whatever their order in memory."""

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
        """Return the place of an element; one outside is outside along the first axis."""
        place: list[int] = []
        rest = _as_integer(index)
        for length in self._array.shape[:0:-1]:
            rest, last = divmod(rest, length)
            place.append(last)
        return (rest, *reversed(place)) if self._array.ndim else ()


class CheckedRecord:
    """An element of an array of records: its fields are read and written by name."""

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
        self._record[name] = stored(value, self._record.dtype[name], self._log.undefined)
        self._log.write(self._block, self._address + self._record.dtype.fields[name][1], self._record[name])

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
    """Return a value as it is stored into an element of ``dtype``, integers wrapped."""
    if isinstance(value, int) and dtype.kind in "iu":
        bits = 8 * dtype.itemsize
        value %= 1 << bits
        return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value
    return cast(value, dtype, undefined) if isinstance(value, (np.generic, float, complex)) else value


def _names_a_row(index: Any) -> bool:
    """Whether an index leaves the last axes out, rather than to say that all of them are meant."""
    return all(map(_is_integer, index if type(index) is tuple else (index,)))


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer))
