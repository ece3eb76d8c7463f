"""Infer the types of the variables that live across barriers, which numba cannot see in one piece."""

from __future__ import annotations

import ast
import re
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
    """Return the slots whose types need no inference: flags, and arrays in local memory.

    Raises :class:`KernelError` for a local array whose name does not always mean that array.
    """
    slots = {name: Slot(name, "bool") for name in kernel.variables.kept if name.startswith(_FLAGS)}
    stores = [node for node in walk(kernel.body) if isinstance(node, ast.stmt) and not hasattr(node, "body")]
    for node in stores:
        if isinstance(node, ast.Assign) and _is_local_array(node.value):
            for name in stored_names(node.targets) & set(kernel.variables.kept):
                shape, dtype = (argument.value for argument in node.value.args)  # type: ignore[attr-defined]
                slots[name] = Slot(name, dtype, shape)
                for other in stores:
                    if other is not node and name in stored_names([other]):
                        refuse(
                            other,
                            f"'{authors_name(name)}' is a local array and lives across a barrier: it must "
                            "be assigned once",
                        )
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
    slots = list(known.values())
    for name in kernel.variables.kept:
        if name in known:
            continue
        # numba gives the values that a variable takes one after the other types, and names, of their own
        kinds = [types.unliteral(kind) for key, kind in inferred.items() if re.fullmatch(rf"{name}(\.\d+)?", key)]
        kind = typing_context.unify_types(*kinds)
        slots.append(Slot(name, _dtype(kernel, name, kind or kinds[0]).name))
    return sorted(slots, key=lambda slot: slot.name)


def _dtype(kernel: LoweredKernel, name: str, kind: Any) -> np.dtype[Any]:
    if isinstance(kind, (types.Number, types.Boolean)):
        return np.dtype(as_dtype(kind))
    stores = (node for node in walk(kernel.body) if isinstance(node, ast.stmt) and name in stored_names([node]))
    refuse(
        next(stores),
        f"'{authors_name(name)}' is used after a barrier but holds {kind}: only numbers and local arrays "
        "can be kept across a barrier; take the view or tuple again after it",
    )


def authors_name(name: str) -> str:
    """Return what the author calls a variable that may have been renamed when its function was inlined."""
    return re.sub(rf"^{GENERATED}(own|\d+)_", "", name)


def _is_local_array(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, IntrinsicName) and node.func.path == "local.array"
