"""Python functions that numba compiles as parts of intrinsics, with the arithmetic of kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core.compiler import Flags
from numba.core.typing.templates import Signature
from numba.extending import register_jitable

jitable = register_jitable(error_model="numpy")
"""Decorator of functions that such functions call."""


def call_subroutine(context: Any, builder: Any, function: Callable[..., Any], signature: Signature, args: Any) -> Any:
    """Emit the call of a Python function, in which a division by zero is infinite or NaN.

    Args:
        context: Numba's target context.
        builder: Builder of instructions.
        function: The function.
        signature: Types of the result and the arguments.
        args: Values of the arguments.

    Returns:
        The value of the call.
    """
    flags = Flags()
    flags.error_model = "numpy"
    compiled = context.compile_subroutine(builder, function, signature, flags=flags)
    return context.call_internal(builder, compiled.fndesc, signature, args)
