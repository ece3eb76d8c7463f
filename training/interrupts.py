"""Ctrl-C, or SIGTERM, as a request to stop at the next safe point."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Whether somebody asked the run to stop."""

    requested = False


@contextmanager
def stop_on_interrupt() -> Iterator[StopRequest]:
    """Within the block the first Ctrl-C or SIGTERM sets ``requested`` and says so; a second one acts as usual.

    Ctrl-C then raises KeyboardInterrupt. Signals can be handled in the main thread only; elsewhere the block changes
    nothing.
    """
    stop = StopRequest()

    def ask() -> None:
        stop.requested = True
        print("stopping after this update; Ctrl-C again stops at once", file=sys.stderr, flush=True)

    with on_interrupt(ask, once=True):
        yield stop


@contextmanager
def on_interrupt(ask: Callable[[], None], once: bool = False) -> Iterator[None]:
    """Within the block Ctrl-C and SIGTERM call ``ask``; if ``once``, only the first of them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in former.items():
            signal.signal(number, handler)

    def on_signal(signum: int, frame: FrameType | None) -> None:
        if once:
            restore()
        ask()

    for number in former:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        restore()
