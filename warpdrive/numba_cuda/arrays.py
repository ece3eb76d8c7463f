"""Device arrays: NumPy arrays with the interface of Numba's arrays on a GPU, which programs copy to and from."""

from __future__ import annotations

import copy
import ctypes
import math
from collections.abc import Iterator
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from numba.core import config

from warpdrive.numba_cuda.memory import MemoryPointer, address_of, extent, found_at, new_array
from warpdrive.numba_cuda.streams import external_stream

Array = npt.NDArray[Any]
errmsg_contiguous_buffer = "the memory of the array is not contiguous: copy it with np.ascontiguousarray(...) first"


class DeviceMemory:
    """Base class of device arrays: their memory, and copies from and to host arrays."""

    __cuda_memory__ = True
    __cuda_ndarray__ = True
    stream: Any = 0

    @property
    def _array(self) -> Array:
        raise NotImplementedError

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        array = self._array
        return {
            "shape": array.shape,
            "strides": None if array.flags.c_contiguous else array.strides,
            "data": (address_of(array), False),
            "typestr": array.dtype.str,
            "descr": array.dtype.descr,
            "stream": int(self.stream) or None,
            "version": 3,
        }

    @property
    def gpu_data(self) -> MemoryPointer:
        """Memory of the array."""
        array = self._array
        return MemoryPointer(found_at(address_of(array), extent(array.shape, array.strides, array.itemsize)))

    @property
    def alloc_size(self) -> int:
        """Number of bytes from the first to the last element."""
        return extent(self._array.shape, self._array.strides, self._array.itemsize)

    @property
    def device_ctypes_pointer(self) -> Any:
        """Address of the array as ``ctypes.c_void_p``."""
        return ctypes.c_void_p(address_of(self._array))

    def as_cuda_arg(self) -> MemoryPointer:
        """Return the memory of the array."""
        return self.gpu_data

    def copy_to_host(self, ary: Any = None, stream: Any = 0) -> Any:
        """Copy the array to a host array.

        Args:
            ary: The host array, of the same shape, dtype and order; None for a new one.
            stream: Ignored: copies are synchronous.

        Returns:
            The host array.

        Raises:
            NotImplementedError: If a stride is negative.
            TypeError: If the dtypes differ.
            ValueError: If the shapes or strides differ.
        """
        array = self._array
        if any(stride < 0 for stride in array.strides):
            raise NotImplementedError(
                f"device arrays with negative strides {array.strides} cannot be copied to the host"
            )
        if ary is None:
            return _same_layout(array)
        check_array_compatibility(self, ary)
        if isinstance(ary, np.void):
            for name in ary.dtype.names or ():
                ary[name] = array[name]
        else:
            np.copyto(ary, array)
        return ary

    def copy_to_device(self, ary: Any, stream: Any = 0) -> None:
        """Copy a host or device array to this one.

        Args:
            ary: An array of the same shape and dtype.
            stream: Ignored: copies are synchronous.

        Raises:
            TypeError: If the dtypes differ.
            ValueError: If the shapes differ, or one of the arrays is not contiguous in device memory.
        """
        if ary.size == 0:
            return
        sentry_contiguous(self._array)
        source = np.asarray(as_host_array(ary))
        if is_device_memory(ary):
            sentry_contiguous(source)
            check_array_compatibility(array_core(self._array), array_core(source))
        else:
            core = array_core(source)
            is_c = array_core(self._array).flags.c_contiguous
            ordered = np.ascontiguousarray(core).reshape(core.shape) if is_c else np.asfortranarray(core)
            check_array_compatibility(array_core(self._array), ordered)
        np.copyto(array_core(self._array), array_core(source))

    def get_ipc_handle(self) -> Any:
        """Raise :class:`NotImplementedError`: memory is not shared with other processes."""
        raise NotImplementedError("device memory cannot be shared with other processes without a GPU")


