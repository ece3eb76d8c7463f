"""Lines of an environment's kernels that wrote the elements of arrays last, found by interpreting a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import numpy.typing as npt
import torch

from warpdrive.checks.advice import source_line
from warpdrive.checks.environment import CheckingBackend, is_written_for
from warpdrive.checks.findings import Report
from warpdrive.checks.grid import Grid
from warpdrive.checks.launch import CheckedLaunches
from warpdrive.checks.memory import Block, as_array
from warpdrive.env_wrapper import EnvWrapper
from warpdrive.environment import Environment
from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.fusion import Fusion
from warpdrive.spaces import action_arrays, nested

Array = npt.NDArray[Any]

LONGEST = 100_000
"""Number of loop iterations and memory accesses of a thread up to which a step is interpreted."""


class _LineBackend(CheckingBackend):
    """Backend that interprets a launch and keeps the line that wrote each element last."""

    def __init__(self) -> None:
        super().__init__(Report(), max_steps=LONGEST)
        self.launches: list[CheckedLaunches] = []

    def bind(self, fusion: Fusion, arguments: Mapping[str, Any], blocks: int, threads: int) -> Callable[[], None]:
        """Bind arguments to a fused kernel; see :class:`warpdrive.backends.interface.Backend`."""
        kernel = fusion.kernel()
        given = {name: as_array(arguments[name]) for name in kernel.parameters}
        launches = CheckedLaunches(kernel.source, Grid.of(blocks, threads), self.report, max_steps=self.max_steps)
        self.launches.append(launches)
        return lambda: launches.interpreter.check(given)


class LastWrites:
    """Lines that wrote the elements of the arrays in one step of a replica; those of the last step are kept.

    Args:
        env: The environment.
    """

    def __init__(self, env: Environment) -> None:
        self.env = env
        self._step: tuple[bytes, ...] = ()
        self._written: dict[str, Block] = {}

    def line_of(self, name: str, index: tuple[int, ...], saved: torch.Tensor, actions: Mapping[str, Array]) -> str:
        """Return ``file:line`` of the last write of an element in one step from a state; empty if there is none.

        Args:
            name: The name of the array.
            index: The index of the element, for one replica.
            saved: The state of the replica before the step, ``[bytes]`` uint8.
            actions: Its actions, by name.
        """
        if not is_written_for(self.env, "Python"):
            return ""
        step = saved.numpy().tobytes(), *(array.tobytes() for array in actions.values())
        if step != self._step:
            self._step, self._written = step, self._interpreted(saved, actions)
        if name not in self._written:
            return ""
        block, found = self._written[name], ""
        for address, (code, number) in block.writers.items():
            if block.index_of(address) == (0, *index):
                found = f"{code.co_filename}:{number}"
        return found if source_line(found) else ""

    def _interpreted(self, saved: torch.Tensor, actions: Mapping[str, Array]) -> dict[str, Block]:
        """Return the arrays of an interpreted step, with the lines that wrote their elements; none if it is long."""
        backend = _LineBackend()
        try:
            with closing(EnvWrapper(self.env, 1, backend, auto_reset=False)) as wrapper:
                wrapper.ctx.load_state(saved[None])
                backend.launches.clear()
                wrapper.step(nested(action_arrays(self.env), lambda array: actions[array.name][None]))
        except KernelError:  # of a check: the kernels have been compiled
            return {}
        return {block.name: block for each in backend.launches for block in each.interpreter.arguments.values()}
