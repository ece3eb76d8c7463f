"""All checks of an environment that need no specification of its behaviour."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from warpdrive.arguments import check_within
from warpdrive.backends.interface import Backend
from warpdrive.checks.backends import check_backends, comparable_backends
from warpdrive.checks.behaviour import TOLERANCE, check_environment_behaviour
from warpdrive.checks.environment import check_environment_kernels, is_written_for
from warpdrive.checks.findings import Report
from warpdrive.checks.null_log import MAX_STEPS
from warpdrive.environment import Environment, check_environment as check_definition


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
    """Check the kernels of an environment access by access, then its behaviour, and compare backends.

    The parameters are those of :func:`~warpdrive.checks.environment.check_environment_kernels`, which runs for
    ``kernel_steps`` (if the kernels are Python), of :func:`~warpdrive.checks.behaviour.check_environment_behaviour`,
    which runs for ``steps`` on the first of the ``backends``, and of :func:`~warpdrive.checks.backends.check_backends`,
    which compares it with the others. The default backends are all that this machine can run, see
    :func:`~warpdrive.checks.backends.comparable_backends`. Behaviour is not checked for kernels with out-of-bounds
    accesses, which would corrupt other memory, or that do not end.

    Args:
        env: The environment.
        steps: Number of steps of the behaviour check, per replica.
        kernel_steps: Number of steps of the kernel check.
        replicas: Number of replicas of the kernel check; the others use twice as many.
        seed: Seed of start states and actions.
        nan: If True, report NaN and infinity written to arrays.
        backends: Backends to compare, or their names.
        tolerance: Largest allowed difference of floats, absolute and relative.
        on_step: Callback that is called after each step.
        max_steps: Maximum number of steps of a thread in a launch of the kernel check.

    Returns:
        The report.

    Raises:
        DefinitionError: If the environment or a number is not valid.
        KernelError: If a kernel cannot run.
    """
    check_definition(env)
    check_within(1, 1 << 31, steps=steps, kernel_steps=kernel_steps, replicas=replicas)
    report = Report()
    if is_written_for(env, "Python"):
        report.join(check_environment_kernels(env, kernel_steps, replicas, seed, nan, on_step, max_steps))
    else:
        report.note("its kernels are CUDA C: they were not interpreted")
    if report.bounds:
        report.note("its steps were not run, as its kernels access arrays out of bounds")
        return report
    if report.endless:
        report.note("its steps were not run, as its kernels do not end")
        return report
    backends = backends or comparable_backends(env) or ["auto"]
    report.join(check_environment_behaviour(env, steps, 2 * replicas, seed, backends[0], tolerance, on_step))
    report.join(check_backends(env, backends, steps, 2 * replicas, seed, tolerance, on_step))
    return report
