"""``wd.check_launch``: run one launch in the interpreter and report what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warpdrive.checks import order
from warpdrive.checks.checked_machine import CheckedMachine
from warpdrive.checks.findings import Report
from warpdrive.checks.float64 import check_types
from warpdrive.checks.grid import Grid
from warpdrive.checks.memory import as_array, copies
from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.kernel import Kernel, kernel
from warpdrive.kernels.source import FunctionSource


def check_launch(
    function: Any, blocks: Any, threads: Any, *arguments: Any, nan: bool = False, shared_bytes: int = 0
) -> Report:
    """Check the launch ``function[blocks, threads](*arguments)``; the arguments are not modified.

    Args:
        function: a ``wd.kernel``, a ``@cuda.jit`` function or a plain function.
        blocks: the number of blocks, or up to three of them.
        threads: the number of threads of a block, or up to three of them.
        arguments: NumPy arrays, tensors and numbers.
        nan: whether to report NaN and infinity that are written to the arrays.
        shared_bytes: the size of dynamic shared memory.

    Returns:
        A report with the lists ``races``, ``bounds``, ``uninitialised``, ``divergence``, ``float64``, ``order`` and
        ``nan``, and whether it is ``clean``.

    Raises:
        KernelError: a kernel that cannot run: an exception in it, something that is not part of the kernel language,
            or arguments that do not fit.
    """
    given = kernel(function)
    named = named_arguments(given, arguments)
    report = Report()
    check_types(given.source, named, report)
    run_and_compare(
        given.source,
        Grid.of(blocks, threads),
        dict(zip(named, copies(list(named.values())), strict=True)),
        report,
        nan=nan,
        shared_bytes=shared_bytes,
    )
    return report


def named_arguments(kernel: Kernel, arguments: tuple[Any, ...]) -> dict[str, Any]:
    """Return the arguments of a launch by parameter. Raises :class:`KernelError` if their number does not fit."""
    parameters = kernel.parameters
    if len(arguments) != len(parameters):
        raise KernelError(
            f"{kernel.where}: kernel '{kernel.source.name}' takes {len(parameters)} arguments "
            f"({', '.join(parameters)}), found {len(arguments)}"
        )
    return dict(zip(parameters, map(as_array, arguments), strict=True))


def run_and_compare(
    source: FunctionSource, grid: Grid, arguments: Mapping[str, Any], report: Report, **options: Any
) -> None:
    """Run a kernel from first to last thread, and a second time on copies from last to first; report what is wrong."""
    backwards = dict(zip(arguments, copies(list(arguments.values())), strict=True))
    machine = CheckedMachine(source, grid, report, **options)
    machine.check(arguments)
    CheckedMachine(source, grid, report, backwards=True, **options).check(backwards)
    order.compare(machine.arguments, backwards, report)
