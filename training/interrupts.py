"""Ctrl-C as a request to stop at the next safe point."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Whether somebody asked the run to stop."""

    requested = False


@contextmanager
def stop_on_interrupt() -> Iterator[StopRequest]:
    """Within the block the first Ctrl-C sets ``requested`` and says so; a second one raises KeyboardInterrupt as usual.

    Signals can be handled in the main thread only; elsewhere the block changes nothing.
    """
    stop = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    former = signal.getsignal(signal.SIGINT)

    def on_signal(signum: int, frame: FrameType | None) -> None:
        stop.requested = True
        signal.signal(signal.SIGINT, former)
        print("stopping after this update; Ctrl-C again stops at once", file=sys.stderr, flush=True)

    signal.signal(signal.SIGINT, on_signal)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, former)
