"""Kernel functions: the ``wd.kernel`` and ``wd.device_function`` decorators.

Names added to a kernel by the library begin with ``wd__``, which is reserved.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import FunctionType
from typing import Any, ClassVar, overload

from warpdrive.errors import nearest, shown
from warpdrive.kernels.configuration import Configuration, key_of
from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.source import FunctionSource, parse_function, read_function

THREADS_FOR_ALL = 128
"""Default number of threads per block."""

MAX_LAUNCHERS = 256
"""Maximum number of launch configurations whose launchers are kept, as sizes of grids may depend on data."""


class DeviceFunction:
    """Function called by kernel functions. It may contain barriers.

    The decorator is optional, since kernel functions may also call plain functions: it documents the purpose of the
    function and prevents accidental calls on the host.
    """

    is_inlined = True
    """If False, the CPU backend never inlines it."""

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self._file_as_imported = _file_state(function)
        functools.update_wrapper(self, function)

    @cached_property
    def source(self) -> FunctionSource:
        """The source of the function, read on first use.

        Raises :class:`KernelError` if the source cannot be read, or has changed since Python imported it.
        """
        if _file_state(self.function) != self._file_as_imported:
            code = self.function.__code__
            raise KernelError(
                f"{code.co_filename}:{code.co_firstlineno}: the file has changed since '{code.co_name}' was "
                "imported from it: restart Python"
            )
        return replace(read_function(self.function), is_inlined=self.is_inlined)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters, in order."""
        return self.source.parameters

    @property
    def where(self) -> str:
        """Source location ``file:line`` of the definition."""
        return f"{self.source.file}:{self.source.tree.lineno}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.__name__}>"  # type: ignore[attr-defined]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise :class:`KernelError`, since device functions cannot be called on the host."""
        raise KernelError(f"{self!r} runs on a device: call it from a kernel function")


