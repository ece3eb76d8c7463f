"""Launches of single kernels: on a GPU if their arrays are on one, else on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from warpdrive.backends.shared.tensors import is_tensor
from warpdrive.kernels.configuration import Configuration
from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.kernel import Kernel, keep_launcher

KEPT_LAUNCHES = 8
"""Maximum number of bound launches that a launcher keeps, one for each combination of argument kinds."""


class Device(NamedTuple):
    """Device of an array: ``"cpu"``, ``"cuda"`` or another one of PyTorch, and its number if that is known."""

    type: str
    number: int | None = None

    def __str__(self) -> str:
        named = {"cpu": "the CPU", "cuda": "a GPU"} if self.number is None else {}
        return named.get(self.type, self.type if self.number is None else f"{self.type}:{self.number}")


class BoundLaunch(Protocol):
    """Kernel compiled for its arguments, on some device."""

    def run(self) -> None:
        """Launch the kernel."""

    def run_with(self, arguments: tuple[Any, ...]) -> bool:
        """Launch the kernel with other arguments of the same kinds; return False if that is not possible now."""

    def release_arguments(self) -> bool:
        """Release the arguments; return True if :meth:`run_with` accepts new ones."""


def launcher(kernel: Kernel, configuration: Configuration) -> Callable[..., None]:
    """Return a function that launches the kernel with the arguments it is called with."""
    launchers: dict[Configuration, Callable[..., None]] = kernel.memory.setdefault("launchers", {})
    found = launchers.get(configuration)
    if found is None:
        found = keep_launcher(launchers, configuration, _make_launcher(kernel, configuration))
    return found


def _make_launcher(kernel: Kernel, configuration: Configuration) -> Callable[..., None]:
    """Return a launcher, which keeps its last launches to reuse them with other arguments."""
    ready: tuple[BoundLaunch, ...] = ()
    num_parameters = len(kernel.parameters)

    def launch(*arguments: Any, **named: Any) -> None:
        nonlocal ready
        if named or len(arguments) != num_parameters:
            arguments = kernel.arguments_of(arguments, named)
        for bound in ready:
            if bound.run_with(arguments):
                return
        bound = _bind(kernel, dict(zip(kernel.parameters, arguments, strict=True)), configuration)
        bound.run()
        if bound.release_arguments():
            ready = (bound, *ready[: KEPT_LAUNCHES - 1])

    return launch


def _bind(kernel: Kernel, arguments: dict[str, Any], configuration: Configuration) -> BoundLaunch:
    device = device_of(kernel, arguments)
    if device.type != "cuda":
        from warpdrive.backends.cpu.launch import BoundKernel

        return BoundKernel(kernel, arguments, configuration)
    from warpdrive.backends.numba_cuda.standalone import BoundOnGpu

    return BoundOnGpu(kernel, arguments, configuration, device.number)


def device_of(kernel: Kernel, arguments: dict[str, Any]) -> Device:
    """Return the device of the array arguments; the index of a GPU is None if no array specifies it.

    Raises :class:`KernelError` if they are on different devices.
    """
    device, first = Device("cpu"), ""
    for name, other in [place for given in arguments.items() for place in _places(*given)]:
        if first and (device.type != other.type or _differ(device.number, other.number)):
            raise KernelError(
                f"argument '{name}' of kernel '{kernel.source.name}' is on {other}, but '{first}' on "
                f"{device}: all arrays of a launch must be on one device; tensor.to(...) copies one"
            )
        if not first or device.number is None:
            device, first = other, name
    return device


def _places(name: str, value: Any) -> Iterator[tuple[str, Device]]:
    """Yield the name and the device of each array in an argument."""
    if isinstance(value, tuple):
        for index, part in enumerate(value):
            yield from _places(f"{name}[{index}]", part)
    elif is_tensor(value):
        yield name, Device(value.device.type, value.device.index)
    elif isinstance(value, np.ndarray):
        yield name, Device("cpu")
    elif hasattr(value, "__cuda_array_interface__"):
        yield name, Device("cuda")


def _differ(number: int | None, other: int | None) -> bool:
    return number is not None and other is not None and number != other
