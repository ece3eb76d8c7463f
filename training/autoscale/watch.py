"""Supervision of a process with limits on time and memory."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from warpdrive.training.autoscale.memory import gib
from warpdrive.training.autoscale.size import Failure
from warpdrive.training.autoscale.starter import Forked

_BETWEEN_LOOKS = 0.02
_KILLED = getattr(signal, "SIGKILL", 9)
_OUT_OF_MEMORY_MESSAGES = (
    "MemoryError",
    "bad_alloc",
    "out of memory",
    "Cannot allocate memory",
    "can't allocate memory",
)


class Ended(NamedTuple):
    """Exit of a process: failure and its description, if any, and the peak memory in bytes."""

    failure: Failure | None
    reason: str
    peak: float


def watch(process: subprocess.Popen[bytes] | Forked, printed: Path, time_limit: float, memory: float | None) -> Ended:
    """Wait for a process that leads a process group; kill it, with its children, if it exceeds a limit.

    Args:
        process: Process that was just started.
        printed: File of its output.
        time_limit: Time limit in seconds.
        memory: Memory limit in bytes, including its children, or None.

    Returns:
        The exit of the process.
    """
    try:
        ends, peak = time.monotonic() + time_limit, 0.0
        while process.poll() is None:
            peak = max(peak, sum(map(_memory_of, [process.pid, *_children(process.pid)])))
            if memory is not None and peak > memory:
                return Ended("memory", f"took more than {gib(memory)}", peak)
            if time.monotonic() > ends:
                return Ended("time", f"took longer than {time_limit:.0f} s", peak)
            time.sleep(_BETWEEN_LOOKS)
    finally:
        if isinstance(process, subprocess.Popen) and not hasattr(os, "killpg"):
            process.kill()
        else:
            for started in (process.pid, *_children(process.pid)):  # those of torch's launcher lead groups, too
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(started, signal.SIGKILL)
        returncode = process.wait()
    return Ended(*_failure_of(returncode, printed.read_text(errors="replace")), peak)


def _failure_of(returncode: int, printed: str) -> tuple[Failure | None, str]:
    """Return the failure of a process and its description, if it failed."""
    if returncode == 0:
        return None, ""
    last = next((line.strip() for line in reversed(printed.splitlines()) if line.strip()), "")
    if returncode == -_KILLED:
        return "memory", "killed by the system, probably out of memory"
    if any(said in printed for said in _OUT_OF_MEMORY_MESSAGES):
        return "memory", last
    if returncode < 0:
        return "crash", f"crashed with {signal.Signals(-returncode).name}"
    return "crash", last or f"exited with code {returncode}"


def _children(pid: int) -> list[int]:
    """Return the children of a process that lead process groups; between two of them there may be none."""
    with suppress(OSError):
        started = [int(number) for number in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return [child for child in started if _leads(child)]
    return []


def _leads(pid: int) -> bool:
    with suppress(OSError):
        return os.getpgid(pid) == pid
    return False


def _memory_of(pid: int) -> float:
    """Return the resident memory of a process in bytes; 0 if the system does not report it."""
    with suppress(OSError):
        found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        if found:
            return int(found[1]) * 1024.0
    return 0.0
