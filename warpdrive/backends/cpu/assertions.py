"""Raising of a kernel's exceptions on the host."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from warpdrive.backends.host.debug_checks import NOTES
from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.faults import Fault, Raised

_in_use = threading.RLock()
"""Lock of ``NOTES`` and ``sys.unraisablehook``; a signal handler can launch a kernel within a launch."""


def raising(run: Callable[[], None], faults: Sequence[Fault]) -> Callable[[], None]:
    """Return a function that runs a launch and raises :class:`KernelError` if the kernel raised one of its ``faults``.

    Machine code cannot raise through the threads that run it: numba passes the exception to ``sys.unraisablehook``, and
    the part of the launch in which it occurred ends there. Launches in other threads wait for each other.
    """

    def launch() -> None:
        failures: list[BaseException] = []

        def note(unraisable: Any) -> None:
            if isinstance(unraisable.exc_value, AssertionError):
                failures.append(unraisable.exc_value)
            else:
                before(unraisable)

        with _in_use:
            NOTES.clear()
            before, sys.unraisablehook = sys.unraisablehook, note
            try:
                run()
            finally:
                sys.unraisablehook = before
            notes = list(NOTES)
        if failures:
            if notes:  # of the first thread of the first block that has failed
                code, *words = min(notes, key=lambda words: (*words[6:3:-1], *words[3:0:-1]))
                thread, block, values = (tuple(words[place : place + 3]) for place in (0, 3, 6))
                raised = Raised(faults[code], (thread, block), values)  # type: ignore[arg-type]
            else:
                raised = Raised(faults[min(int(str(failure)) for failure in failures)])
            error = KernelError(str(raised))
            error.raised = raised
            raise error from None

    return launch


def _forget_launches_after_fork() -> None:
    """Make the child of a fork able to launch: another thread may have held the lock."""
    global _in_use
    _in_use = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_launches_after_fork)
