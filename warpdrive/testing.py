"""Helpers for tests of user-defined environments and kernels."""

from __future__ import annotations

from typing import Any

from warpdrive.checks import complete
from warpdrive.checks.environment import check_environment_kernels
from warpdrive.checks.findings import Report
from warpdrive.checks.parity import Difference, Parity, ParityReport, check_parity
from warpdrive.checks.references import Draws, GymnasiumReference, PettingZooReference, Reference
from warpdrive.environment import Environment

__all__ = [
    "Difference",
    "Draws",
    "GymnasiumReference",
    "Parity",
    "ParityReport",
    "PettingZooReference",
    "Reference",
    "check_environment",
    "check_kernels",
    "check_parity",
]


def check_environment(env: Environment, **options: Any) -> None:
    """Run all generic checks on an environment.

    ```python
    def test_my_game():
        wd.testing.check_environment(MyGame(num_agents=4))
    ```

    The kernels are checked as in :func:`check_kernels`. The environment is then played: observations must lie within
    their space, each episode must begin with observations of its start, equal seeds must give equal results, and the
    results must agree with ``reference_step``, if defined, and across backends.

    Args:
        env: The environment.
        **options: The options of :func:`warpdrive.checks.complete.check_environment`.

    Raises:
        AssertionError: If a check fails; the message lists all findings.
        DefinitionError: If the environment is invalid.
        KernelError: If a kernel cannot be compiled.
    """
    __tracebackhide__ = True
    _raise_unless_clean(complete.check_environment(env, **options), f"environment '{env.name}' failed its checks")


def check_kernels(env: Environment, steps: int = 10, replicas: int = 2, seed: int = 0, nan: bool = False) -> None:
    """Check the kernels of an environment: races, bounds, uninitialised memory, divergence, float64 and order.

    ```python
    def test_my_kernels():
        wd.testing.check_kernels(MyGame(num_agents=4))
    ```

    Args:
        env: The environment. The check is faster with few agents.
        steps: The number of steps with random actions.
        replicas: The number of replicas; two or more detect races between them.
        seed: The seed of start states and actions.
        nan: If True, report NaN and infinity written to arrays.

    Raises:
        AssertionError: If a check fails; the message lists all findings.
    """
    __tracebackhide__ = True
    _raise_unless_clean(
        check_environment_kernels(env, steps, replicas, seed, nan), f"the kernels of '{env.name}' failed their checks"
    )


def _raise_unless_clean(report: Report, title: str) -> None:
    __tracebackhide__ = True
    if not report.clean:
        raise AssertionError(f"{title}: {report}")
