"""``vectorize`` and ``guvectorize`` with ``target="cuda"``, and ``cuda.reduce``."""

from __future__ import annotations

import pickle
import re
from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from numba.core import serialize, sigutils, types
from numba.np import numpy_support

from warpdrive.kernels.kernel import THREADS_FOR_ALL, kernel_from_source, python_function
from warpdrive.launching import Kernel
from warpdrive.numba_cuda.arrays import DeviceNDArray, as_host_array, is_cuda_array, to_device
from warpdrive.numba_cuda.dispatcher import CUDADispatcher
from warpdrive.numba_cuda.members import member
from warpdrive.numba_cuda.memory import new_array

Array = npt.NDArray[Any]
Declared = tuple[tuple[types.Type, ...], types.Type]


class _Namespace:
    """The part of ``numba.cuda`` that generated kernels use."""

    grid = member("grid")


def _kernel_over(names: Sequence[str], statement: str, core: CUDADispatcher) -> Kernel:
    """Return a kernel whose threads execute a statement for each index ``i`` of its last argument."""
    name = core.py_func.__name__ if core.py_func.__name__ != "<lambda>" else "function"
    lines = [
        f"def {name}({', '.join(names)}):",
        "i = cuda.grid(1)",
        f"if i < {names[-1]}.shape[0]:",
        f"    {statement}",
    ]
    return kernel_from_source("\n    ".join(lines), name, {"cuda": _Namespace, "core": core})


def _launch(kernel: Kernel, arrays: Sequence[Array]) -> None:
    count = len(arrays[-1])
    if count:
        kernel.forall(count, THREADS_FOR_ALL)(*arrays)


NOTHING: types.Type = types.void
_OPTIONS = frozenset({"nopython", "fastmath", "debug", "opt", "lineinfo", "inline", "max_registers", "link"})
"""Options that are accepted but have no effect."""


def _unpickled(function: bytes, declared: list[Declared]) -> DeviceUFunc:
    return DeviceUFunc(pickle.loads(function), declared)


class _Declarations:
    """Builder of a function over arrays from a function and its signatures.

    Args:
        func: The function.
        identity: Ignored.
        cache: Ignored: kernels are always cached.
        targetoptions: Ignored.
    """

    def __init__(self, func: Any, *, identity: Any = None, cache: bool = False, targetoptions: Any = None) -> None:
        self.function = python_function(func)
        self.declared: list[Declared] = []
        if unknown := set(targetoptions or ()) - _OPTIONS:
            raise KeyError(f"vectorize has no options {sorted(unknown)} with target='cuda'")

    def add(self, sig: Any = None) -> None:
        """Add a signature."""
        argument_types, result = sigutils.normalize_signature(sig)
        self.declared.append((tuple(argument_types), result or self._result_of(argument_types)))

    def _result_of(self, argument_types: tuple[types.Type, ...]) -> types.Type:
        return NOTHING

    def disable_compile(self) -> None:
        """Do nothing: functions are compiled at their first call."""


class CUDAVectorize(_Declarations):
    """Builder of a :class:`DeviceUFunc`."""

    def _result_of(self, argument_types: tuple[types.Type, ...]) -> types.Type:
        compiled = numba.njit(self.function)
        compiled.compile(argument_types)
        result: types.Type = compiled.overloads[argument_types].signature.return_type
        return result

    def build_ufunc(self) -> DeviceUFunc:
        """Return the function over arrays. Raises :class:`TypeError` without a signature with a return type."""
        if not self.declared or types.void in [result for _, result in self.declared]:
            raise TypeError("vectorize(..., target='cuda') needs signatures with a return type: 'float32(float32)'")
        return DeviceUFunc(self.function, self.declared)


