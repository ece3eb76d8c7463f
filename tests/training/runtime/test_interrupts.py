"""Signals to processes in groups of their own, on Unix and as on Windows."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any

import pytest

from warpdrive.training.runtime.interrupts import Stopped, on_signal, own_group, send, stop_signals

CTRL_BREAK = 1
"""Number of the event on Windows, where ``Popen.send_signal`` refuses SIGINT."""


class Process:
    """Process of Windows."""

    sent: int | None = None

    def send_signal(self, number: int) -> None:
        """Accept what Windows has."""
        if number not in (signal.SIGTERM, CTRL_BREAK):
            raise ValueError(f"Unsupported signal: {number}")
        self.sent = number


def test_a_process_of_windows_gets_ctrl_break(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process in a group of its own can be sent nothing else that it could react to."""
    monkeypatch.setattr(signal, "CTRL_BREAK_EVENT", CTRL_BREAK, raising=False)
    monkeypatch.setattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 512, raising=False)
    assert own_group() == {"creationflags": 512}
    for number in (signal.SIGINT, signal.SIGTERM):
        process: Any = Process()
        send(process, number)
        assert process.sent == CTRL_BREAK


def test_ctrl_break_stops_like_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "SIGBREAK", signal.SIGUSR1, raising=False)
    assert signal.SIGUSR1 in stop_signals()

    def stop(number: signal.Signals) -> None:
        raise Stopped(number)

    with pytest.raises(Stopped), on_signal(stop):
        signal.raise_signal(signal.SIGUSR1)


def test_a_process_of_unix_gets_the_signal() -> None:
    program = "import signal\nprint(flush=True)\nsignal.pause()"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, **own_group())
    assert process.stdout is not None
    with process.stdout:
        process.stdout.readline()
        send(process, signal.SIGTERM)
        assert process.wait(60) == -signal.SIGTERM


def test_a_handler_that_is_not_of_python_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """``signal.getsignal`` returns None for it, which ``signal.signal`` refuses."""
    real = signal.getsignal
    monkeypatch.setattr(signal, "getsignal", lambda number: None if number == signal.SIGTERM else real(number))
    installed: list[int] = []
    former = signal.signal
    monkeypatch.setattr(signal, "signal", lambda number, handler: (installed.append(number), former(number, handler)))
    before = real(signal.SIGINT)
    with on_signal(lambda number: None):
        assert real(signal.SIGINT) is not before
    assert real(signal.SIGINT) is before and signal.SIGTERM not in installed
