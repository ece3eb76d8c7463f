"""Static checks of a kernel's source and types: unsupported constructs, and float64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from warpdrive.backends.cpu.launch import BoundKernel
from warpdrive.backends.shared.arguments import ArgumentKind, baked_values, resolved_for
from warpdrive.checks.findings import Report
from warpdrive.checks.float64 import check_types
from warpdrive.checks.grid import Grid
from warpdrive.kernels.configuration import Configuration
from warpdrive.kernels.dtypes import dtype_text
from warpdrive.kernels.kernel import Kernel
from warpdrive.kernels.lowering import lower


def check_text(
    kernel: Kernel,
    grid: Grid,
    arguments: Mapping[str, Any],
    report: Report,
    shared_bytes: int = 0,
    is_fused: bool = False,
) -> None:
    """Check a kernel without running it.

    Args:
        kernel: The kernel.
        grid: Its blocks and threads.
        arguments: NumPy array, number, tuple or None for each parameter, by name.
        report: Report that float64 findings are added to.
        shared_bytes: Size of dynamic shared memory in bytes.
        is_fused: If True, the kernel is that of an environment.

    Raises:
        KernelError: If a construct is not part of the kernel language, or types do not match; the message has the file
            and line.
    """
    kinds = kinds_of(arguments)
    resolved = resolved_for(kernel, baked_values(kernel, arguments), kinds)
    if is_fused:
        resolved.check_fusible()
    lower(resolved, kinds)
    if not check_types(kernel.source, arguments, report):  # compilation then raises the error, if any
        BoundKernel(kernel, arguments, Configuration(grid.blocks, grid.threads, shared_bytes=shared_bytes))


def kinds_of(arguments: Mapping[str, Any]) -> dict[str, ArgumentKind]:
    """Return the kinds of the arrays among the arguments of a launch, by name."""
    arrays = {name: value for name, value in arguments.items() if isinstance(value, np.ndarray)}
    return {name: ArgumentKind(dtype_text(array.dtype), array.ndim) for name, array in arrays.items()}
