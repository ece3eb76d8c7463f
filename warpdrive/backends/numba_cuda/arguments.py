"""Arguments of a launch on a GPU: the properties that code is specialised for, and the words read at each launch."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import torch

from warpdrive.backends.numba_cuda.parameters import Parameter
from warpdrive.backends.shared.arguments import ArgumentKind
from warpdrive.kernels.dtypes import dtype_text
from warpdrive.kernels.errors import KernelError

Words = tuple[Any, ...]

_Unfit = (TypeError, AttributeError, KeyError, ValueError)
"""Exceptions raised by reading an argument as one of another type."""


@dataclass(frozen=True)
class Argument:
    """Argument of a kernel.

    Attributes:
        parameter: Properties that code is specialised for.
        dtypes: Dtypes of its words.
        read: Function that returns the words of an argument, or None if it is of another kind.
    """

    parameter: Parameter
    dtypes: tuple[np.dtype[Any], ...]
    read: Callable[[Any], Words | None]


@dataclass(frozen=True)
class _Memory:
    """Array on a GPU; strides are in bytes."""

    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    address: int
    readonly: bool
    itemsize: int

    @property
    def layout(self) -> str:
        return "C" if self._is_dense(-1) else "F" if self._is_dense(1) else "A"

    def _is_dense(self, order: int) -> bool:
        """Return True if the elements have no gaps, with the last axis (-1) or the first (1) varying fastest."""
        step = self.itemsize
        for length, stride in list(zip(self.shape, self.strides, strict=True))[::order]:
            if length != 1 and stride != step and 0 not in self.shape:
                return False
            step *= length
        return True


def argument(name: str, value: Any, kernel: str) -> Argument:
    """Return the description of an argument: a CUDA tensor, an array with ``__cuda_array_interface__``, or a number.

    Args:
        name: Name of the parameter.
        value: The argument.
        kernel: Name of the kernel.

    Returns:
        The description of the argument.

    Raises:
        KernelError: If a GPU does not support the argument.
    """
    if isinstance(value, torch.Tensor):
        return _array(name, value, _of_tensor, kernel)
    if hasattr(value, "__cuda_array_interface__"):
        return _array(name, value, _of_interface, kernel)
    if isinstance(value, (bool, int, float, complex, np.number, np.bool_)) and not isinstance(value, enum.Enum):
        return _number(name, value, kernel)
    advice = ": pass its elements one by one" if isinstance(value, tuple) else ""
    raise KernelError(
        f"argument '{name}' of kernel '{kernel}' is a {type(value).__name__}; on a GPU a kernel takes CUDA tensors, "
        f"arrays with __cuda_array_interface__, numbers and None{advice}"
    )


def read_all(arguments: Sequence[Argument], values: Sequence[Any]) -> list[Any] | None:
    """Return the words of all arguments, or None if one is of another kind."""
    words: list[Any] = []
    for known, value in zip(arguments, values, strict=True):
        found = known.read(value)
        if found is None:
            return None
        words += found
    return words


def _array(name: str, value: Any, look: Callable[[Any], _Memory], kernel: str) -> Argument:
    memory = look(value)
    dtype = _computable(name, memory.dtype, kernel)
    rank, layout = len(memory.shape), memory.layout
    parameter = Parameter(name, ArgumentKind(dtype_text(dtype), rank, layout, memory.readonly), (None,) * rank)
    of_type, kind = type(value), (memory.dtype, memory.readonly, rank, layout)

    def read(value: Any) -> Words | None:
        if type(value) is not of_type:
            return None
        try:
            found = look(value)
        except _Unfit:
            return None
        if (found.dtype, found.readonly, len(found.shape), found.layout) != kind:
            return None
        return (found.address, *found.shape, *(found.strides if layout != "C" else ()))

    return Argument(parameter, (np.dtype(np.int64),) * len(parameter.words), read)


def _of_tensor(tensor: torch.Tensor) -> _Memory:
    size = tensor.itemsize
    strides = tuple(step * size for step in tensor.stride())
    return _Memory(tensor.dtype, tuple(tensor.shape), strides, tensor.data_ptr(), False, size)


def _of_interface(array: Any) -> _Memory:
    """Read the CUDA array interface, version 3 (numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html)."""
    given = array.__cuda_array_interface__
    dtype, shape = _dtype_of(array, given), tuple(given["shape"])
    address, readonly = given["data"]
    strides = given.get("strides") or tuple(_dense(shape, dtype.itemsize))
    return _Memory(dtype, shape, tuple(strides), address or 0, bool(readonly), dtype.itemsize)


def _dtype_of(array: Any, interface: dict[str, Any]) -> np.dtype[Any]:
    """Return the dtype; for a structured one the array's own, as the interface lacks names or alignment."""
    dtype: np.dtype[Any] = np.dtype(interface["typestr"])
    own = getattr(array, "dtype", None)
    if dtype.kind != "V" or not isinstance(own, np.dtype):
        return dtype
    return own


def _dense(shape: Sequence[int], itemsize: int) -> Iterator[int]:
    for axis in range(len(shape)):
        yield itemsize * int(np.prod(shape[axis + 1 :], dtype=np.int64))


def _number(name: str, value: Any, kernel: str) -> Argument:
    of_type = type(value)
    dtype = np.array(value).dtype
    kind = ArgumentKind(dtype_text(_computable(name, dtype, kernel)), None)
    limits = np.iinfo(dtype) if of_type is int else None

    def read(given: Any) -> Words | None:
        if type(given) is not of_type or (limits and not limits.min <= given <= limits.max):
            return None
        return (given.real, given.imag) if dtype.kind == "c" else (given,)

    words = (np.dtype(f"f{dtype.itemsize // 2}"),) * 2 if dtype.kind == "c" else (dtype,)
    return Argument(Parameter(name, kind), words, read)


def _computable(name: str, dtype: Any, kernel: str) -> np.dtype[Any]:
    """Return the NumPy dtype of an array's elements. Raises :class:`KernelError` for an unsupported one."""
    try:
        found = np.dtype(str(dtype).removeprefix("torch.")) if isinstance(dtype, torch.dtype) else np.dtype(dtype)
        numba.from_dtype(found)
    except (TypeError, numba.core.errors.NumbaError):
        found = np.dtype(object)
    if found.kind == "O" or not found.isnative:
        raise KernelError(
            f"argument '{name}' of kernel '{kernel}' has dtype {dtype}, which kernels on a GPU do not support"
        )
    return found