class Kernel(DeviceFunction):
    """Kernel function, executed by every thread of every block; created by ``wd.kernel``.

    As part of an environment it is fused with others into one launch. On its own it is launched as
    ``k[blocks, threads](*arguments)``, where blocks and threads are integers or tuples of up to three, or as
    ``k.forall(n)(*arguments)``. Arguments are numbers and arrays: NumPy arrays and CPU tensors launch it on the CPU,
    CUDA tensors and arrays with ``__cuda_array_interface__`` on their GPU.

    Attributes:
        debug: If True, launches on the CPU check indices and divisors, and exceptions report the thread.
        launcher: Creates the function that launches a kernel in a configuration; set by ``warpdrive.launching``, as
            this package is independent of backends.
    """

    debug = False
    launcher: ClassVar[Callable[[Kernel, Configuration], Callable[..., None]]]

    @cached_property
    def _launchers(self) -> dict[str, Callable[..., None]]:
        return {}

    @cached_property
    def memory(self) -> dict[str, Any]:
        """Per-backend state kept between launches, by the name of the backend."""
        return {}

    @property
    def is_current(self) -> bool:
        """True if resolving the kernel again would give the same code."""
        tables = self.memory.get("resolved", {}).values()
        members = (member for table in tables for member in table)
        return None not in tables and all(getattr(owner, name, None) is value for owner, name, value in members)

    def __getitem__(self, configuration: Any) -> Callable[..., None]:
        """Return a callable that launches the kernel.

        Args:
            configuration: ``(blocks, threads)``, optionally followed, as in ``numba.cuda``, by a stream (0: PyTorch's
                current stream; ignored on the CPU) and the bytes of dynamic shared memory per block.

        Returns:
            A callable that takes the kernel's arguments.

        Raises:
            KernelError: If the configuration is malformed, or exceeds the limits of a GPU.
        """
        key = key_of(configuration)
        found = self._launchers.get(key)
        if found is None:
            launcher = type(self).launcher(self, Configuration.of(configuration, repr(self)))
            found = keep_launcher(self._launchers, key, launcher)
        return found

    def configure(self, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0) -> Callable[..., None]:
        """Return ``k[griddim, blockdim, stream, sharedmem]``; the parameter names are those of ``numba.cuda``.

        Args:
            griddim: The number of blocks: an integer or a tuple of up to three.
            blockdim: The number of threads per block: an integer or a tuple of up to three.
            stream: A CUDA stream or its handle; 0 for PyTorch's current stream. Ignored on the CPU.
            sharedmem: Bytes of dynamic shared memory per block.

        Returns:
            A callable that takes the kernel's arguments and launches it.

        Raises:
            KernelError: If the configuration is malformed, or exceeds the limits of a GPU.
        """
        return self[griddim, blockdim, stream, sharedmem]

    def forall(self, num_tasks: int, tpb: int = 0, stream: Any = 0, sharedmem: int = 0) -> Callable[..., None]:
        """Return a callable that launches the kernel with at least ``num_tasks`` threads.

        The parameter names are those of ``numba.cuda``.

        Args:
            num_tasks: The number of threads needed; if 0, nothing is launched.
            tpb: The number of threads per block; 0 for the default.
            stream: A CUDA stream or its handle; 0 for PyTorch's current stream. Ignored on the CPU.
            sharedmem: Bytes of dynamic shared memory per block.

        Returns:
            A callable that takes the kernel's arguments and launches it.

        Raises:
            KernelError: If the configuration exceeds the limits of a GPU.
        """
        if num_tasks == 0:
            return lambda *arguments, **named: None
        threads = tpb or min(num_tasks, THREADS_FOR_ALL)
        return self[-(-num_tasks // threads), threads, stream, sharedmem]

    def arguments_of(self, given: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Bind the arguments of a call to the parameters: positional, by keyword, or default.

        Raises :class:`KernelError` if they do not match the signature.
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
        """Raise :class:`KernelError` with a description of the launch syntax."""
        raise KernelError(f"{self!r} is launched as k[blocks, threads](...), or run as part of an environment")


def keep_launcher(kept: dict[Any, Callable[..., None]], key: Any, launcher: Callable[..., None]) -> Callable[..., None]:
    """Keep a launcher in place of the oldest of ``MAX_LAUNCHERS``, and return it."""
    if len(kept) >= MAX_LAUNCHERS:
        kept.pop(next(iter(kept)), None)
    kept[key] = launcher
    return launcher


def kernel(function: Callable[..., Any]) -> Kernel:
    """Create a kernel from a plain function, or from a ``@cuda.jit`` function that is not compiled yet.

    ```python
    @wd.kernel
    def double(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= 2

    x = torch.ones(1000)
    double.forall(x.numel())(x)
    ```

    Args:
        function: A function in the kernel language. It is compiled at its first launch for each combination of argument
            types. A kernel is returned as it is.

    Returns:
        The kernel, to be launched, or to be the ``step``, ``observe``, ``reset`` or ``draw`` of an environment.

    Raises:
        KernelError: If ``function`` is a lambda, or no Python function.
    """
    if isinstance(function, Kernel):
        return function
    plain = python_function(function)
    if plain.__name__ == "<lambda>":
        code = plain.__code__
        raise KernelError(f"{code.co_filename}:{code.co_firstlineno}: a kernel is a 'def', not a lambda")
    return Kernel(plain)


@overload
def device_function(function: Callable[..., Any]) -> DeviceFunction: ...
@overload
def device_function(*, inline: bool = True) -> Callable[[Callable[..., Any]], DeviceFunction]: ...
def device_function(function: Callable[..., Any] | None = None, *, inline: bool = True) -> Any:
    """Mark a function that kernel functions call, but the host does not.

    The decorator is optional: kernel functions may also call plain functions.

    Args:
        function: A function in the kernel language. It may contain barriers.
        inline: If False, the CPU backend compiles a call, also where it would inline: ``@wd.device_function(
            inline=False)`` keeps large code that is seldom needed out of a hot loop, whose variables then stay in
            registers. Functions with barriers are always inlined. GPU compilers decide for themselves.

    Returns:
        The device function. A call on the host raises ``KernelError``.

    Raises:
        KernelError: If ``function`` is not a Python function.
    """
    if function is None:
        return lambda function: device_function(function) if inline else _never_inlined(function)
    return function if isinstance(function, DeviceFunction) else DeviceFunction(python_function(function))


def _never_inlined(function: Callable[..., Any]) -> DeviceFunction:
    marked = DeviceFunction(python_function(function))
    marked.is_inlined = False
    return marked


def kernel_from_source(text: str, name: str, namespace: dict[str, Any]) -> Kernel:
    """Create a kernel from generated source text.

    Args:
        text: The source of one ``def`` statement.
        name: The name of the kernel; error messages give ``<name>`` as its file.
        namespace: The values of its free names.

    Returns:
        The kernel.
    """
    kernel = Kernel.__new__(Kernel)
    kernel.__name__ = name  # type: ignore[attr-defined]
    kernel.source = parse_function(text, f"<{name}>", 1, namespace, is_generated=True)
    return kernel


def python_function(value: Any) -> FunctionType:
    """Return the Python function behind a plain function or a ``@cuda.jit`` or ``@njit`` dispatcher."""
    function = value.function if isinstance(value, DeviceFunction) else getattr(value, "py_func", value)
    if not isinstance(function, FunctionType):
        raise KernelError(f"@wd.kernel expects a Python function, found {shown(value)}")
    return function


def _file_state(function: FunctionType) -> tuple[int, int] | None:
    """Return the modification time (ns) and size of a function's file, or None if there is none (a notebook cell)."""
    try:
        status = os.stat(function.__code__.co_filename)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