class DeviceNDArrayBase(DeviceMemory):
    """Device array that is not an ``np.ndarray``.

    Args:
        shape: Shape of the array.
        strides: Bytes between elements along each axis.
        dtype: Dtype of the elements.
        stream: Stream of later copies.
        gpu_data: Memory of the array; None for new memory.
    """

    def __init__(self, shape: Any, strides: Any, dtype: Any, stream: Any = 0, gpu_data: Any = None) -> None:
        lengths = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
        steps = tuple(strides) if isinstance(strides, (tuple, list)) else (strides,)
        if len(steps) != len(lengths):
            raise ValueError(f"there are {len(steps)} strides for {len(lengths)} axes")
        self.stream = stream
        if gpu_data is None or 0 in lengths:
            self._values = new_array(lengths, dtype, steps)
        else:
            self._values = np.ndarray(lengths, dtype, gpu_data.buffer.data, strides=steps)

    @classmethod
    def _of(cls, array: Array, stream: Any = 0) -> Any:
        """Return a device array that shares the memory of a NumPy array."""
        made = cls.__new__(cls)
        made._values, made.stream = array, stream
        return made

    @property
    def _array(self) -> Array:
        return self._values

    shape = property(lambda self: self._values.shape, doc="Length of each axis.")
    strides = property(lambda self: self._values.strides, doc="Bytes between elements along each axis.")
    dtype = property(lambda self: self._values.dtype, doc="Dtype of the elements.")
    ndim = property(lambda self: self._values.ndim, doc="Number of axes.")
    size = property(lambda self: self._values.size, doc="Number of elements.")
    nbytes = property(lambda self: self._values.nbytes, doc="Bytes of all elements.")
    itemsize = property(lambda self: self._values.itemsize, doc="Bytes of an element.")

    @property
    def flags(self) -> dict[str, bool]:
        """Contiguity of the array: ``"C_CONTIGUOUS"`` and ``"F_CONTIGUOUS"``."""
        flags = self._values.flags
        return {"C_CONTIGUOUS": flags.c_contiguous, "F_CONTIGUOUS": flags.f_contiguous}

    @property
    def _numba_type_(self) -> Any:
        array = numba.typeof(self._values)
        return array.copy(layout="A") if 0 in self.strides else array

    def bind(self, stream: Any = 0) -> Any:
        """Return the same array with another stream for later copies."""
        bound = copy.copy(self)
        bound.stream = stream
        return bound

    def is_c_contiguous(self) -> bool:
        """Return True if the array is contiguous in the order of C."""
        return bool(self._values.flags.c_contiguous)

    def is_f_contiguous(self) -> bool:
        """Return True if the array is contiguous in the order of Fortran."""
        return bool(self._values.flags.f_contiguous)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("a device array cannot become a NumPy array without a copy")
        return np.asarray(self.copy_to_host(), dtype)


class DeviceRecord(DeviceNDArrayBase):
    """Device record.

    Args:
        dtype: Dtype of the record.
        stream: Stream of later copies.
        gpu_data: Memory of the record; None for new memory.
    """

    def __init__(self, dtype: Any, stream: Any = 0, gpu_data: Any = None) -> None:
        super().__init__((), (), dtype, stream, gpu_data)

    @property
    def _numba_type_(self) -> Any:
        return numba.from_dtype(self.dtype)

    def __getitem__(self, item: Any) -> Any:
        return self.getitem(item)

    def getitem(self, item: Any, stream: Any = 0) -> Any:
        """Return a field."""
        field = self._values[item]
        if field.dtype.names is not None and field.ndim == 0:
            return DeviceRecord._of(field, stream or self.stream)
        return field[()] if field.ndim == 0 else DeviceNDArray._of(field, stream or self.stream)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.setitem(key, value)

    def setitem(self, key: Any, value: Any, stream: Any = 0) -> None:
        """Set a field."""
        self._values[key] = as_host_array(value)


