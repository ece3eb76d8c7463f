"""Launcher of a run's processes on this machine, with a rendezvous in a private folder.

The folder of the launcher outlives the processes. Rank 0 leaves the path of the run in it, so that restarted processes
resume the run. torchrun is not used here: its agent opens a store on all interfaces, without authentication, and
unpickles what it receives. gloo is restricted to the loopback interface.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from warpdrive.backends.system_info import this_machine
from warpdrive.errors import TeamError
from warpdrive.file_lock import locked
from warpdrive.training.distributed.bootstrap import RUN
from warpdrive.training.distributed.folder_store import LAUNCHER, FolderStore
from warpdrive.training.distributed.rendezvous import FOLDER, SECRET
from warpdrive.training.distributed.torch_process_group import loaded_text
from warpdrive.training.runtime.interrupts import Stopped, exit_code_of, on_signal, own_group, send, stop_signals

_BETWEEN_LOOKS = 0.1  # seconds
_GRACE = 30.0  # seconds that processes have to end when another has failed


def check_devices(gpus: int | None, processes: int | None, fraction: float | None, on_cpu: bool = False) -> int:
    """Return the number of processes to launch: one for each of ``gpus``, or ``processes`` on any device.

    Args:
        gpus: Number of GPUs to use; None: not given.
        processes: Number of processes; None: not given.
        fraction: Fraction of a GPU's memory per process; None: GPUs are not shared.
        on_cpu: True if the run is on the CPU.

    Returns:
        The number of processes, 1 or more.

    Raises:
        TeamError: If there are not enough GPUs, or several processes would share one.
    """
    there = len(this_machine().driver.gpus)
    if gpus is not None and on_cpu:
        raise TeamError("--num_gpus: found trainer.env_backend=cpu; --num_processes N starts N processes on the CPU")
    if gpus is not None and gpus > there and fraction is None:
        instead = " on the CPU, --num_processes N starts N processes" if not there else f" use --num_gpus {there}"
        raise TeamError(f"--num_gpus: found {gpus}, but this machine has {there} GPUs:{instead}")
    count = gpus or processes or 1
    if not on_cpu and processes is not None and 0 < there < processes and fraction is None:
        raise TeamError(
            f"--num_processes: found {processes}, but this machine has {there} GPUs, and more than one on a GPU is "
            "slower than one: each needs 300 to 700 MB for its context, and the GPU runs them in turn. Use --num_gpus "
            f"{there}, or trainer.env_backend=cpu, or force it with trainer.gpu_memory_fraction={there / processes:.2g}"
        )
    return count


def launch(
    arguments: Sequence[str],
    processes: int,
    max_restarts: int = 0,
    on_failure: Callable[[str | None, str], object] = lambda run, why: None,
) -> None:
    """Run ``python <arguments>`` in several processes and wait for them.

    Their rendezvous is a folder that only this user can read, and tensors are sent within the machine; no port is open
    to the network. If one process fails, all are ended; they are restarted at most ``max_restarts`` times. Ctrl-C,
    SIGTERM and SIGHUP are forwarded to them; a third signal kills them.

    Args:
        arguments: Arguments of the Python interpreter.
        processes: Number of processes.
        max_restarts: Maximum number of restarts.
        on_failure: Called, before ``TeamError`` is raised, with the folder of the run, if there is one, and the reason.

    Raises:
        TeamError: If a process has failed: reports which, and how.
        KeyboardInterrupt: If they ended on request (a ``Stopped``, with the signal).
    """
    with tempfile.TemporaryDirectory(prefix="warpdrive-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / SECRET).write_text(secrets.token_hex(32), encoding="ascii")
        with locked(folder / LAUNCHER):
            started = _Processes(folder, arguments, processes)
            with on_signal(started.forward_signal, once=False):
                for restart in range(max_restarts + 1):
                    failures = started.run()
                    stop = started.stop_requested or _stop_of(failures)
                    if stop:
                        raise Stopped(stop)
                    if not failures:
                        return
                    if restart < max_restarts:
                        print(
                            f"warpdrive: {_in_words(failures, 0)}; restarting all processes",
                            file=sys.stderr,
                            flush=True,
                        )
            why = _in_words(failures, max_restarts)
            on_failure(loaded_text(FolderStore(folder, 0.0), RUN), why)
            raise TeamError(why)


@dataclass(frozen=True)
class _Failure:
    """Exit of a failed process.

    Attributes:
        rank: Rank of the process.
        pid: Process id.
        code: Exit code; the negative signal number if killed by a signal.
        time: Time when the exit was noticed.
        ended_first: True if it ended before the launcher ended all processes.
    """

    rank: int
    pid: int
    code: int
    time: datetime
    ended_first: bool


class _Processes:
    """Processes of a run and their exits."""

    def __init__(self, folder: Path, arguments: Sequence[str], count: int) -> None:
        self.stop_requested: signal.Signals | None = None
        self._folder, self._arguments, self._count = folder, arguments, count
        self._asked = 0
        self._running: list[subprocess.Popen[bytes]] = []

    def run(self) -> list[_Failure]:
        """Start all processes and wait until they have ended. Return the failures, the first one first."""
        try:
            for rank in range(self._count):
                process = self._start(rank)
                self._running.append(process)
                if self.stop_requested:  # before this process was there to receive the signal
                    with suppress(OSError):
                        send(process, self.stop_requested)
            return self._wait()
        finally:
            for process in self._running:
                _kill(process)
                process.wait()
            self._running.clear()

    def forward_signal(self, number: signal.Signals) -> None:
        """Forward a signal to the processes, outside the terminal's group; the third time, raise ``Stopped``."""
        self.stop_requested = self.stop_requested or number
        self._asked += 1
        if self._asked > 2:
            raise Stopped(number)
        for process in self._running:
            with suppress(OSError):
                send(process, number)

    def _start(self, rank: int) -> subprocess.Popen[bytes]:
        where = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": self._count, "LOCAL_WORLD_SIZE": self._count}
        crash = {"PYTHONFAULTHANDLER": "1"}  # a process that dies in native code says where
        variables = {
            **crash,
            **os.environ,
            **{name: str(value) for name, value in where.items()},
            FOLDER: str(self._folder),
        }
        return subprocess.Popen([sys.executable, *self._arguments], env=variables, **own_group())

    def _wait(self) -> list[_Failure]:
        failures: dict[int, _Failure] = {}
        ends = float("inf")
        while True:
            for rank, process in enumerate(self._running):
                code = process.poll()
                if code and rank not in failures:
                    ended_first = ends == float("inf")
                    failures[rank] = _Failure(rank, process.pid, code, datetime.now(), ended_first)
            if all(process.returncode is not None for process in self._running):
                return sorted(failures.values(), key=lambda failure: not failure.ended_first)
            if failures and ends == float("inf") and not self.stop_requested:
                ends = time.monotonic() + _GRACE
                for process in self._running:
                    with suppress(OSError):
                        send(process, signal.SIGTERM)
            if time.monotonic() > ends:
                for process in self._running:
                    _kill(process)
            time.sleep(_BETWEEN_LOOKS)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that is still running; on Unix also its children."""
    if process.poll() is not None:
        return
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _stop_of(failures: Sequence[_Failure]) -> signal.Signals | None:
    """Return the signal that stopped a process, if that is the reason why the run ended."""
    codes = {failure.code for failure in failures if failure.ended_first}
    return next((number for number in stop_signals() if exit_code_of(number) in codes), None)


def _in_words(failures: Sequence[_Failure], max_restarts: int) -> str:
    failure = failures[0]
    if failure.code < 0:
        how = f"was killed by {signal.Signals(-failure.code).name}"
    else:
        how = f"exited with code {failure.code}, see its output"
    again = f", after {max_restarts} restart{'s' * (max_restarts > 1)}" if max_restarts else ""
    return (
        f"rank {failure.rank} (process {failure.pid}) {how} at {failure.time:%H:%M:%S}{again}; all processes "
        "have stopped"
    )
