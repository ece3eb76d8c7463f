"""Errors in kernel functions, reported with the file and line of the user's source."""

from __future__ import annotations

import ast
from typing import NoReturn

from warpdrive.errors import WarpDriveError
from warpdrive.kernels.faults import Raised


class KernelError(WarpDriveError):
    """Error in the compilation or launch of a kernel function. The message names its file and line.

    Attributes:
        raised: The exception raised in the kernel, or None.
    """

    raised: Raised | None = None


def refuse(node: ast.AST, message: str) -> NoReturn:
    """Raise a :class:`KernelError` that points at the source location of ``node``."""
    raise KernelError(f"{place(node)}: {message}")


def place(node: ast.AST) -> str:
    """Return ``file:line`` of a syntax node that :mod:`warpdrive.kernels.source` read."""
    return f"{getattr(node, 'file', '<unknown>')}:{getattr(node, 'lineno', '?')}"
