"""Fork server of probes: ``python -m warpdrive.training.autoscale.starter``.

Importing PyTorch takes three seconds, which each of the thirty probes of a search would repeat. The server reads
folders of probes from its standard input, and writes the process id of each probe and later its exit code. It uses no
device: CUDA cannot be used in a process forked after its initialisation.

The fork server of ``multiprocessing`` is not used because it imports the program's main module again in each process,
which must be written for that.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from warpdrive.importing import module_command

_BETWEEN_LOOKS = 0.02


class NewProcesses:
    """Starter of probes as new processes, on systems that cannot fork.

    Args:
        variables: Environment variables in addition to those of this process.
        cores: Ignored.
    """

    def __init__(self, variables: Mapping[str, str] | None = None, cores: Sequence[int] = ()) -> None:
        self._variables = _environment(variables)

    def start(self, folder: Path) -> subprocess.Popen[bytes]:
        """Start the probe of a folder."""
        with open(folder / "printed", "ab") as printed:
            return subprocess.Popen(
                [*module_command("warpdrive.training.autoscale.starter"), str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                env=self._variables,
            )

    def close(self) -> None:
        """Do nothing."""


class Starter:
    """Fork server and its pipes. The process ends when this object is closed.

    Args:
        variables: Environment variables in addition to those of this process.
        cores: CPU cores of the server and the probes; empty: those of this process.
    """

    def __init__(self, variables: Mapping[str, str] | None = None, cores: Sequence[int] = ()) -> None:
        self._process = subprocess.Popen(
            module_command("warpdrive.training.autoscale.starter"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=_environment(variables),
        )
        if cores:
            with suppress(OSError, AttributeError):
                os.sched_setaffinity(self._process.pid, cores)

    @property
    def pid(self) -> int:
        """Process id of the fork server."""
        return self._process.pid

    def start(self, folder: Path) -> Forked:
        """Start the probe of a folder.

        Raises:
            ChildProcessError: If the fork server has ended: contains its last output.
        """
        assert self._process.stdin and self._process.stdout and self._process.stderr
        with suppress(OSError):
            print(folder, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            lines = self._process.stderr.read().splitlines() or ["no output"]
            raise ChildProcessError(lines[-1])
        return Forked(int(answer), self._process)

    def close(self) -> None:
        """End the fork server."""
        with self._process:
            self._process.kill()

    def __enter__(self) -> Starter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _environment(variables: Mapping[str, str] | None) -> dict[str, str]:
    return {"OMP_WAIT_POLICY": "PASSIVE"} | dict(os.environ) | dict(variables or {})  # as for every command


class Forked:
    """Forked probe, with the subset of ``subprocess.Popen`` needed to watch it."""

    def __init__(self, pid: int, parent: subprocess.Popen[str]) -> None:
        self.pid, self._parent = pid, parent
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, or None while the probe is running."""
        assert self._parent.stdout
        if self.returncode is None and select.select([self._parent.stdout], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self) -> int:
        """Wait for the exit code and return it."""
        assert self._parent.stdout
        if self.returncode is None:
            answer = self._parent.stdout.readline()
            self.returncode = int(answer) if answer else -9  # the fork server was killed along with the child
        return self.returncode


def serve() -> None:
    """Fork a probe for each folder read from the standard input."""
    os.setpgrp()  # Ctrl-C reaches the parent only, which ends the probes
    with suppress(ImportError):
        import torch._dynamo  # noqa: F401  which optimizers import when they are made
    from warpdrive.training.autoscale import probe

    gc.freeze()
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _run_probe(probe.main, Path(line.rstrip("\n")))
        os.setpgid(pid, pid)  # in both processes, as either may be first
        print(pid, flush=True)
        print(_exit_code(pid), flush=True)


def _exit_code(pid: int) -> int:
    """Wait for a probe and return its exit code. If the standard input is closed before, end the probe."""
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if select.select([sys.stdin], [], [], _BETWEEN_LOOKS)[0]:
            os.killpg(pid, signal.SIGKILL)
            sys.exit()


def _run_probe(main: Callable[[Path], None], folder: Path) -> NoReturn:
    """Run as a probe; never returns."""
    code = 1
    try:
        os.setpgrp()
        for number, flags in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
            path = os.devnull if number == 0 else str(folder / "printed")
            file = os.open(path, flags | (os.O_CREAT | os.O_APPEND if number else 0), 0o644)
            os.dup2(file, number)
            os.close(file)
        main(folder)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    if sys.argv[1:]:
        from warpdrive.training.autoscale import probe

        probe.main(Path(sys.argv[1]))
    else:
        serve()
