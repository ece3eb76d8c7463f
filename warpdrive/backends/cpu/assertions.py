"""Raising of a kernel's exceptions on the host."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from warpdrive.backends.host.debug_checks import NOTES
from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.faults import Fault, Raised


def raising(run: Callable[[], None], faults: Sequence[Fault]) -> Callable[[], None]:
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

        NOTES.clear()
        before, sys.unraisablehook = sys.unraisablehook, note
        try:
            run()
        finally:
            sys.unraisablehook = before
        if failures:
            if NOTES:  # of the first thread of the first block that has failed
                code, *words = min(NOTES, key=lambda words: (*words[6:3:-1], *words[3:0:-1]))
                thread, block, values = (tuple(words[place : place + 3]) for place in (0, 3, 6))
                raised = Raised(faults[code], (thread, block), values)  # type: ignore[arg-type]
            else:
                raised = Raised(faults[min(int(str(failure)) for failure in failures)])
            error = KernelError(str(raised))
            error.raised = raised
            raise error from None

    return launch
