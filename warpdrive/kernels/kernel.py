"""``wd.kernel`` and ``wd.device_function``: what makes a Python function a kernel function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import cached_property
from types import FunctionType
from typing import Any

from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.source import FunctionSource, parse_function, read_function


class DeviceFunction:
    """A function that kernel functions call. It may contain barriers.

    Not needed for correctness, since kernel functions may call plain functions too; it says what the function is
    for and keeps it from being called on the host by mistake.
    """

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        functools.update_wrapper(self, function)

    @cached_property
    def source(self) -> FunctionSource:
        """The function's source, read when it is first needed. Raises :class:`KernelError` if it cannot be read."""
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
    ``k[blocks, threads](*arguments)``, where the arguments are NumPy arrays, CPU tensors or numbers, and blocks and
    threads are integers or tuples of up to three.
    """

    @cached_property
    def memory(self) -> dict[str, Any]:
        """What backends, by their names, remember of the kernel from one launch to the next."""
        return {}

    def __getitem__(self, configuration: tuple[Any, Any]) -> Callable[..., None]:
        """Return a callable that launches the kernel with ``configuration = (blocks, threads)``."""
        from warpdrive.backends.cpu.launch import launcher

        if not isinstance(configuration, tuple) or len(configuration) != 2:
            raise KernelError(f"{self!r} is launched as k[blocks, threads](...), found k[{configuration!r}]")
        return launcher(self, *configuration)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise :class:`KernelError` that says how a kernel is launched."""
        raise KernelError(f"{self!r} is launched as k[blocks, threads](...), or run as part of an environment")


def kernel(function: Callable[..., Any]) -> Kernel:
    """Make a kernel of a plain function, or of a ``@cuda.jit`` function that is not compiled yet.

    Raises :class:`KernelError` for anything else.
    """
    return function if isinstance(function, Kernel) else Kernel(python_function(function))


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
        raise KernelError(f"a kernel function is made of a Python function, found {value!r}")
    return function
