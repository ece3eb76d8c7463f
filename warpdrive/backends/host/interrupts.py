"""Termination of a process by a signal while it is in a kernel that does not return.

Python calls signal handlers in the main thread, between two bytecode instructions. A kernel that does not return keeps
that thread in machine code, so neither Ctrl-C nor a SIGTERM with a handler would take effect. A background thread
receives signals through the file of ``signal.set_wakeup_fd`` and checks whether the main thread leaves its launch.
Launches themselves have no overhead.

The thread sleeps until a signal wakes it, and then inspects the Python frames of the main thread: one call of a launch
that lasts for five seconds is one that does not return.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType

from warpdrive.garbage_collection import no_garbage_collection

GRACE = 5.0
"""Seconds that a launch has to return after a signal."""

REPORT_AFTER = 1.0
"""Seconds after which a message reports the launch that the process waits for."""

ATTENTION = 60.0
"""Seconds after a signal during which the main thread may still enter a launch that does not return."""

ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))

IS_UNIX = hasattr(os, "register_at_fork")
"""True if a thread can wait for a pipe, and a process can end by a signal. If False, nothing is watched."""

_launches: set[CodeType] = set()
_pipe: tuple[int, int] | None = None


def watch(code: CodeType) -> None:
    """Make signals end the process while it does not return from a function with this code.

    Signals wake only one file descriptor: if the program has set one, as servers do, signals are not watched.
    """
    global _pipe
    _launches.add(code)
    if not IS_UNIX or threading.current_thread() is not threading.main_thread():
        return
    if _pipe is None:
        _pipe = os.pipe()
        os.set_blocking(_pipe[1], False)
        threading.Thread(target=_listen, args=(_pipe[0],), daemon=True, name="warpdrive-signals").start()
    with contextlib.suppress(ValueError):  # in a subinterpreter
        former = signal.set_wakeup_fd(_pipe[1], warn_on_full_buffer=False)
        if former not in (-1, _pipe[1]):
            signal.set_wakeup_fd(former, warn_on_full_buffer=False)


def _close_pipe_after_fork() -> None:
    """Close the pipe in the child after a fork; it belongs to the parent."""
    global _pipe
    if _pipe is not None:
        if (other := signal.set_wakeup_fd(-1)) not in (-1, _pipe[1]):
            signal.set_wakeup_fd(other)
        for end in _pipe:
            os.close(end)
        _pipe = None


if IS_UNIX:
    os.register_at_fork(after_in_child=_close_pipe_after_fork)


def _listen(pipe: int) -> None:
    while True:
        if signals := _read_signals(pipe, None):
            _watch_launch(pipe, signals[0])


def _watch_launch(pipe: int, number: signal.Signals) -> None:
    """Watch the launches of the main thread after a signal; end the process if one of them does not return."""
    began = time.monotonic()
    held, reported = _BlockedLaunch(), False
    while time.monotonic() - began < ATTENTION:
        launch, waited = held.look()
        reported = reported and waited > 0
        if launch is not None and waited > GRACE:
            _end(number, launch, f"has not returned {GRACE:.0f} seconds after {number.name}")
        if launch is not None and waited > REPORT_AFTER and not reported:
            reported = True
            _write_to_stderr(f"waiting for {_described(launch)} to return; {number.name} again ends the process now")
        if not waited:
            _read_signals(pipe, 0.0)  # which may have come before the launch
        if again := _read_signals(pipe, 0.1):
            launch, waited = held.look()  # the former one may have returned since
            if launch is not None and waited > 0:
                _end(again[0], launch, f"has not returned, and {number.name} came again")


def _read_signals(pipe: int, timeout: float | None) -> list[signal.Signals]:
    """Wait up to ``timeout`` seconds for signals, and return those that end a process."""
    poll = select.poll()  # select.select rejects descriptors from 1024 on
    poll.register(pipe, select.POLLIN)
    if not poll.poll(None if timeout is None else timeout * 1000):
        return []
    return [signal.Signals(number) for number in os.read(pipe, 64) if number in ENDING]


class _BlockedLaunch:
    """Launch that the main thread is in, and the time at which it was first seen."""

    def __init__(self) -> None:
        self.launch: FrameType | None = None
        self.since = time.monotonic()

    def look(self) -> tuple[FrameType | None, float]:
        """Return the current launch, if any, and the seconds since it was first seen."""
        present = _blocking_launch()
        if present is not self.launch or present is None:
            self.launch, self.since = present, time.monotonic()
            return present, 0.0
        return present, time.monotonic() - self.since


@contextlib.contextmanager
def launches_within(seconds: float, exit_code: int) -> Iterator[None]:
    """Within the block, end the process with a message and an exit code if a launch takes more than ``seconds``."""
    over = threading.Event()

    def look_on() -> None:
        held = _BlockedLaunch()
        while not over.wait(0.2):
            launch, waited = held.look()
            if launch is not None and waited > seconds:
                _write_to_stderr(f"{_described(launch)} has not returned within {seconds:g} seconds: the process ends")
                os._exit(exit_code)

    watcher = threading.Thread(target=look_on, daemon=True, name="warpdrive-launches")
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _blocking_launch() -> FrameType | None:
    """Return the launch that the main thread is in, or waits for while another thread is in it."""
    # A collection while frames are looked up may wait for ever for a lock that _current_frames holds (CPython issue
    # 106883), or let the main thread leave the frame whose caller is being looked up.
    with no_garbage_collection():
        frames = sys._current_frames()
        main = frames.get(threading.main_thread().ident or 0)
        found = _launch_of(main)
        if found is None and main is not None and main.f_code.co_filename == threading.__file__:
            found = next((launch for frame in frames.values() if (launch := _launch_of(frame))), None)
    return found


def _launch_of(frame: FrameType | None) -> FrameType | None:
    while frame is not None and frame.f_code not in _launches:
        frame = frame.f_back
    return frame


def _described(launch: FrameType) -> str:
    """Return a description of the launch with its location outside of this library."""
    frame: FrameType | None = launch
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith("warpdrive"):
        frame = frame.f_back
    if frame is None or Path(frame.f_code.co_filename).name == "warpdrive":  # the command-line program
        return "a kernel"
    return f"a kernel launched at {frame.f_code.co_filename}:{frame.f_lineno}"


def _write_to_stderr(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"warpdrive: {text}\n".encode(errors="replace"))


def _end(number: signal.Signals, launch: FrameType, why: str) -> None:
    """End the process as the default action of the signal does."""
    _write_to_stderr(
        f"{_described(launch)} {why}: the process ends. Saved files are kept; 'warpdrive check' and wd.check_launch "
        "show where an endless kernel is stuck"
    )
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    libc = ctypes.CDLL(None)  # Python's signal.signal only works in the main thread
    libc.signal.argtypes, libc.signal.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
    libc.signal(int(number), None)
    os.kill(os.getpid(), number)
    time.sleep(1.0)
    os._exit(128 + number)