class DeviceUFunc:
    """Universal function: a scalar function applied elementwise to arrays, which are broadcast.

    Args:
        function: The scalar function.
        declared: Its argument types and return type, one or more.
    """

    def __init__(self, function: Any, declared: Sequence[Declared]) -> None:
        self.py_func, self.__name__, self.__doc__ = function, function.__name__, function.__doc__
        self.declared = list(declared)
        self._kernels: dict[Any, tuple[Kernel, list[np.dtype[Any]]]] = {}

    def __call__(self, *args: Any, out: Any = None, stream: Any = 0) -> Any:
        """Apply the function elementwise.

        Args:
            args: Host or device arrays, and numbers.
            out: Array for the results; None for a new one, a device array if one of the arguments is.
            stream: Ignored: calls are synchronous.

        Returns:
            The results.

        Raises:
            TypeError: If no signature takes arguments of these dtypes.
            ValueError: If the shapes cannot be broadcast.
        """
        inputs = [np.asarray(as_host_array(value)) for value in args]
        kernel, dtypes = self._kernel_for(self._chosen(args, inputs))
        shape = np.broadcast_shapes(*(array.shape for array in inputs))
        result = new_array(shape, dtypes[-1]) if out is None else as_host_array(out)
        if result.shape != shape:
            raise ValueError(f"the results have shape {shape}, 'out' has {result.shape}")
        flat = result if result.flags.c_contiguous and result.dtype == dtypes[-1] else np.empty(shape, dtypes[-1])
        columns = [_column(array, dtype, shape) for array, dtype in zip(inputs, dtypes, strict=False)]
        _launch(kernel, [*columns, flat.reshape(-1)])
        if flat is not result:
            result[...] = flat
        if out is not None:
            return out
        return DeviceNDArray._of(result, stream) if any(map(is_cuda_array, args)) else result[()]

    def __reduce__(self) -> Any:
        return _unpickled, (serialize.dumps(self.py_func), self.declared)

    def reduce(self, arg: Any, stream: Any = 0) -> Any:
        """Reduce a 1-D array by a function of two numbers.

        Raises:
            TypeError: If the array is empty, or has more axes.
        """
        values = np.array(as_host_array(arg))
        if values.ndim != 1 or not values.size:
            raise TypeError("only a 1-D array with at least one element can be reduced")
        while len(values) > 1:
            half = len(values) // 2
            pairs = np.atleast_1d(self(values[:half], values[half : 2 * half]))
            if len(values) % 2:
                pairs[0] = self(pairs[0], values[-1])
            values = pairs
        return values[0]

    def _kernel_for(self, declared: Declared) -> tuple[Kernel, list[np.dtype[Any]]]:
        if declared not in self._kernels:
            argument_types, result = declared
            core = CUDADispatcher(self.py_func, {"device": True}, {argument_types: result})
            names = [f"x{index}" for index in range(len(argument_types))]
            call = f"out[i] = core({', '.join(f'{name}[i]' for name in names)})"
            dtypes = [numpy_support.as_dtype(kind) for kind in (*argument_types, result)]
            self._kernels[declared] = _kernel_over([*names, "out"], call, core), dtypes
        return self._kernels[declared]

    def _chosen(self, args: Sequence[Any], inputs: Sequence[Array]) -> Declared:
        """Return the signature that matches all dtypes, or else those of the arrays, since numbers are converted."""
        given = [array.dtype for array in inputs]
        free = [isinstance(value, (int, float, complex, np.number)) for value in args]
        fitting: list[Declared] = []
        for declared in self.declared:
            wanted = [numpy_support.as_dtype(kind) for kind in declared[0]]
            if given == wanted:
                return declared
            if len(given) == len(wanted) and all(
                is_free or own == other for is_free, own, other in zip(free, given, wanted, strict=True)
            ):
                fitting.append(declared)
        if len(fitting) != 1:
            problem = "Several versions match" if fitting else "No matching version"
            raise TypeError(
                f"{problem} of '{self.__name__}' for arguments of dtypes ({', '.join(map(str, given))}): arrays must "
                "have the declared dtypes, and numbers are converted to them"
            )
        return fitting[0]


