"""Checks of an environment's kernels as they run in it: fused with the library's own, over steps and resets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import cycle
from typing import Any

import numpy as np
import torch

from warpdrive.checks.advice import WIDE_STATE
from warpdrive.checks.findings import Report
from warpdrive.checks.grid import Grid
from warpdrive.checks.helpers import is_of_library
from warpdrive.checks.language import check_text
from warpdrive.checks.launch import CheckedLaunches
from warpdrive.checks.memory import as_array
from warpdrive.checks.null_log import MAX_STEPS
from warpdrive.checks.schedules import others
from warpdrive.env_wrapper import EnvWrapper
from warpdrive.environment import Environment, kernel_functions
from warpdrive.errors import DefinitionError
from warpdrive.kernels.fusion import Fusion
from warpdrive.scene.artist import scenery_of


class CheckingBackend:
    """Backend that interprets kernels and reports errors in them.

    Args:
        report: Report that findings are added to.
        nan: If True, report NaN and infinity written to arrays.
        max_steps: Maximum number of steps of a thread in a launch.
    """

    name = "interpreter"
    device = torch.device("cpu")
    language = "Python"

    def __init__(self, report: Report, nan: bool = False, max_steps: int = MAX_STEPS) -> None:
        self.report, self.nan, self.max_steps = report, nan, max_steps

    def bind(self, fusion: Fusion, arguments: Mapping[str, Any], blocks: int, threads: int) -> Callable[[], None]:
        """Bind arguments to a fused kernel; see :class:`warpdrive.backends.interface.Backend`."""
        kernel = fusion.kernel()
        grid = Grid.of(blocks, threads)
        given = {name: as_array(arguments[name]) for name in kernel.parameters}
        check_text(kernel, grid, given, self.report, is_fused=True)
        for name, value in given.items():
            if getattr(value, "dtype", None) == np.float64 and not is_of_library(name):
                self.report.note(WIDE_STATE.format(name=name))
        launches = CheckedLaunches(
            kernel.source, grid, self.report, nan=self.nan, max_steps=self.max_steps, is_fused=True
        )
        orders = cycle(others().items())  # one other order in each launch

        def launch() -> None:
            if not self.report.endless:  # otherwise every launch would run to the step limit
                launches.check(given, dict([next(orders)]))

        return launch

    def replicas_at_once(self, fusion: Fusion, arguments: Mapping[str, Any], blocks: int, threads: int) -> int:
        """Return the number of replicas that run concurrently; see :class:`warpdrive.backends.interface.Backend`."""
        return 1


def is_written_for(env: Environment, language: str) -> bool:
    """Return True if an environment has kernel functions in ``"Python"`` or ``"CUDA C"``."""
    try:
        kernel_functions(env, language)
    except DefinitionError:
        return False
    return True


def check_environment_kernels(
    env: Environment,
    steps: int = 10,
    replicas: int = 2,
    seed: int = 0,
    nan: bool = False,
    on_step: Callable[[], None] = lambda: None,
    max_steps: int = MAX_STEPS,
) -> Report:
    """Check an environment over some steps with random actions, in which every replica also ends an episode.

    ``draw`` and ``draw_things`` draw the states before each step and after the last one, and ``scenery`` the first.

    Args:
        env: The environment. The check is faster with few agents.
        steps: Number of steps; episodes are advanced so that their time limit falls within them.
        replicas: Number of replicas: two or more, so that races between them are detected.
        seed: Seed of start states and actions.
        nan: If True, report NaN and infinity written to arrays.
        on_step: Callback that is called after each step.
        max_steps: Maximum number of steps of a thread in a launch, as in :func:`~warpdrive.checks.launch.check_launch`.

    Returns:
        The report.

    Raises:
        DefinitionError: If the environment is not valid.
        KernelError: If a kernel cannot run.
    """
    report = Report()
    wrapper = EnvWrapper(env, replicas, CheckingBackend(report, nan, max_steps), seed)
    ends = np.random.default_rng(seed).integers(0, max(1, min(steps, env.episode_length)), replicas)
    wrapper.ctx["timestep"].copy_(torch.from_numpy((env.episode_length - 1 - ends).astype(np.int32)))
    rollout = wrapper.allocate_rollout(steps)
    pictures = Report()
    draw = _drawing(wrapper, CheckingBackend(pictures, nan, max_steps))
    for _ in range(steps):
        draw()
        wrapper.step_rollout(rollout)
        on_step()
    draw()
    wrapper.close()
    pictures.float64.clear()  # pictures need no speed
    pictures.notes.clear()
    report.join(pictures)
    return report


def _drawing(wrapper: EnvWrapper, backend: CheckingBackend) -> Callable[[], None]:
    """Check the scenery of the first state, and return a function that draws all replicas with a backend."""
    if wrapper.env.draw is None:
        return lambda: None
    scenery_of(wrapper.env, wrapper.state())
    launch = wrapper.kernels_of_a_game()["draw"].bind(backend, wrapper.num_agents)

    def draw() -> None:
        for name in ("shapes", "things"):
            if name in wrapper.ctx:
                wrapper.ctx[name].zero_()
        launch()

    return draw
