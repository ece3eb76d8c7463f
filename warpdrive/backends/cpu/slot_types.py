"""Infer the types of the variables that live across barriers, which numba cannot see in one piece."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from types import FunctionType
from typing import Any

import numpy as np
from numba import types
from numba.core import compiler, typed_passes
from numba.core.registry import cpu_target
from numba.np.numpy_support import as_dtype

from warpdrive.backends.cpu.generate import Slot
from warpdrive.kernels.errors import refuse
from warpdrive.kernels.language import INDICES
from warpdrive.kernels.lowering import LoweredKernel
from warpdrive.kernels.syntax import GENERATED, IntrinsicName, stored_names, walk

_FLAGS = tuple(f"{GENERATED}{kind}_" for kind in ("guard", "returned", "broken", "continued"))


def known_slots(kernel: LoweredKernel) -> dict[str, Slot]:
    """Return the slots whose types need no inference: flags, and arrays in local memory."""
    slots = {name: Slot(name, "bool") for name in kernel.variables.kept if name.startswith(_FLAGS)}
    for node in walk(kernel.body):
        if isinstance(node, ast.Assign) and _is_local_array(node.value):
            for name in stored_names(node.targets) & set(kernel.variables.kept):
                shape, dtype = (argument.value for argument in node.value.args)  # type: ignore[attr-defined]
                slots[name] = Slot(name, dtype, shape)
    return slots


def infer_slots(kernel: LoweredKernel, twin: FunctionType, argument_types: Sequence[types.Type]) -> list[Slot]:
    """Return a slot for each variable that is kept between regions.

    ``twin`` is the kernel without its barriers; one variable has one type in all of it. Raises numba's errors where
    the types do not fit, and :class:`KernelError` for a variable of a type that cannot be kept.
    """
    known = known_slots(kernel)
    indices = [types.int64] * len(INDICES)
    typing_context, target_context = cpu_target.typing_context, cpu_target.target_context
    typing_context.refresh()
    code = compiler.run_frontend(twin)
    inferred = typed_passes.type_inference_stage(
        typing_context, target_context, code, tuple([*argument_types, *indices]), None
    ).typemap
    return [known.get(name) or Slot(name, _dtype(kernel, name, inferred[name]).name) for name in kernel.variables.kept]


def _dtype(kernel: LoweredKernel, name: str, kind: Any) -> np.dtype[Any]:
    kind = types.unliteral(kind)
    if isinstance(kind, (types.Number, types.Boolean)):
        return np.dtype(as_dtype(kind))
    stores = (node for node in walk(kernel.body) if isinstance(node, ast.stmt) and name in stored_names([node]))
    refuse(
        next(stores),
        f"'{name.removeprefix(GENERATED)}' is used after a barrier but holds {kind}: only numbers and local arrays "
        "can be kept across a barrier; take the view or tuple again after it",
    )


def _is_local_array(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, IntrinsicName) and node.func.path == "local.array"