def _column(array: Array, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """Return an array broadcast to a shape and flattened; a single number takes no memory."""
    array = array.astype(dtype, copy=False)
    count = int(np.prod(shape))
    if array.size == 1:
        return np.broadcast_to(array.reshape(1), (count,))
    return np.ascontiguousarray(np.broadcast_to(array, shape)).reshape(count)


class CUDAGUFuncVectorize(_Declarations):
    """Builder of a :class:`DeviceGUFunc`.

    Args:
        func: The function of small arrays.
        sig: Their axes, such as ``"(m,n),(n)->(m)"``.
        writable_args: Not supported.
        options: See :class:`CUDAVectorize`.
    """

    def __init__(self, func: Any, sig: str, *, writable_args: Any = (), **options: Any) -> None:
        if writable_args:
            raise TypeError("guvectorize(..., target='cuda') has no writable arguments")
        options.pop("is_dynamic", None)
        super().__init__(func, **options)
        self.axes = _parsed(sig)

    def build_ufunc(self) -> DeviceGUFunc:
        """Return the function over arrays. Raises :class:`TypeError` without a signature, or if one returns."""
        if not self.declared or any(result != types.void for _, result in self.declared):
            raise TypeError("guvectorize(..., target='cuda') needs signatures, and they return nothing")
        return DeviceGUFunc(self.function, self.axes, self.declared)


def _parsed(text: str) -> tuple[list[list[str]], list[list[str]]]:
    """Return the names of the axes of each input and output in a signature of NumPy."""
    sides = text.split("->")
    if len(sides) != 2:
        raise ValueError(f"the signature is {text!r}: expected one such as '(m,n),(n)->(m)'")
    inputs, outputs = ([re.findall(r"[\w?]+", group) for group in re.findall(r"\(([^)]*)\)", side)] for side in sides)
    return inputs, outputs


class DeviceGUFunc:
    """Generalised universal function: a function of subarrays, whose remaining axes are broadcast.

    Args:
        function: The function of inputs and outputs.
        axes: Names of the axes of each input and of each output.
        declared: Its argument types, one or more.
    """

    def __init__(
        self, function: Any, axes: tuple[list[list[str]], list[list[str]]], declared: Sequence[Declared]
    ) -> None:
        self.py_func, self.__name__, self.__doc__ = function, function.__name__, function.__doc__
        self.inputs, self.outputs = axes
        self.declared = [known for known, _ in declared]
        self._kernels: dict[Any, Kernel] = {}

    def __call__(self, *args: Any, out: Any = None, stream: Any = 0) -> Any:
        """Apply the function to all subarrays.

        Args:
            args: Host or device arrays, and numbers; arrays for the results may follow.
            out: Array for the results, or a tuple of them; None for new ones, device arrays if one of the inputs is.
            stream: Ignored: calls are synchronous.

        Returns:
            The results: an array, or a tuple of them.

        Raises:
            TypeError: If there are too few or too many arguments, or no signature takes their dtypes.
            ValueError: If shapes do not match.
        """
        count = len(self.inputs)
        if out is not None and len(args) > count:
            raise ValueError(f"'{self.__name__}' is given its outputs both by position and as 'out'")
        given = (out if isinstance(out, tuple) else (out,)) if out is not None else args[count:]
        if not count <= len(args) <= count + len(self.outputs) or (given and len(given) != len(self.outputs)):
            raise TypeError(
                f"'{self.__name__}' takes {count} inputs and {len(self.outputs)} outputs, found {len(args)}"
            )
        arrays = [np.asarray(as_host_array(value)) for value in args[:count]]
        lengths: dict[str, int] = {}
        loops = [self._loop_of(array, axes, lengths) for array, axes in zip(arrays, self.inputs, strict=True)]
        results = [None if value is None else as_host_array(value) for value in given] or [None] * len(self.outputs)
        for result, axes in zip(results, self.outputs, strict=True):
            if result is not None:
                self._loop_of(result, axes, lengths)
        loop = np.broadcast_shapes(*loops)
        declared = self._chosen(arrays)
        dtypes = [numpy_support.as_dtype(getattr(kind, "dtype", kind)) for kind in declared]
        flat = []
        for array, axes, dtype, kind in zip(arrays, self.inputs, dtypes, declared, strict=False):
            core = tuple(lengths[name] for name in axes)
            whole = np.ascontiguousarray(np.broadcast_to(array.astype(dtype, copy=False), loop + core))
            flat.append(whole.reshape(-1 if whole.size else 0, *self._held(core, kind)))
        made = []
        for result, axes, dtype in zip(results, self.outputs, dtypes[count:], strict=True):
            shape = loop + tuple(lengths[name] for name in axes)
            if result is not None and result.size != np.prod(shape):
                raise ValueError(f"a result has shape {shape}, its array has {result.shape}")
            made.append(new_array(shape, dtype))
            if result is not None:
                made[-1][...] = result.reshape(shape)
        size = int(np.prod(loop))
        kernel = self._kernel_for(declared)
        views = [array.reshape(size, *(array.shape[len(loop) :] or (1,))) for array in made]
        _launch(kernel, [*(array.reshape(size, *array.shape[1:]) for array in flat), *views])
        for result, array in zip(results, made, strict=True):
            if result is not None:
                result[...] = array.reshape(result.shape)
        is_on_device = any(map(is_cuda_array, args))
        new = [DeviceNDArray._of(array, stream) if is_on_device else array for array in made]
        final = tuple(given) or tuple(new)
        return final[0] if len(final) == 1 else final

    def _loop_of(self, array: Array, axes: list[str], lengths: dict[str, int]) -> tuple[int, ...]:
        """Return the shape of an array without its core axes, whose lengths are recorded in ``lengths``."""
        if array.ndim < len(axes):
            raise ValueError(f"'{self.__name__}': an array of shape {array.shape} lacks axes ({', '.join(axes)})")
        split = array.ndim - len(axes)
        for name, length in zip(axes, array.shape[split:], strict=True):
            if lengths.setdefault(name, length) != length:
                raise ValueError(f"'{self.__name__}': axis '{name}' has length {lengths[name]} and {length}")
        return array.shape[:split]

    @staticmethod
    def _held(core: tuple[int, ...], kind: types.Type) -> tuple[int, ...]:
        return core or ((1,) if isinstance(kind, types.Array) else ())

    def _chosen(self, arrays: Sequence[Array]) -> tuple[types.Type, ...]:
        for casting in ("equiv", "safe", "same_kind"):
            for known in self.declared:
                dtypes = [numpy_support.as_dtype(getattr(kind, "dtype", kind)) for kind in known]
                if all(np.can_cast(array.dtype, dtype, casting) for array, dtype in zip(arrays, dtypes, strict=False)):
                    return known
        shown = ", ".join(str(array.dtype) for array in arrays)
        raise TypeError(f"No matching version of '{self.__name__}' for arguments of dtypes ({shown})")

    def _kernel_for(self, declared: tuple[types.Type, ...]) -> Kernel:
        if declared not in self._kernels:
            core = CUDADispatcher(self.py_func, {"device": True})
            names = [f"x{index}" for index in range(len(declared))]
            self._kernels[declared] = _kernel_over(names, f"core({', '.join(f'{name}[i]' for name in names)})", core)
        return self._kernels[declared]


class Reduce:
    """Reduction of an array by a function of two numbers, which must be associative.

    Args:
        functor: The function.
    """

    def __init__(self, functor: Any) -> None:
        self.function = functor
        core = CUDADispatcher(functor, {"device": True})
        lines = [
            "def reduce(values, partials):",
            "part = cuda.grid(1)",
            "if part < partials.shape[0]:",
            "    begin = values.size * part // partials.size",
            "    total = values[begin]",
            "    for index in range(begin + 1, values.size * (part + 1) // partials.size):",
            "        total = core(total, values[index])",
            "    partials[part] = total",
        ]
        self._kernel = kernel_from_source(
            "\n    ".join(lines), "reduce", {"cuda": _Namespace, "core": core, "range": range}
        )

    def __call__(self, arr: Any, size: Any = None, res: Any = None, init: Any = 0, stream: Any = 0) -> Any:
        """Return the reduction of an array.

        Args:
            arr: 1-D host or device array.
            size: Number of elements; None for all.
            res: Device array whose first element receives the result; None to return it.
            init: First operand.
            stream: Ignored: calls are synchronous.

        Returns:
            The result, or None if ``res`` is given. That of an empty array is ``init``.

        Raises:
            TypeError: If the array has more axes.
        """
        values = as_host_array(arr)
        if values.ndim != 1:
            raise TypeError(f"only a 1-D array can be reduced, found {values.ndim} axes")
        values = values[:size]
        first = values.dtype.type(init)
        if not values.size:
            return first
        partials = np.empty(min(len(values), 64), values.dtype)
        self._kernel[len(partials), 1](values, partials)
        result = np.empty(1, values.dtype)
        self._kernel[1, 1](np.concatenate([[first], partials]).astype(values.dtype), result)
        if res is None:
            return result[0]
        res[:1].copy_to_device(to_device(result))
        return None
