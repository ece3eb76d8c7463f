"""``wd.kernel`` and ``wd.device_function``: what makes a Python function a kernel function."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import FunctionType
from typing import Any

from warpdrive.errors import nearest, shown
from warpdrive.kernels.configuration import Configuration
from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.source import FunctionSource, parse_function, read_function

THREADS_FOR_ALL = 128
"""How many threads a block has where the author leaves it to the library."""


class DeviceFunction:
    """A function that kernel functions call. It may contain barriers.

    Not needed for correctness, since kernel functions may call plain functions too; it says what the function is
    for and keeps it from being called on the host by mistake.
    """

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self._file_as_imported = _file_state(function)
        functools.update_wrapper(self, function)

    @cached_property
    def source(self) -> FunctionSource:
        """The function's source, read when it is first needed.

        Raises :class:`KernelError` if it cannot be read, or is no longer what Python imported.
        """
        if _file_state(self.function) != self._file_as_imported:
            code = self.function.__code__
            raise KernelError(
                f"{code.co_filename}:{code.co_firstlineno}: the file has changed since '{code.co_name}' was imported "
                "from it: start Python anew"
            )
        return read_function(self.function)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters, in order."""
        return self.source.parameters

    @property
    def where(self) -> str:
        """``file:line`` of the definition."""
        return f"{self.source.file}:{self.source.tree.lineno}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.__name__}>"  # type: ignore[attr-defined]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise :class:`KernelError`: nothing runs on a device by being called on the host."""
        raise KernelError(f"{self!r} runs on a device: call it from a kernel function")


class Kernel(DeviceFunction):
    """A kernel function: the code that every thread of every block runs.

    As part of an environment it is fused with others into one launch. On its own it is launched as
    ``k[blocks, threads](*arguments)``, where blocks and threads are integers or tuples of up to three, or as
    ``k.forall(n)(*arguments)``. The arguments are numbers, and NumPy arrays and CPU tensors, with which it runs on the
    CPU, or CUDA tensors and arrays with ``__cuda_array_interface__``, with which it runs on their GPU.
    """

    @cached_property
    def _launchers(self) -> dict[str, Callable[..., None]]:
        return {}

    @cached_property
    def memory(self) -> dict[str, Any]:
        """What backends, by their names, remember of the kernel from one launch to the next."""
        return {}

    def __getitem__(self, configuration: Any) -> Callable[..., None]:
        """Return a callable that launches the kernel.

        ``configuration`` is ``(blocks, threads)``, and as for ``numba.cuda`` optionally a stream (0: PyTorch's current
        one; it means nothing on the CPU), and the bytes of dynamic shared memory. Raises :class:`KernelError` for what
        no GPU takes.
        """
        written = repr(configuration)  # tells 1 from 1.0 and True, which are equal
        if written not in self._launchers:
            from warpdrive.backends.alone import launcher

            self._launchers[written] = launcher(self, Configuration.of(configuration, repr(self)))
        return self._launchers[written]

    def configure(self, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0) -> Callable[..., None]:
        """Return what ``k[griddim, blockdim, stream, sharedmem]`` returns; the names are those of ``numba.cuda``."""
        return self[griddim, blockdim, stream, sharedmem]

    def forall(self, num_tasks: int, tpb: int = 0, stream: Any = 0, sharedmem: int = 0) -> Callable[..., None]:
        """Return a callable that launches the kernel with a thread, or more, for each of ``num_tasks``.

        ``tpb`` is the number of threads in a block (0: the library's choice), the others are as in
        ``k[blocks, threads, stream, sharedmem]``; the names are those of ``numba.cuda``.
        """
        if num_tasks == 0:
            return lambda *arguments, **named: None
        threads = tpb or min(num_tasks, THREADS_FOR_ALL)
        return self[-(-num_tasks // threads), threads, stream, sharedmem]

    def arguments_of(self, given: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the arguments of a call, one for each parameter: given, named, or the parameter's default.

        Raises :class:`KernelError` where they do not fit.
        """
        defaults, parameters, name = self.source.defaults, self.parameters, self.source.name
        found = dict(zip(parameters, given, strict=False))
        for word in named:
            if word not in parameters:
                raise KernelError(f"{self.where}: kernel '{name}' has no '{word}'.{nearest(word, parameters)}")
            if word in found:
                raise KernelError(f"{self.where}: kernel '{name}' is given '{word}' twice")
        found = {**defaults, **found, **named}
        if len(given) > len(parameters) or len(found) < len(parameters):
            raise KernelError(
                f"{self.where}: kernel '{name}' takes {len(parameters)} arguments ({', '.join(parameters)}), "
                f"found {len(given) + len(named)}"
            )
        return tuple(found[parameter] for parameter in parameters)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise :class:`KernelError` that says how a kernel is launched."""
        raise KernelError(f"{self!r} is launched as k[blocks, threads](...), or run as part of an environment")


def kernel(function: Callable[..., Any]) -> Kernel:
    """Make a kernel of a plain function, or of a ``@cuda.jit`` function that is not compiled yet.

    Raises :class:`KernelError` for anything else.
    """
    if isinstance(function, Kernel):
        return function
    plain = python_function(function)
    if plain.__name__ == "<lambda>":
        code = plain.__code__
        raise KernelError(f"{code.co_filename}:{code.co_firstlineno}: a kernel is a 'def', not a lambda")
    return Kernel(plain)


def device_function(function: Callable[..., Any]) -> DeviceFunction:
    """Mark a function as one that kernel functions call. Raises :class:`KernelError` for what is no function."""
    return function if isinstance(function, DeviceFunction) else DeviceFunction(python_function(function))


def kernel_from_source(text: str, name: str, namespace: dict[str, Any]) -> Kernel:
    """Make a kernel of generated source text, which messages call ``<name>``."""
    kernel = Kernel.__new__(Kernel)
    kernel.__name__ = name  # type: ignore[attr-defined]
    kernel.source = parse_function(text, f"<{name}>", 1, namespace)
    return kernel


def python_function(value: Any) -> FunctionType:
    """Return the Python function behind a plain function or a ``@cuda.jit`` or ``@njit`` dispatcher."""
    function = value.function if isinstance(value, DeviceFunction) else getattr(value, "py_func", value)
    if not isinstance(function, FunctionType):
        raise KernelError(f"a kernel function is made of a Python function, found {shown(value)}")
    return function


def _file_state(function: FunctionType) -> tuple[int, int] | None:
    """Return when a function's file was last written and how long it is; None where there is none, as for a cell."""
    try:
        status = os.stat(function.__code__.co_filename)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
