"""Comparison of an environment on all backends that this machine can run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from warpdrive.backends.interface import Backend
from warpdrive.backends.loading import backends_at_hand, load_backend
from warpdrive.checks import advice
from warpdrive.checks.agreement import RNG, Difference, Setting, compare
from warpdrive.checks.behaviour import TOLERANCE
from warpdrive.checks.environment import CheckingBackend, is_written_for
from warpdrive.checks.findings import Finding, Report
from warpdrive.environment import Environment, check_environment, kernel_functions

INTERPRETED_STEPS = 3
"""Number of steps compared with the interpreter, which is slow."""


def comparable_backends(env: Environment) -> list[Backend]:
    """Return the backends of this machine that run an environment.

    Without a usable GPU, CUDA C is compiled for the host. The last one is the interpreter of the checks, for kernel
    functions in Python. Raises :class:`DefinitionError` for an invalid environment.
    """
    check_environment(env)
    found = [*backends_at_hand(), CheckingBackend(Report())]
    return [backend for backend in found if is_written_for(env, backend.language)]


def check_backends(
    env: Environment,
    backends: Sequence[str | Backend],
    steps: int = 50,
    replicas: int = 4,
    seed: int = 0,
    tolerance: float = TOLERANCE,
    on_step: Callable[[], None] = lambda: None,
) -> Report:
    """Compare the first backend with each of the others, step by step from the same states with the same actions.

    Integers, flags and random numbers must be identical bit for bit. A decision based on a float may differ if the
    float is within the tolerance of the decision; a note reports it.

    Args:
        env: The environment.
        backends: Backends, or their names.
        steps: Number of steps per replica; the interpreter runs only a few.
        replicas: Number of replicas.
        seed: Seed of start states and actions.
        tolerance: Largest allowed difference of floats, absolute and relative.
        on_step: Callback that is called after the comparison with each backend.

    Returns:
        The report.

    Raises:
        DefinitionError: If the environment is not valid.
        KernelError: If a kernel cannot be compiled.
    """
    report = Report()
    loaded = [load_backend(backend) if isinstance(backend, str) else backend for backend in backends]
    for other in loaded[1:]:
        count = min(steps, INTERPRETED_STEPS) if isinstance(other, CheckingBackend) else steps
        settings = Setting(loaded[0], replicas), Setting(other, replicas)
        found = compare(lambda: env, *settings, tolerance, count, sampled=False, same_states=True, seed=seed)
        for difference in found.wrong:
            report.add(_finding(env, difference, loaded[0], other))
        if found.doubtful:
            report.note(
                f"{len(found.doubtful)} of {found.steps} steps diverged on '{other.name}' at a comparison of "
                f"floats, within the tolerance of {tolerance:g}; the first: {found.doubtful[0]}"
            )
        on_step()
    return report


def _finding(env: Environment, difference: Difference, ours: Backend, theirs: Backend) -> Finding:
    others = ", ".join(name for name in difference.arrays[1:] if "." not in name)
    message = (
        f"after step {difference.step} {difference.values}, on '{ours.name}' and on '{theirs.name}'"
        f"{f'; so differ {others}' if others else ''}"
    )
    steps = [kernel_functions(env, backend.language).step.where for backend in (ours, theirs)]
    what_to_do = advice.BACKENDS if steps[0] == steps[1] else advice.VERSIONS
    if difference.arrays[0] == RNG:
        what_to_do = advice.DRAWS
    places = tuple(dict.fromkeys(steps))
    return Finding("backends", difference.arrays[0], (), (), (difference.replica,), places, message, what_to_do)
