"""Arguments of a fused kernel in CUDA C: the struct that declares them, and its bytes.

Shapes are constants of the generated code, except for extents that change between runs: the number of replicas, and of
rollout steps.

``wd_extents_of_x`` holds the extents of the author's parameter ``x``, so that ``wd_index(x, env, agent)`` is computed
with constants.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from warpdrive.kernels.cuda_signature import c_type, is_array, is_constant
from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.fusion import ROLLOUT, SHARED

WORD = 8
"""Bytes per argument."""


def declarations(arguments: Mapping[str, Any], replicas: int) -> Iterator[str]:
    """Yield the member declarations of the struct."""
    for name, value in _members(arguments, replicas):
        star = "*" if is_array(value) else ""
        yield f"alignas({WORD}) {'const ' * is_constant(value)}{c_type(value)} {star}wd_{name};"


def argument_bytes(arguments: Mapping[str, Any], replicas: int) -> bytes:
    """Return the bytes of the struct, with the addresses of arrays, which must keep their memory."""
    return b"".join(_word(value) for _, value in _members(arguments, replicas))


def extents(name: str, array: Any, replicas: int) -> str:
    """Return the C++ type of the extents of a parameter's array."""
    varying = _varying(name, array, replicas)
    return f"wd_extents<{', '.join('wd_varies' if axis in varying else str(n) for axis, n in enumerate(array.shape))}>"


def view(name: str, array: Any, replicas: int) -> tuple[str, str]:
    """Return the C++ type of an array with its extents, and the expression that builds one from the struct ``given``.

    Args:
        name: Name of the parameter.
        array: The array.
        replicas: Number of replicas.

    Returns:
        The type and the expression.
    """
    values = ("0, 0", "given.wd_num_replicas, 0", f"given.{_length(name)}, given.wd_num_replicas")
    element = f"{'const ' * is_constant(array)}{c_type(array)}"
    return f"wd_array<{element}, {extents(name, array, replicas)}>", (
        f"{{given.wd_{name}, {{{values[len(_varying(name, array, replicas))]}}}}}"
    )


def _members(arguments: Mapping[str, Any], replicas: int) -> Iterator[tuple[str, Any]]:
    yield "num_replicas", np.int32(replicas)
    for name, value in arguments.items():
        if isinstance(value, torch.Tensor) and not value.is_contiguous():
            raise KernelError(f"array '{name}' is a view whose elements are not contiguous, as CUDA C requires")
        yield name, value
        if is_array(value) and len(_varying(name, value, replicas)) == 2:
            yield _length(name).removeprefix("wd_"), np.int32(value.shape[0])


def _length(name: str) -> str:
    return f"wd_length_of_{name}"


def _varying(name: str, array: Any, replicas: int) -> set[int]:
    """Return the axes whose extents vary: that of the replicas, and that of rollout steps if it precedes it."""
    if is_constant(array) or not array.shape or name.startswith(SHARED):  # of any length, also that of the replicas
        return set()
    if name.startswith(ROLLOUT) and len(array.shape) > 1 and array.shape[1] == replicas:
        return {0, 1}
    return {0} if array.shape[0] == replicas else set()


def _word(value: Any) -> bytes:
    if isinstance(value, torch.Tensor):
        value = np.uint64(value.data_ptr())
    elif isinstance(value, np.ndarray):
        value = np.uint64(value.ctypes.data)
    return bytes(value.tobytes().ljust(WORD, b"\0"))
