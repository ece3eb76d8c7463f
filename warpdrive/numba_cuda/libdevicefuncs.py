"""``numba.cuda.libdevicefuncs``: the functions of libdevice by their names there, with numba's types."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import from_dtype, types
from numba.core.typing.templates import Signature, signature

from warpdrive.kernels.libraries import FUNCTIONS

void = types.void
_WITHOUT_RESULT = ("sincos", "fast_sincos")
"""Beginnings of the names of functions that return nothing and write all results to addresses."""


class arg(NamedTuple):  # noqa: N801
    """Argument of a function: its name, its type, and True if a result is written to its address."""

    name: str
    ty: Any
    is_ptr: bool


def _described(name: str, results: str, arguments: str) -> tuple[Any, list[arg]]:
    first = 0 if name.startswith(_WITHOUT_RESULT) else 1
    given = [arg(word, _type(kind), False) for word, kind in zip("xyz", arguments, strict=False)]
    written = [arg(f"out{place}", _type(kind), True) for place, kind in enumerate(results[first:])]
    return (_type(results[0]) if first else void), [*given, *written]


def _type(kind: str) -> Any:
    return from_dtype(np.dtype(kind))


functions = {
    f"__nv_{name}": _described(name, *kinds)
    for path, kinds in FUNCTIONS.items()
    if path.startswith("libdevice.") and (name := path.removeprefix("libdevice."))
}
"""Type of the result and arguments of each function."""


def create_signature(retty: Any, args: list[arg]) -> Signature:
    """Return the signature of a function in kernels, where several results are a tuple."""
    results = [retty] * (retty != void) + [argument.ty for argument in args if argument.is_ptr]
    result = results[0] if len(results) == 1 else types.Tuple(tuple(results))
    return signature(result, *(argument.ty for argument in args if not argument.is_ptr))
