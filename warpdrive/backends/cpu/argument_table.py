"""Table of 64-bit words from which machine code reads the arguments of a launch.

Reading the address, shape and strides of an array in Python takes a microsecond. For a launch with other arguments of
the same kinds, compiled code reads them from the ``PyArrayObject`` of NumPy's C API, whose fields are part of its
stable binary interface.

Machine code takes one address, the table's: numba's wrappers for a function of a hundred array arguments, and for its
parallel loop, took more than half of the compile time, and unpacked the arguments again in each launch. A launcher
keeps the tables of its latest launches, so that 16 arrays take half a microsecond instead of 50. Addresses are read in
every launch: an array may move in between.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from warpdrive.backends.host.native import native_module
from warpdrive.backends.shared.tensors import is_tensor

Array = npt.NDArray[Any]

C_CONTIGUOUS, F_CONTIGUOUS, WRITEABLE = 0x1, 0x2, 0x400
"""Bits of ``ndarray.flags.num``: NPY_ARRAY_C_CONTIGUOUS, _F_CONTIGUOUS and _WRITEABLE of NumPy's C API."""

KIND = C_CONTIGUOUS | F_CONTIGUOUS | WRITEABLE
"""Mask of the array flags that machine code is specialised for."""

# A row of ``expected`` describes one argument: its type, the index of its first word in the table (-1 for a number,
# which has none here), its dtype, its number of dimensions and its flags. No function here releases the GIL, so the
# objects they read do not change.
_TEXT = f"""
from numba import njit
from warpdrive.backends.host.intrinsics import load_word, store_word

ITEMS = {tuple.__basicsize__}
TYPE = {object.__basicsize__ - 8}
DATA, DIMENSIONS, SHAPE, STRIDES, BASE, DTYPE, FLAGS = ({object.__basicsize__} + 8 * n for n in range(7))
INT = 0xFFFFFFFF
KIND = {KIND}

@njit("boolean(intp, intp, intp, intp)", cache=True, _nrt=False)
def take_arrays(arguments, expected, count, table):
    for i in range(count):
        row = expected + 40 * i
        argument = load_word(arguments + ITEMS + 8 * i)
        if load_word(argument + TYPE) != load_word(row):
            return False
        place = load_word(row + 8)
        if place < 0:
            continue
        dimensions = load_word(argument + DIMENSIONS) & INT
        if (
            load_word(argument + DTYPE) != load_word(row + 16)
            or dimensions != load_word(row + 24)
            or load_word(argument + FLAGS) & KIND != load_word(row + 32)
        ):
            return False
        words = table + 8 * place
        store_word(words, load_word(argument + DATA))
        shape, strides = load_word(argument + SHAPE), load_word(argument + STRIDES)
        for axis in range(dimensions):
            store_word(words + 8 + 8 * axis, load_word(shape + 8 * axis))
            store_word(words + 8 + 8 * (dimensions + axis), load_word(strides + 8 * axis))
    return True
"""


class ArgumentTable:
    """Words of consecutive arrays: for each the address, the shape, and the strides in bytes.

    Args:
        own: Arrays of the backend, which are first and never replaced.
        arguments: Values that the kernel is launched with, each with the array that holds it, or None for a value that
            is compiled in.
    """

    def __init__(self, own: Sequence[Array], arguments: Sequence[tuple[Any, Array | None]]) -> None:
        words = [word for array in own for word in words_of(array)]
        rows: list[tuple[int, ...]] = []
        self._own = own
        self.arguments: Sequence[tuple[Any, Array | None]] = arguments
        self._known: list[Any] = []  # types and dtypes, kept alive so that their addresses are not reused
        self._tensors: list[int] = []
        self._numbers: list[tuple[int, Array]] = []
        self._constants: list[tuple[int, Any]] = []
        for index, (value, array) in enumerate(arguments):
            has_memory = isinstance(value, np.ndarray) or is_tensor(value)
            if array is None:
                self._constants.append((index, value))
            elif not has_memory:
                self._numbers.append((index, array))
            if array is not None and has_memory:
                rows.append((id(type(array)), len(words), id(array.dtype), array.ndim, array.flags.num & KIND))
                self._known += (type(array), array.dtype)
            else:
                rows.append((id(type(value)), -1, 0, 0, 0))
                self._known.append(type(value))
            if is_tensor(value):
                self._tensors.append(index)
            words += words_of(array) if array is not None else ()
        self._words = np.array(words, np.int64)
        self.address = int(self._words.ctypes.data)
        self._expected = np.array(rows, np.int64)
        self._where = int(self._expected.ctypes.data), len(rows), self.address
        native = _native()
        self._take_arrays = native.take_arrays if native else None
        self.can_be_refilled = native is not None and all(_can_be_replaced(value) for value, _ in arguments)

    def with_address(self, index: int, address: int) -> npt.NDArray[np.int64]:
        """Return a copy of the words in which the array of argument number ``index`` is at another address."""
        words: npt.NDArray[np.int64] = self._words.copy()
        words[self._expected[index, 1]] = address
        return words

    def refill(self, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Replace the arguments in the table by arguments of the same kinds.

        The caller must have exclusive use of the table.

        Args:
            arguments: Flattened arguments of a launch, in the order of those the table was made with.

        Returns:
            The objects that must stay alive until the launch is over, or None if the arguments are of other kinds; the
            contents of the table are then undefined.
        """
        if self._take_arrays is None or len(arguments) != self._where[1]:
            return None
        try:
            if self._tensors:
                given = list(arguments)
                for index in self._tensors:
                    given[index] = _memory_of(given[index])
                arguments = tuple(given)
            if not self._take_arrays(id(arguments), *self._where):
                return None
            for index, cell in self._numbers:
                cell[0] = arguments[index]
        except (TypeError, RuntimeError, OverflowError):  # another kind of tensor or number
            return None
        for index, value in self._constants:
            if arguments[index] != value:
                return None
        return arguments


def words_of(array: Array) -> tuple[int, ...]:
    """Return the address, shape and strides in bytes of one array."""
    return (array.__array_interface__["data"][0], *array.shape, *array.strides)


def _memory_of(tensor: Any) -> Array:
    if not is_tensor(tensor):
        raise TypeError
    return tensor.detach().numpy() if tensor.requires_grad else tensor.numpy()


def _can_be_replaced(value: Any) -> bool:
    """Return True if an argument of the same type (and, for an array, dtype, rank and layout) is of the same kind.

    This is False for a Python integer outside of int64, whose signedness depends on its value.
    """
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    kinds = (np.ndarray, float, complex, np.number, np.bool_)
    return value is None or isinstance(value, kinds) or is_tensor(value)


@cache
def _native() -> ModuleType | None:
    """Return the module of compiled functions, or None if this Python or NumPy lays objects out differently."""
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    if sys.implementation.name != "cpython" or struct.calcsize("P") != 8 or not has_gil:
        return None
    module = native_module(_TEXT)
    array = np.zeros((3, 4), np.float32)[::2, 1:]
    arguments = (array,)
    found = np.zeros(5, np.int64)
    expected = np.array([id(np.ndarray), 0, id(array.dtype), array.ndim, array.flags.num & KIND], np.int64)
    fits = module.take_arrays(id(arguments), expected.ctypes.data, 1, found.ctypes.data)
    return module if fits and tuple(found.tolist()) == words_of(array) else None
