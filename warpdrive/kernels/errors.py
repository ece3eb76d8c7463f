"""Errors in kernel functions, told with the author's file and line."""

from __future__ import annotations

import ast
from typing import NoReturn

from warpdrive.errors import WarpDriveError


class KernelError(WarpDriveError):
    """A kernel function that cannot be compiled or launched. The message names its file and line."""


def refuse(node: ast.AST, message: str) -> NoReturn:
    """Raise a :class:`KernelError` that points at the place ``node`` was read from."""
    raise KernelError(f"{place(node)}: {message}")


def place(node: ast.AST) -> str:
    """Return ``file:line`` of a syntax node that :mod:`warpdrive.kernels.source` read."""
    return f"{getattr(node, 'file', '<unknown>')}:{getattr(node, 'lineno', '?')}"
