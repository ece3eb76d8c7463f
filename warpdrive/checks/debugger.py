"""``wd.debug``: execution of a kernel's unmodified Python, thread by thread."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from warpdrive.backends.shared.tensors import is_tensor
from warpdrive.checks.grid import Grid
from warpdrive.checks.interpreter import Interpreter
from warpdrive.checks.launch import named_arguments
from warpdrive.checks.memory import with_fields
from warpdrive.kernels.configuration import Configuration
from warpdrive.kernels.kernel import Kernel, kernel


class _LocatedInterpreter(Interpreter):
    """Interpreter that tracks the running thread."""

    thread = block = 0

    @property
    def running_thread(self) -> str:
        """Name of the running thread and its block."""
        return f"thread {self.grid.thread_name(self.thread)} of block {self.grid.block_name(self.block)}"

    def begin_block(self, block: int) -> None:
        """Note the block."""
        self.block = block

    resume_block = begin_block

    def begin_thread(self, thread: int) -> None:
        """Note the thread."""
        self.thread = thread


class Debugged:
    """Kernel executed by Python itself. ``d[blocks, threads](*arguments)`` launches it."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def __repr__(self) -> str:
        return f"<debug {self.kernel!r}>"

    def __getitem__(self, configuration: Any) -> Callable[..., None]:
        """Return a callable that launches the kernel; the configuration is that of the kernel itself."""
        launched = Configuration.of(configuration, repr(self))
        grid = Grid(launched.blocks, launched.threads)

        def launch(*arguments: Any, **named: Any) -> None:
            given = named_arguments(self.kernel, arguments, **named)
            interpreter = _LocatedInterpreter(self.kernel.source, grid, shared_bytes=launched.shared_bytes)
            try:
                with np.errstate(all="ignore"):
                    interpreter.run([with_fields(value) for value in given.values()])
            except Exception as error:
                if sys.version_info >= (3, 11):  # the traceback ends with it
                    error.add_note(f"in {interpreter.running_thread}")
                raise
            for argument, array in zip(self.kernel.arguments_of(arguments, named), given.values(), strict=True):
                if is_tensor(argument) and argument.device.type != "cpu":  # the kernel changed a copy
                    argument.copy_(argument.new_tensor(array))

        return launch


def debug(function: Any) -> Debugged:
    """Return a kernel that runs as plain Python: ``wd.debug(kernel)[blocks, threads](*arrays)``.

    The author's statements run unmodified, one thread at a time up to its next barrier, so that ``print``,
    ``breakpoint()`` and any debugger work, and the traceback of an exception has the author's lines and, from Python
    3.11 on, the thread. Numbers are those of Python and NumPy. The arrays are modified, as by a launch.

    Args:
        function: A ``wd.kernel``, or a function that can be one.

    Returns:
        The kernel.

    Raises:
        KernelError: If ``function`` cannot be a kernel, or, at a launch, if the arguments do not match.
    """
    return Debugged(kernel(function))
