"""Raising of a kernel's ``assert`` and ``raise`` statements on the host."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from warpdrive.kernels.errors import KernelError


def raising(run: Callable[[], None], faults: Sequence[str]) -> Callable[[], None]:
    """Return a function that runs a launch and raises :class:`KernelError` if the kernel raised one of its ``faults``.

    Machine code cannot raise through the threads that run it: numba passes the exception to ``sys.unraisablehook``, and
    the part of the launch in which it occurred ends there.
    """

    def launch() -> None:
        failures: list[BaseException] = []

        def note(unraisable: Any) -> None:
            if isinstance(unraisable.exc_value, AssertionError):
                failures.append(unraisable.exc_value)
            else:
                before(unraisable)

        before, sys.unraisablehook = sys.unraisablehook, note
        try:
            run()
        finally:
            sys.unraisablehook = before
        if failures:
            error = KernelError(faults[min(int(str(failure)) for failure in failures)])
            error.raised = True
            raise error from None

    return launch
