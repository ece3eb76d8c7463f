"""Look at a kernel's text and types before it is run: refuse what no backend compiles, and report float64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from warpdrive.backends.arguments import ArgumentKind, baked_values, resolved_for
from warpdrive.backends.cpu.launch import BoundKernel
from warpdrive.checks.findings import Report
from warpdrive.checks.float64 import check_types
from warpdrive.checks.grid import Grid
from warpdrive.kernels.configuration import Configuration
from warpdrive.kernels.dtypes import dtype_text
from warpdrive.kernels.kernel import Kernel
from warpdrive.kernels.lowering import lower


def check_text(kernel: Kernel, grid: Grid, arguments: Mapping[str, Any], report: Report, shared_bytes: int = 0) -> None:
    """Check what can be seen of a kernel without running it.

    Args:
        kernel: the kernel.
        grid: its blocks and threads.
        arguments: NumPy arrays, numbers, tuples and None, by parameter.
        report: where float64 is reported.
        shared_bytes: the size of dynamic shared memory.

    Raises:
        KernelError: with file and line, for what is not part of the kernel language, and types that do not fit.
    """
    arrays = {name: value for name, value in arguments.items() if isinstance(value, np.ndarray)}
    kinds = {name: ArgumentKind(dtype_text(array.dtype), array.ndim) for name, array in arrays.items()}
    lower(resolved_for(kernel, baked_values(kernel, arguments), kinds), arrays)
    if not check_types(kernel.source, arguments, report):  # then compiling it tells what is wrong, if anything is
        BoundKernel(kernel, arguments, Configuration(grid.blocks, grid.threads, shared_bytes=shared_bytes))
