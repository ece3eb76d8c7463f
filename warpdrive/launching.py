"""Kernel decorators of the public API: those of ``warpdrive.kernels``, with launches by the backends."""

from __future__ import annotations

from collections.abc import Callable

from warpdrive.kernels.configuration import Configuration
from warpdrive.kernels.kernel import Kernel as Kernel, device_function as device_function, kernel as kernel


def launcher(kernel: Kernel, configuration: Configuration) -> Callable[..., None]:
    """Return a function that launches a kernel on the device of its arguments; loads the backends on first use.

    Args:
        kernel: The kernel.
        configuration: Blocks, threads, stream and dynamic shared memory of the launch.

    Returns:
        A function that takes the kernel's arguments.
    """
    from warpdrive.backends import standalone

    return standalone.launcher(kernel, configuration)


Kernel.launcher = staticmethod(launcher)
