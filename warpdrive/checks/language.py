"""Refuse what no backend compiles, before a kernel is run that only Python itself understands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from warpdrive.backends.arguments import ArgumentKind, baked_values, resolved_for
from warpdrive.kernels.dtypes import dtype_text
from warpdrive.kernels.kernel import Kernel
from warpdrive.kernels.lowering import lower


def check_language(kernel: Kernel, arguments: Mapping[str, Any]) -> None:
    """Raise :class:`KernelError`, with file and line, for what is not part of the kernel language.

    Args:
        kernel: the kernel.
        arguments: NumPy arrays, numbers, tuples and None, by parameter.
    """
    arrays = {name: value for name, value in arguments.items() if isinstance(value, np.ndarray)}
    kinds = {name: ArgumentKind(dtype_text(array.dtype), array.ndim) for name, array in arrays.items()}
    lower(resolved_for(kernel, baked_values(kernel, arguments), kinds), arrays)