class DeviceNDArray(DeviceNDArrayBase):
    """Device array; see :class:`DeviceNDArrayBase`."""

    @property
    def T(self) -> Any:  # noqa: N802
        """Transposed array."""
        return self.transpose()

    def transpose(self, axes: Any = None) -> Any:
        """Return the transposed array, in new memory.

        Raises:
            NotImplementedError: If the array does not have two axes.
            ValueError: If ``axes`` is not a permutation of them.
        """
        if axes and tuple(axes) == tuple(range(self.ndim)):
            return self
        if self.ndim != 2:
            raise NotImplementedError(f"a device array of {self.ndim} axes cannot be transposed, only one of 2")
        moved = new_array(self.shape[::-1], self.dtype)
        moved[...] = self._values.transpose(axes)
        return type(self)._of(moved, self.stream)

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def reshape(self, *newshape: Any, order: Any = "C") -> Any:
        """Return a view with another shape.

        Raises:
            NotImplementedError: If that needs a copy.
            ValueError: If the number of elements differs.
        """
        shape = newshape[0] if len(newshape) == 1 else newshape
        return self._view(self._values.reshape(shape, order=order), self.stream)

    def ravel(self, order: Any = "C", stream: Any = 0) -> Any:
        """Return a view of a contiguous array with one axis.

        Raises:
            NotImplementedError: If the array is not contiguous.
        """
        if not (self.is_c_contiguous() or self.is_f_contiguous()):
            raise NotImplementedError("only a contiguous array can be flattened without a copy")
        return self._view(self._values.reshape(-1, order=order), stream or self.stream)

    def squeeze(self, axis: Any = None, stream: Any = 0) -> Any:
        """Return a view without axes of length one. Raises :class:`ValueError` if ``axis`` is longer."""
        return self._view(self._values.squeeze(axis), stream or self.stream)

    def view(self, dtype: Any) -> Any:
        """Return a view of the same bytes with another dtype. Raises :class:`ValueError` if they do not fit."""
        if np.dtype(dtype).itemsize != self.itemsize and not self.is_c_contiguous():
            raise ValueError("To change to a dtype of a different size, the array must be C-contiguous")
        return self._view(self._values.view(dtype), self.stream)

    def split(self, section: int, stream: Any = 0) -> Iterator[Any]:
        """Iterate over views of ``section`` elements each, the last of which may be shorter.

        Raises:
            ValueError: If the array is not contiguous with one axis.
        """
        if self.ndim != 1 or not self.is_c_contiguous():
            raise ValueError("only contiguous arrays of one axis can be split")
        for part in range(math.ceil(self.size / section)):
            yield self._view(self._values[part * section : (part + 1) * section], stream or self.stream)

    def _view(self, values: Array, stream: Any) -> Any:
        if values.size and not np.may_share_memory(values, self._values):
            raise NotImplementedError("the operation needs a copy, as the array is not contiguous")
        return type(self)._of(values, stream)

    def __getitem__(self, item: Any) -> Any:
        return self.getitem(item)

    def getitem(self, item: Any, stream: Any = 0) -> Any:
        """Return an element, a :class:`DeviceRecord`, or the view of a slice."""
        _check_index(item)
        stream, part = stream or self.stream, self._values[item]
        if isinstance(part, np.void):
            return DeviceRecord._of(self._values[_as_slices(item)].reshape(()), stream)
        return type(self)._of(part, stream) if isinstance(part, np.ndarray) else part

    def __setitem__(self, key: Any, value: Any) -> None:
        self.setitem(key, value)

    def setitem(self, key: Any, value: Any, stream: Any = 0) -> None:
        """Assign a host or device array, or a number, to a part of the array.

        Raises:
            ValueError: If the value has too many axes, or axes of other lengths.
        """
        _check_index(key)
        given = as_host_array(value)
        shape = np.shape(self._values[key])
        if np.ndim(given) > len(shape):
            np.empty(shape)[...] = np.empty(np.shape(given))  # NumPy raises, unless the first axes have length one
            raise ValueError(f"could not broadcast input array from shape {np.shape(given)} into shape {shape}")
        self._values[key] = given


class _HostAndDeviceArray(DeviceMemory, np.ndarray):
    """NumPy array whose memory the device can use."""

    @property
    def _array(self) -> Array:
        return self.view(np.ndarray)

    def device_setup(self, gpu_data: Any, stream: Any = 0) -> None:
        """Set the stream of later copies."""
        self.stream = stream


class MappedNDArray(_HostAndDeviceArray):
    """Array in host memory that the device can use."""


class ManagedNDArray(_HostAndDeviceArray):
    """Array in memory that moves between host and device."""


