"""Arguments of launches: conversion of device arrays to NumPy arrays, and of numbers to the types of a signature."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np
from numba.core import types
from numba.core.typing.typeof import Purpose, typeof
from numba.np import numpy_support

from warpdrive.numba_cuda.arrays import DeviceMemory, DeviceNDArray, as_host_array, is_cuda_array, sentry_contiguous


class ArgHint:
    """Argument of a launch with the direction in which its data is needed."""

    def __init__(self, value: Any) -> None:
        self.value = value

    @property
    def _numba_type_(self) -> Any:
        return typeof(self.value, Purpose.argument)

    def to_device(self, retr: list[Callable[[], Any]], stream: Any = 0) -> Any:
        """Return the array that the kernel uses.

        Args:
            retr: Functions to be called after the launch are appended to it.
            stream: Ignored: copies are synchronous.

        Returns:
            The array.

        Raises:
            TypeError: If the argument is no array: kernels cannot change numbers, on a GPU neither.
        """
        array = unwrapped(self.value)
        if not isinstance(array, (np.ndarray, np.void)):
            name, found = type(self).__name__, type(self.value).__name__
            raise TypeError(f"cuda.{name} is for arrays: found an argument of type {found}, to be passed without it")
        return array


class In(ArgHint):
    """Argument whose changes by the kernel are discarded."""

    def to_device(self, retr: list[Callable[[], Any]], stream: Any = 0) -> Any:
        """See :class:`ArgHint`."""
        array = super().to_device(retr, stream)
        return array if isinstance(self.value, DeviceMemory) else array.copy()


class Out(ArgHint):
    """Argument that the kernel sets."""


class InOut(ArgHint):
    """Argument that the kernel reads and changes."""


def wrap_arg(value: Any, default: type[ArgHint] = InOut) -> ArgHint:
    """Return an argument with a transfer direction; ``default`` unless it has one."""
    return value if isinstance(value, ArgHint) else default(value)


def prepared(value: Any, after: list[Callable[[], Any]]) -> Any:
    """Return the value passed to a kernel for an argument; append functions to call after the launch to ``after``.

    Raises:
        ValueError: If a host array is not contiguous: a GPU could not be given a copy.
    """
    kind = type(value)
    if kind is DeviceNDArray:
        return value._array
    if kind is np.ndarray:
        if not (value.flags.c_contiguous or value.flags.f_contiguous):
            sentry_contiguous(value)
        return value
    if isinstance(value, DeviceMemory):
        return value._array[()] if value._array.dtype.names and not value._array.ndim else value._array
    if isinstance(value, ArgHint):
        return value.to_device(after)
    if isinstance(value, tuple):
        items = [prepared(item, after) for item in value]
        return kind(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, enum.IntEnum):
        return int(value)
    return unwrapped(value)


def unwrapped(value: Any) -> Any:
    """Return the NumPy array behind a device array; any other value unchanged."""
    return as_host_array(value) if is_cuda_array(value) else value


def type_of(value: Any) -> types.Type:
    """Return numba's type of an argument. Raises :class:`ValueError` or numba's exceptions if it has none."""
    found: types.Type
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        found = types.containers.Tuple([type_of(item) for item in value])
    else:
        found = value._numba_type_ if hasattr(value, "_numba_type_") else typeof(unwrapped(value), Purpose.argument)
    return found


def matching(
    given: Sequence[types.Type], signatures: Sequence[tuple[types.Type, ...]]
) -> tuple[types.Type, ...] | None:
    """Return the argument types of the declared signature that numba chooses for given types, or None."""
    if tuple(given) in signatures:
        return tuple(given)
    candidates = [numba.core.typing.signature(types.void, *declared) for declared in signatures]
    context = numba.core.registry.cpu_target.typing_context
    try:
        chosen = context.resolve_overload("kernel", candidates, tuple(given), {}, allow_ambiguous=False)
    except TypeError:
        return None
    return None if chosen is None else tuple(chosen.args)


def converted(value: Any, declared: types.Type) -> Any:
    """Return a number as the type that a signature declares, and any other value unchanged.

    An array of integers is reinterpreted as signed or unsigned integers of the same size, as on a GPU. Raises
    :class:`TypeError` for an array of another dtype or number of axes.
    """
    if isinstance(declared, types.Array):
        dtype = numpy_support.as_dtype(declared.dtype)
        if isinstance(value, np.ndarray) and value.dtype.kind + dtype.kind in ("iu", "ui"):
            value = value.view(dtype) if value.itemsize == dtype.itemsize else value
        is_same = isinstance(value, np.ndarray) and value.ndim == declared.ndim and value.dtype == dtype
        if not is_same and not (hasattr(value, "dtype") and value.dtype.names):
            found = f"{value.dtype} of {value.ndim} axes" if isinstance(value, np.ndarray) else type(value).__name__
            raise TypeError(f"an argument declared as {declared} is an array of {found}")
        return value
    if isinstance(declared, (types.Number, types.Boolean)) and not isinstance(value, (np.ndarray, tuple)):
        given, dtype = np.asarray(value), numpy_support.as_dtype(declared)
        if given.dtype.kind == "c" and dtype.kind != "c":
            raise TypeError(f"an argument declared as {declared} is the complex number {value}")
        return given.astype(dtype)[()]
    return value
