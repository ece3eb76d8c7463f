"""Check all that can be checked of an environment without knowing what it should do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from warpdrive.backends.interface import Backend
from warpdrive.checks.backends import check_backends, comparable_backends
from warpdrive.checks.behaviour import TOLERANCE, check_environment_behaviour
from warpdrive.checks.environment import check_environment_kernels, is_written_for
from warpdrive.checks.findings import Report
from warpdrive.checks.silent_log import MAX_STEPS
from warpdrive.environment import Environment
from warpdrive.environment import check_environment as check_definition


def check_environment(
    env: Environment,
    steps: int = 50,
    kernel_steps: int = 10,
    replicas: int = 2,
    seed: int = 0,
    nan: bool = False,
    backends: Sequence[str | Backend] | None = None,
    tolerance: float = TOLERANCE,
    on_step: Callable[[], None] = lambda: None,
    max_steps: int = MAX_STEPS,
) -> Report:
    """Run the kernels of an environment access by access, then play it, look at what it does, and compare backends.

    The parameters are those of :func:`~warpdrive.checks.environment.check_environment_kernels`, which runs for
    ``kernel_steps`` (if the kernels are Python), of :func:`~warpdrive.checks.behaviour.check_environment_behaviour`,
    which runs for ``steps`` on the first of the ``backends``, and of
    :func:`~warpdrive.checks.backends.check_backends`, which compares it with the others. By default these are all that
    this machine can run, see :func:`~warpdrive.checks.backends.comparable_backends`. What reaches outside of arrays is
    not played, as it would destroy other memory, nor is what does not end.

    Raises:
        DefinitionError: an environment that cannot work.
        KernelError: a kernel that cannot run.
    """
    check_definition(env)
    report = Report()
    if is_written_for(env, "Python"):
        report.join(check_environment_kernels(env, kernel_steps, replicas, seed, nan, on_step, max_steps))
    else:
        report.note("its kernels are CUDA C: they were not run access by access")
    if report.bounds:
        report.note("it was not played, as its kernels reach outside of arrays")
        return report
    if report.endless:
        report.note("it was not played, as its kernels do not end")
        return report
    backends = backends or comparable_backends(env) or ["auto"]
    report.join(check_environment_behaviour(env, steps, 2 * replicas, seed, backends[0], tolerance, on_step))
    report.join(check_backends(env, backends, steps, 2 * replicas, seed, tolerance, on_step))
    return report
