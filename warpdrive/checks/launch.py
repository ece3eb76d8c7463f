"""``wd.check_launch``: check of one launch in the interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from warpdrive.checks.access_log import AccessLog
from warpdrive.checks.advice import ENDLESS, WAITING
from warpdrive.checks.checked_interpreter import CheckedInterpreter
from warpdrive.checks.findings import Finding, Report
from warpdrive.checks.grid import Grid
from warpdrive.checks.helpers import HELPERS
from warpdrive.checks.language import check_text
from warpdrive.checks.memory import as_array, copies, named_arrays
from warpdrive.checks.null_log import MAX_STEPS, EndlessError, NullLog
from warpdrive.checks.schedules import Order, backwards, compare, others
from warpdrive.garbage_collection import no_garbage_collection
from warpdrive.kernels.kernel import Kernel, kernel
from warpdrive.kernels.source import FunctionSource


def check_launch(
    function: Any,
    blocks: Any,
    threads: Any,
    *arguments: Any,
    nan: bool = False,
    shared_bytes: int = 0,
    max_steps: int = MAX_STEPS,
) -> Report:
    """Check the launch ``function[blocks, threads](*arguments)``; the arguments are not modified.

    ```python
    report = wd.check_launch(kernel, 8, 128, np.zeros(1000, np.float32))
    assert report.clean, report
    ```

    Args:
        function: A ``wd.kernel``, a ``@cuda.jit`` function or a plain function.
        blocks: Number of blocks, or a sequence of up to three.
        threads: Number of threads per block, or a sequence of up to three.
        arguments: NumPy arrays, tensors and numbers.
        nan: If True, report NaN and infinity written to the arrays.
        shared_bytes: Size of dynamic shared memory in bytes.
        max_steps: Maximum number of steps of a thread, which are loop iterations and memory accesses; all threads of a
            block may take ten times as many together. A kernel that takes more is reported as endless.

    Returns:
        A report with the lists ``races``, ``bounds``, ``uninitialised``, ``divergence``, ``arithmetic``,
        ``conversions``, ``broadcasts``, ``float64``, ``order``, ``endless`` and ``nan``, and the property ``clean``.

    Raises:
        KernelError: If the kernel cannot run: it raises an exception, is not part of the kernel language, or does not
            match the arguments.
    """
    given = kernel(function)
    named = named_arguments(given, arguments)
    report = Report()
    grid = Grid.of(blocks, threads)
    check_text(given, grid, named, report, shared_bytes)
    launches = CheckedLaunches(given.source, grid, report, nan=nan, max_steps=max_steps, shared_bytes=shared_bytes)
    launches.check(dict(zip(named, copies(list(named.values())), strict=True)), others())
    return report


def named_arguments(kernel: Kernel, arguments: tuple[Any, ...], **named: Any) -> dict[str, Any]:
    """Return the arguments of a launch by parameter.

    Args:
        kernel: The kernel.
        arguments: Positional arguments of the launch.
        named: Keyword arguments of the launch.

    Returns:
        Array or number for each parameter, in the order of the parameters.

    Raises:
        KernelError: If the arguments do not match the parameters.
    """
    return dict(zip(kernel.parameters, map(as_array, kernel.arguments_of(arguments, named)), strict=True))


class CheckedLaunches:
    """Checked launches of one kernel on one grid.

    Args:
        source: The kernel.
        grid: Its blocks and threads.
        report: Report that findings are added to.
        nan: If True, report NaN and infinity.
        max_steps: Maximum number of steps of a thread in a launch.
        options: Options of :class:`warpdrive.checks.interpreter.Interpreter`.
    """

    def __init__(
        self,
        source: FunctionSource,
        grid: Grid,
        report: Report,
        *,
        nan: bool = False,
        max_steps: int = MAX_STEPS,
        **options: Any,
    ) -> None:
        self.source, self.grid, self.report, self.options = source, grid, report, options
        self.max_steps = max_steps
        self.log = AccessLog(report, grid, nan, HELPERS, max_steps=max_steps)
        self.interpreter = CheckedInterpreter(source, grid, self.log, **options)

    @cached_property
    def silent(self) -> CheckedInterpreter:
        """Interpreter that runs the kernel in other orders."""
        return CheckedInterpreter(self.source, self.grid, NullLog(self.grid, self.max_steps), **self.options)

    def check(self, arguments: Mapping[str, Any], orders: Mapping[str, Order]) -> None:
        """Run the kernel from the first to the last thread and report errors.

        If threads access one element without an order given by the program, the kernel also runs in other orders, on
        copies.
        """
        with no_garbage_collection():
            self._check(arguments, orders)

    def _check(self, arguments: Mapping[str, Any], orders: Mapping[str, Order]) -> None:
        before = copies(list(arguments.values()))
        try:
            self.interpreter.check(arguments)
        except EndlessError as error:
            try:
                self.interpreter.check(dict(zip(arguments, before, strict=True)), backwards)
            except EndlessError:
                self.report.add(Finding("endless", "", (), (), (), error.lines, str(error), ENDLESS))
            else:
                self._find_endless("from the first to the last", error)
            return
        if not self.log.order_matters:  # all orders give the same result
            return
        tried = list(orders.items())[: 1 if self.report.races else None]  # after a race, one is enough
        for name, order in tried:
            again = dict(zip(arguments, copies(before), strict=True))
            try:
                self.silent.check(again, order)
            except EndlessError as error:
                self._find_endless(name, error)
            else:
                arrays = {key: array for item in again.items() for key, array in named_arrays(*item).items()}
                compare(self.interpreter.arguments, arrays, name, self.report)

    def _find_endless(self, order: str, error: EndlessError) -> None:
        what = f"if blocks and threads run {order}, {error}"
        self.report.add(Finding("order", "", (), (), (), error.lines, what, WAITING))
