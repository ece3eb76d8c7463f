"""Plugin of pytest, part of ``-p warpdrive.numba_cuda``: tests fail if the kernels that they launch have errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from warpdrive.checks.program_options import OPTIONAL, STEPS

NAME = "--check-launches"


class CheckedTests:
    """Checks of the launches of each test.

    Args:
        kinds: Kinds of findings to report in addition to the usual ones.
        steps: Number of steps for which the launches of a kernel are interpreted in a test; 0 for no limit.
    """

    def __init__(self, kinds: Sequence[str] = (), steps: int = STEPS) -> None:
        self.kinds, self.steps = kinds, steps
        self.limited: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Check all launches of a test, of its fixtures, too."""
        from warpdrive.checks.programs import Checks  # which imports numba.cuda

        self.checks = Checks(self.kinds, self.steps)
        with self.checks.active():
            result = yield
        self.limited |= {name for (name, _), kernel in self.checks.coverage.items() if kernel.whole < kernel.launches}
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        """Fail a test that has passed, but whose kernels have errors."""
        result = yield
        if not self.checks.is_clean:
            pytest.fail("\n\n".join(map(str, self.checks.found.values())), pytrace=False)
        return result

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Report the kernels of which not all launches were checked."""
        if self.limited:
            names = ", ".join(sorted(self.limited))
            terminalreporter.write_line(
                f"{NAME}: not all launches were checked of {names} (--check-steps 0 checks all)"
            )


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("warpdrive", "kernels of numba.cuda, run by warpdrive")
    group.addoption(
        NAME,
        nargs="?",
        const="",
        default=None,
        metavar="KINDS",
        help="fail tests whose kernels have data races, indices out of bounds, divergent barriers and the like; "
        f"--check-launches={','.join(OPTIONAL)} also reports these kinds",
    )
    group.addoption(
        "--check-steps",
        type=int,
        default=STEPS,
        metavar="N",
        help=f"steps for which the launches of a kernel are interpreted in a test (default: {STEPS:,}; 0: no limit)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Check launches if the option is given. Raises :class:`pytest.UsageError` for an unknown kind."""
    given = config.getoption("check_launches")
    if given is None:
        return
    kinds = [kind for kind in given.split(",") if kind]
    for kind in kinds:
        if kind not in OPTIONAL:
            raise pytest.UsageError(f"{NAME}={given}: expected {' or '.join(OPTIONAL)}, found '{kind}'")
    config.pluginmanager.register(CheckedTests(kinds, config.getoption("check_steps")), "warpdrive-check-launches")
