"""Processes that run programs without the second or two in which each would import and initialise numba and PyTorch.

Where processes can be forked, a server that has done so forks them; it has neither imported the library nor compiled
anything of it.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
from collections.abc import Mapping
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from unittest.mock import patch


class ForkedProgram:
    """A running program. Its output goes to a file.

    Args:
        path: The program.
        output: The file, which is created.
        environment: Environment variables that differ from those of the server; numba has read its own before.
    """

    def __init__(self, path: Path, output: Path, environment: Mapping[str, str]) -> None:
        self._output = output
        self._process: BaseProcess = _context().Process(target=_run, args=(str(path), str(output), dict(environment)))
        self._process.start()

    def result(self, timeout: float) -> tuple[int | None, str]:
        """Wait for the end; return the exit code and all that was printed."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            self._process.kill()
        return self._process.exitcode, self._output.read_text()


def _context() -> ForkServerContext | SpawnContext:
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    from multiprocessing import forkserver

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([f"{__name__}_preloaded"])
    with patch.dict(os.environ, PYTHONPATH=str(Path(__file__).parent)):
        forkserver.ensure_running()
    return context


def _run(path: str, output: str, environment: dict[str, str]) -> None:
    file = os.open(output, os.O_WRONLY | os.O_CREAT)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.environ.update(environment)
    assert "warpdrive" not in sys.modules
    runpy.run_path(path, run_name="__main__")
