"""Starts probes by forking a process that has imported everything: ``python -m warpdrive.training.autoscale.starter``.

PyTorch takes three seconds to be imported, which each of the thirty probes of a search would spend again. The process
that is forked reads the folder of a probe from its standard input, and writes the probe's number and, when that has
ended, its exit code. It touches no device: GPUs cannot be used by a process that was forked after they were.

Not ``multiprocessing``'s fork server: it imports the program's own main module again in each process, which must then
be written for that.
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


class Starter:
    """The process that is forked, and the way to it. It ends when this object is closed.

    Args:
        variables: of its environment, beside those of this process.
        cores: of the CPU that it and the probes may use; none: those of this process.
    """

    def __init__(self, variables: Mapping[str, str] | None = None, cores: Sequence[int] = ()) -> None:
        self._process = subprocess.Popen(
            module_command("warpdrive.training.autoscale.starter"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"OMP_WAIT_POLICY": "PASSIVE"} | os.environ | dict(variables or {}),  # as every command has it
        )
        if cores:
            with suppress(OSError, AttributeError):
                os.sched_setaffinity(self._process.pid, cores)

    @property
    def pid(self) -> int:
        """The number of the process that is forked."""
        return self._process.pid

    def start(self, folder: Path) -> Forked:
        """Start the probe of a folder.

        Raises:
            ChildProcessError: there is no process to fork: its last words.
        """
        assert self._process.stdin and self._process.stdout and self._process.stderr
        with suppress(OSError):
            print(folder, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            lines = self._process.stderr.read().splitlines() or ["nothing was said"]
            raise ChildProcessError(lines[-1])
        return Forked(int(answer), self._process)

    def close(self) -> None:
        """End the process."""
        with self._process:
            self._process.kill()

    def __enter__(self) -> Starter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class Forked:
    """A probe that was forked, with what it takes of ``subprocess.Popen`` to watch it."""

    def __init__(self, pid: int, parent: subprocess.Popen[str]) -> None:
        self.pid, self._parent = pid, parent
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, once there is one."""
        assert self._parent.stdout
        if self.returncode is None and select.select([self._parent.stdout], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self) -> int:
        """Wait for the exit code."""
        assert self._parent.stdout
        if self.returncode is None:
            answer = self._parent.stdout.readline()
            self.returncode = int(answer) if answer else -9  # whoever ended the parent has ended the child
        return self.returncode


def serve() -> None:
    """Fork for each folder that is named on the standard input."""
    os.setpgrp()  # Ctrl-C comes to whoever asks for probes, and ends them
    with suppress(ImportError):
        import torch._dynamo  # noqa: F401  which optimizers import when they are made
    from warpdrive.training.autoscale import probe

    gc.freeze()
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _become(probe.main, Path(line.rstrip("\n")))
        os.setpgid(pid, pid)  # here and there, as either may be first
        print(pid, flush=True)
        print(_exit_code(pid), flush=True)


def _exit_code(pid: int) -> int:
    """Wait for a probe. Where the standard input ends before, whoever asked for it is gone: then it is ended, too."""
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if select.select([sys.stdin], [], [], _BETWEEN_LOOKS)[0]:
            os.killpg(pid, signal.SIGKILL)
            sys.exit()


def _become(main: Callable[[Path], None], folder: Path) -> NoReturn:
    """Be a probe, and never return."""
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
    serve()
