"""Help for tests of users' own environments and kernels."""

from __future__ import annotations

from warpdrive.checks.environment import check_environment_kernels
from warpdrive.environment import Environment


def check_kernels(env: Environment, steps: int = 10, replicas: int = 2, seed: int = 0, nan: bool = False) -> None:
    """Check the kernels of an environment: races, bounds, uninitialised memory, divergence, float64 and order.

    In a test::

        def test_my_kernels():
            warpdrive.testing.check_kernels(MyGame(num_agents=4))

    The parameters are those of :func:`warpdrive.checks.environment.check_environment_kernels`.

    Raises:
        AssertionError: something was found; the message lists it.
    """
    __tracebackhide__ = True
    report = check_environment_kernels(env, steps, replicas, seed, nan)
    if not report.clean:
        raise AssertionError(f"the kernels of '{env.name}' are not clean: {report}")