def _check_index(item: Any) -> None:
    for index in item if isinstance(item, tuple) else (item,):
        if not isinstance(index, (int, np.integer, slice, str)) and index is not Ellipsis:
            raise TypeError(
                f"a device array is indexed by integers, slices and '...', not by {type(index).__name__}: "
                "copy it to the host, or write a kernel"
            )


def _as_slices(item: Any) -> tuple[Any, ...]:
    """Return slices of length one for an index of all axes, so that the result is a view."""
    return tuple(
        slice(index, index + 1 or None) if isinstance(index, (int, np.integer)) else index
        for index in (item if isinstance(item, tuple) else (item,))
    )


def is_cuda_ndarray(obj: Any) -> bool:
    """Return True for a device array."""
    return bool(getattr(obj, "__cuda_ndarray__", False))


def is_device_memory(obj: Any) -> bool:
    """Return True for an object in device memory."""
    return bool(getattr(obj, "__cuda_memory__", False))


def require_cuda_ndarray(obj: Any) -> None:
    """Raise :class:`ValueError` unless an object is a device array."""
    if not is_cuda_ndarray(obj):
        raise ValueError(f"expected a device array, found {type(obj).__name__}")


def verify_cuda_ndarray_interface(obj: Any) -> None:
    """Raise an exception unless an object has the attributes of a device array.

    Raises:
        AttributeError: If an attribute is missing, or of another type.
        ValueError: If the object is not a device array.
    """
    require_cuda_ndarray(obj)
    for name, kind in (("shape", tuple), ("strides", tuple), ("dtype", np.dtype), ("size", int)):
        if not isinstance(getattr(obj, name), kind):
            raise AttributeError(f"'{name}' is a {type(getattr(obj, name)).__name__}, expected a {kind.__name__}")


def as_host_array(value: Any) -> Any:
    """Return the NumPy array that shares the memory of a device array; any other value unchanged."""
    if isinstance(value, DeviceMemory):
        return value._array
    if hasattr(value, "__cuda_array_interface__"):
        return from_cuda_array_interface(value.__cuda_array_interface__, value)._array
    return value


