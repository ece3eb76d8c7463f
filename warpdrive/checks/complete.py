"""Check all that can be checked of an environment without knowing what it should do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from warpdrive.backends.interface import Backend
from warpdrive.checks.behaviour import TOLERANCE, check_environment_behaviour
from warpdrive.checks.environment import check_environment_kernels
from warpdrive.checks.findings import Report
from warpdrive.environment import Environment


def check_environment(
    env: Environment,
    steps: int = 50,
    kernel_steps: int = 10,
    replicas: int = 2,
    seed: int = 0,
    nan: bool = False,
    backends: Sequence[str | Backend] = ("auto",),
    tolerance: float = TOLERANCE,
    on_step: Callable[[], None] = lambda: None,
) -> Report:
    """Run the kernels of an environment access by access, then play it and look at what it does.

    The parameters are those of :func:`~warpdrive.checks.environment.check_environment_kernels`, which runs for
    ``kernel_steps``, and of :func:`~warpdrive.checks.behaviour.check_environment_behaviour`, which runs for ``steps``.
    What reaches outside of arrays is not played, as it would destroy other memory.

    Raises:
        DefinitionError: an environment that cannot work.
        KernelError: a kernel that cannot run.
    """
    report = check_environment_kernels(env, kernel_steps, replicas, seed, nan, on_step)
    if report.bounds:
        report.note("it was not played, as its kernels reach outside of arrays")
    else:
        report.join(check_environment_behaviour(env, steps, 2 * replicas, seed, backends, tolerance, on_step))
    return report
