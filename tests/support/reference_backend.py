"""Slow reference backend: runs kernels in the interpreter of the checks, with the arithmetic of compiled kernels.

It shows what a new backend consists of: a class with the attributes and methods of the protocol, and an entry in the
table of backends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from warpdrive.backends.loading import Entry
from warpdrive.checks.checked_interpreter import CheckedInterpreter
from warpdrive.checks.grid import Grid
from warpdrive.checks.memory import as_array
from warpdrive.checks.null_log import NullLog
from warpdrive.kernels.fusion import Fusion


class ReferenceBackend:
    """Backend that interprets each thread of each replica, one after the other, up to its next barrier."""

    name = "reference"
    device = torch.device("cpu")
    language = "Python"

    def bind(self, fusion: Fusion, arguments: Mapping[str, Any], blocks: int, threads: int) -> Callable[[], None]:
        """Bind arguments to a fused kernel; see ``Backend``."""
        kernel, grid = fusion.kernel(), Grid.of(blocks, threads)
        given = {name: as_array(arguments[name]) for name in kernel.parameters}
        interpreter = CheckedInterpreter(kernel.source, grid, NullLog(grid))
        return lambda: interpreter.check(given)

    def replicas_at_once(self, fusion: Fusion, arguments: Mapping[str, Any], blocks: int, threads: int) -> int:
        """Return the number of replicas that run concurrently; see ``Backend``."""
        return 1


ENTRY = Entry("Python", ("cpu",), lambda process_id: ReferenceBackend(), lambda machine, process_id: ())