def from_cuda_array_interface(desc: dict[str, Any], owner: Any = None, sync: bool = True) -> DeviceNDArray:
    """Return the array that a CUDA array interface describes.

    Args:
        desc: Value of ``__cuda_array_interface__``.
        owner: Ignored: the array keeps its memory.
        sync: If True, the stream of the array is synchronised.

    Returns:
        The array, a view.

    Raises:
        CudaAPIError: If its memory is not that of a device array.
        NotImplementedError: If the array has a mask.
    """
    if desc.get("version", 0) >= 1 and desc.get("mask") is not None:
        raise NotImplementedError("arrays with a mask are not supported")
    shape, dtype = tuple(desc["shape"]), np.dtype(desc["typestr"])
    if any(name for name, *_ in desc.get("descr") or ()):  # otherwise it has no fields
        dtype = np.lib.format.descr_to_dtype(desc["descr"])
    strides = desc.get("strides")
    contiguous = (dtype.itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    steps = tuple(strides) if strides else tuple(contiguous)
    buffer = found_at(desc["data"][0], extent(shape, steps, dtype.itemsize))
    stream = desc.get("stream") or 0
    if stream:
        stream = external_stream(stream)
        if sync and config.CUDA_ARRAY_INTERFACE_SYNC:
            stream.synchronize()
    array: DeviceNDArray = DeviceNDArray._of(np.ndarray(shape, dtype, buffer.data, strides=steps), stream)
    return array


def is_cuda_array(obj: Any) -> bool:
    """Return True for an object with a CUDA array interface."""
    return hasattr(obj, "__cuda_array_interface__")


def as_cuda_array(obj: Any, sync: bool = True) -> Any:
    """Return a view of an object with a CUDA array interface as a device array.

    Args:
        obj: The object.
        sync: If True, the stream of the array is synchronised.

    Returns:
        The array.

    Raises:
        TypeError: If the object has no such interface.
    """
    if not is_cuda_array(obj):
        raise TypeError(f"{type(obj).__name__} has no __cuda_array_interface__")
    return from_cuda_array_interface(obj.__cuda_array_interface__, obj, sync)


def auto_device(obj: Any, stream: Any = 0, copy: bool = True, user_explicit: bool = False) -> tuple[Any, bool]:
    """Return a device array or record for an object, and True if it was created for this call.

    Args:
        obj: Device array, host array, record, or anything that ``np.asanyarray`` takes.
        stream: Stream of later copies.
        copy: If False, a new array is not initialised.
        user_explicit: Ignored: there are no transfers to warn of.

    Returns:
        The device array or record, and True if it is new.

    Raises:
        ValueError: If the host array is not contiguous.
    """
    if is_device_memory(obj):
        return obj, False
    if is_cuda_array(obj):
        return as_cuda_array(obj), False
    if isinstance(obj, np.void):
        record = new_array((), obj.dtype)
        if copy:
            record[()] = obj
        return DeviceRecord._of(record, stream), True
    given = np.asanyarray(obj)
    sentry_contiguous(given)
    core = array_core(given)
    made = new_array(core.shape, core.dtype, order="C" if core.flags.c_contiguous else "F")
    if copy:
        np.copyto(made, core)
    if core is not given:
        made = np.lib.stride_tricks.as_strided(made, given.shape, given.strides)
    return DeviceNDArray._of(made, stream), True


def array_core(ary: Any) -> Any:
    """Return an array without the repetitions of broadcast axes."""
    if not ary.size or 0 not in ary.strides:
        return ary
    return ary[tuple(slice(None) if stride else 0 for stride in ary.strides)]


def is_contiguous(ary: Any) -> bool:
    """Return True if an array is contiguous in the order of C, apart from broadcast axes."""
    return bool(array_core(as_host_array(ary)).flags.c_contiguous)


def sentry_contiguous(ary: Any) -> None:
    """Raise :class:`ValueError` unless an array is contiguous in some order, apart from broadcast axes."""
    flags = np.asarray(array_core(as_host_array(ary))).flags
    if not (flags.c_contiguous or flags.f_contiguous):
        raise ValueError(errmsg_contiguous_buffer)


def check_array_compatibility(ary1: Any, ary2: Any) -> None:
    """Raise an exception unless the elements of two arrays can be copied as bytes.

    Raises:
        TypeError: If the dtypes differ.
        ValueError: If the shapes or strides differ, apart from axes of length one.
    """
    one, other = as_host_array(ary1).squeeze(), as_host_array(ary2).squeeze()
    if one.dtype != other.dtype:
        raise TypeError(f"incompatible dtype: {one.dtype} vs. {other.dtype}")
    if one.shape != other.shape:
        raise ValueError(f"incompatible shape: {ary1.shape} vs. {ary2.shape}")
    if one.size and one.strides != other.strides:
        raise ValueError(f"incompatible strides: {ary1.strides} vs. {ary2.strides}")


def from_array_like(ary: Any, stream: Any = 0, gpu_data: Any = None) -> DeviceNDArray:
    """Return a device array of the shape, strides and dtype of an array, in the memory given or in new memory."""
    return DeviceNDArray(ary.shape, ary.strides, ary.dtype, stream, gpu_data)


def from_record_like(rec: Any, stream: Any = 0, gpu_data: Any = None) -> DeviceRecord:
    """Return a device record of the dtype of a record, in the memory given or in new memory."""
    return DeviceRecord(rec.dtype, stream, gpu_data)


def to_device(obj: Any, stream: Any = 0, copy: bool = True, to: Any = None) -> Any:
    """Copy an array or a record to the device.

    Args:
        obj: The array or record; a device array is returned unchanged.
        stream: Stream of later copies.
        copy: If False, the device memory is not initialised.
        to: Device array to copy to; None for a new one.

    Returns:
        The device array or record.
    """
    if to is None:
        return auto_device(obj, stream, copy)[0]
    if copy:
        to.copy_to_device(obj, stream=stream)
    return to


def device_array(shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C", stream: Any = 0) -> Any:
    """Return an uninitialised device array.

    Args:
        shape: An integer or a tuple of integers.
        dtype: Dtype of the elements.
        strides: Bytes between elements along each axis; None for a contiguous array.
        order: ``"C"`` or ``"F"``.
        stream: Stream of later copies.

    Returns:
        The array.
    """
    return DeviceNDArray._of(new_array(shape, dtype, strides, order), stream)


def pinned_array(shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C") -> Array:
    """Return an uninitialised NumPy array; see :func:`device_array`."""
    return new_array(shape, dtype, strides, order)


def mapped_array(
    shape: Any,
    dtype: Any = np.float64,
    strides: Any = None,
    order: str = "C",
    stream: Any = 0,
    portable: bool = False,
    wc: bool = False,
) -> MappedNDArray:
    """Return an uninitialised array that host and device share.

    Args:
        shape: An integer or a tuple of integers.
        dtype: Dtype of the elements.
        strides: Bytes between elements along each axis; None for a contiguous array.
        order: ``"C"`` or ``"F"``.
        stream: Stream of later copies.
        portable: Ignored: there is one device.
        wc: Ignored: memory is cached.

    Returns:
        The array.
    """
    made: MappedNDArray = _shared(MappedNDArray, new_array(shape, dtype, strides, order), stream)
    return made


def managed_array(
    shape: Any,
    dtype: Any = np.float64,
    strides: Any = None,
    order: str = "C",
    stream: Any = 0,
    attach_global: bool = True,
) -> ManagedNDArray:
    """Return an uninitialised array that host and device share.

    Args:
        shape: An integer or a tuple of integers.
        dtype: Dtype of the elements.
        strides: Bytes between elements along each axis; None for a contiguous array.
        order: ``"C"`` or ``"F"``.
        stream: Stream of later copies.
        attach_global: Ignored: all streams use the same memory.

    Returns:
        The array.
    """
    made: ManagedNDArray = _shared(ManagedNDArray, new_array(shape, dtype, strides, order), stream)
    return made


def _shared(kind: Any, array: Array, stream: Any) -> Any:
    view = array.view(kind)
    view.device_setup(None, stream)
    return view


def device_array_like(ary: Any, stream: Any = 0) -> DeviceNDArray:
    """Return an uninitialised device array of the shape, dtype and order of an array."""
    return device_array(ary.shape, ary.dtype, *_layout_of(ary), stream=stream)  # type: ignore[no-any-return]


def pinned_array_like(ary: Any) -> Array:
    """Return an uninitialised NumPy array of the shape, dtype and order of an array."""
    return pinned_array(ary.shape, ary.dtype, *_layout_of(ary))


def mapped_array_like(ary: Any, stream: Any = 0, portable: bool = False, wc: bool = False) -> MappedNDArray:
    """Return an uninitialised array of the shape, dtype and order of another; see :func:`mapped_array`.

    Args:
        ary: The other array.
        stream: Stream of later copies.
        portable: Ignored: there is one device.
        wc: Ignored: memory is cached.

    Returns:
        The array.
    """
    return mapped_array(ary.shape, ary.dtype, *_layout_of(ary), stream=stream)


def _layout_of(ary: Any) -> tuple[tuple[int, ...] | None, str]:
    """Return strides and order of a new array like another one, which is contiguous."""
    flags = ary.flags
    if flags["C_CONTIGUOUS"] or flags["F_CONTIGUOUS"] or ary.ndim <= 1:
        return None, "F" if flags["F_CONTIGUOUS"] and not flags["C_CONTIGUOUS"] else "C"
    strides, step = [0] * ary.ndim, ary.dtype.itemsize
    for axis in sorted(range(ary.ndim), key=lambda axis: ary.strides[axis]):
        strides[axis] = step
        step *= ary.shape[axis]
    return tuple(strides), "C"


def _same_layout(array: Array) -> Array:
    """Return a copy of an array with the same strides."""
    if array.flags.c_contiguous or array.flags.f_contiguous:
        return np.array(array, order="K")
    buffer = np.zeros(extent(array.shape, array.strides, array.itemsize), np.uint8)
    made: Array = np.ndarray(array.shape, array.dtype, buffer.data, strides=array.strides)
    made[...] = array
    return made
