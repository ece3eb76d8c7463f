"""Ctrl-C, SIGTERM and SIGHUP as requests to stop at the next safe point."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any


class Stopped(KeyboardInterrupt):
    """Interruption by a signal.

    Args:
        number: The signal.
    """

    def __init__(self, number: signal.Signals = signal.SIGINT) -> None:
        super().__init__(number.name)
        self.number = number


class StopRequest:
    """Request to stop a run.

    Attributes:
        requested: True if it was made.
        by: Signal that made it.
    """

    requested = False
    by: signal.Signals = signal.SIGINT


def stop_signals() -> tuple[signal.Signals, ...]:
    """Return the termination signals of the platform.

    Windows has no SIGHUP, sent when a terminal closes, but SIGBREAK, which is Ctrl-Break and sent by :func:`send`.
    """
    names = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
    return tuple(getattr(signal, name) for name in names if hasattr(signal, name))


def own_group() -> dict[str, Any]:
    """Return the arguments of ``Popen`` for a process in a separate group, which Ctrl-C does not reach."""
    flag = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", None)  # on Windows
    return {"start_new_session": True} if flag is None else {"creationflags": flag}


def send(process: subprocess.Popen[Any], number: signal.Signals) -> None:
    """Send a termination signal to a process in a separate group; on Windows Ctrl-Break, the only one available."""
    process.send_signal(getattr(signal, "CTRL_BREAK_EVENT", number))


def exit_code_of(number: int) -> int:
    """Return the exit code of a program ended by a signal, as in shells: 130 after Ctrl-C, 143, 129."""
    return 128 + number


def name_of(number: signal.Signals) -> str:
    """Return the common name of a signal."""
    return "Ctrl-C" if number == signal.SIGINT else number.name


@contextmanager
def stop_on_interrupt() -> Iterator[StopRequest]:
    """Set ``requested`` at the first Ctrl-C, SIGTERM or SIGHUP within the block; a second acts as usual.

    Ctrl-C then raises KeyboardInterrupt. Signals can be handled in the main thread only; elsewhere the block has no
    effect.
    """
    stop = StopRequest()

    def ask(number: signal.Signals) -> None:
        stop.requested, stop.by = True, number
        again = "Ctrl-C again" if number == signal.SIGINT else "another one"
        with suppress(OSError):
            print(f"{name_of(number)}: stopping after this update; {again} stops at once", file=sys.stderr, flush=True)

    with on_signal(ask, once=True):
        yield stop


@contextmanager
def on_signal(ask: Callable[[signal.Signals], None], once: bool = False) -> Iterator[None]:
    """Call ``ask`` at the signals of :func:`stop_signals` within the block; if ``once``, only at the first of them.

    SIGHUP is left alone if it is ignored, as under ``nohup``, and so are signals with a handler that is not of Python,
    as of a program that embeds it, since it could not be restored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in stop_signals()}
    former = {number: handler for number, handler in handlers.items() if handler is not None}  # None: not of Python
    hang_up = getattr(signal, "SIGHUP", None)
    if hang_up is not None and former.get(hang_up) is signal.SIG_IGN:
        del former[hang_up]

    def restore() -> None:
        for number, handler in former.items():
            signal.signal(number, handler)

    def handle(signum: int, frame: FrameType | None) -> None:
        if once:
            restore()
        if signum == hang_up:
            _forget_terminal()
        ask(signal.Signals(signum))

    for number in former:
        signal.signal(number, handle)
    try:
        yield
    finally:
        restore()


def _forget_terminal() -> None:
    """Redirect output from a closed terminal to the null device, as writing to it would be an error."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        with suppress(OSError):
            if stat.S_ISCHR(os.fstat(number).st_mode):  # isatty says no more
                os.dup2(nowhere, number)
    os.close(nowhere)
