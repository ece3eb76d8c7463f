"""Type inference for variables that are live across barriers."""

from __future__ import annotations

import ast
import os
import pickle
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core import compiler
from numba.core.registry import cpu_target
from numba.np.numpy_support import as_dtype

from warpdrive.backends.host.compiler import EntryCompiler
from warpdrive.backends.host.functions import generate_functions, generate_typing_twin
from warpdrive.backends.host.kept_values import bytes_of, is_kept
from warpdrive.backends.shared import cache
from warpdrive.backends.shared.arguments import ArgumentKind
from warpdrive.backends.shared.module_writer import GeneratedModule
from warpdrive.backends.shared.slots import Slot
from warpdrive.kernels.classes import authors_class
from warpdrive.kernels.dtypes import dtype_of
from warpdrive.kernels.errors import refuse
from warpdrive.kernels.language import INDICES
from warpdrive.kernels.local_arrays import is_local_array
from warpdrive.kernels.lowering import LoweredKernel, ResolvedKernel, lower
from warpdrive.kernels.syntax import GENERATED, stored_names, walk
from warpdrive.kernels.versions import Naming

_FLAGS = tuple(f"{GENERATED}{kind}_" for kind in ("guard", "returned", "broken", "continued", "test"))


def known_slots(kernel: LoweredKernel) -> dict[str, Slot]:
    """Return the slots of kept variables whose types need no inference: flags, and arrays in local memory."""
    flags = {name: Slot(name, "bool") for name in kernel.variables.kept if name.startswith(_FLAGS)}
    return flags | {name: slot for name, slot in _local_arrays(kernel).items() if name in kernel.variables.kept}


def _local_arrays(kernel: LoweredKernel) -> dict[str, Slot]:
    slots = {}
    for node in walk(kernel.body):
        if isinstance(node, ast.Assign) and is_local_array(node.value):
            (name,) = stored_names(node.targets)
            shape, dtype = (argument.value for argument in node.value.args)  # type: ignore[attr-defined]
            slots[name] = Slot(name, dtype, shape)
    return slots


def infer_types(twin: FunctionType, argument_types: Sequence[types.Type]) -> dict[str, types.Type]:
    """Return the type of each variable of ``twin``, a kernel without its barriers whose variables are versions.

    Raises numba's errors if the types do not unify.
    """
    kinds: dict[str, list[types.Type]] = {}
    for key, kind in _inferred_types(twin, (*argument_types, *[types.int64] * len(INDICES))).items():
        if not key.startswith("$"):  # temporaries of numba's
            # numba gives successive values of a variable separate types, and names
            kinds.setdefault(re.sub(r"\.\d+$", "", key), []).append(types.unliteral(kind))
    return {name: cpu_target.typing_context.unify_types(*found) or found[0] for name, found in kinds.items()}


def merge_by_type(kinds: Mapping[str, types.Type]) -> Naming:
    """Return the naming in which versions of a variable with the same type share a name."""

    def naming(versions: Sequence[str]) -> Sequence[int]:
        first: dict[Any, int] = {}
        return [first.setdefault(kinds.get(name, name), place) for place, name in enumerate(versions)]

    return naming


def slots_of(kernel: LoweredKernel, kinds: Mapping[str, types.Type]) -> list[Slot]:
    """Return a slot for each variable that is kept between regions.

    Raises :class:`KernelError` for a variable of a type that cannot be kept.
    """
    slots = known_slots(kernel)
    for name in kernel.variables.kept:
        if name not in slots:
            slots[name] = _slot(kernel, name, kinds.get(name, types.int64))  # int64 in unreachable code
    if any(slot.kind for slot in slots.values()):  # a kept value may refer to any local array
        slots |= _local_arrays(kernel)
    return sorted(slots.values(), key=lambda slot: slot.name)


def _inferred_types(function: FunctionType, arguments: tuple[types.Type, ...]) -> Mapping[str, types.Type]:
    """Return the types of a function's variables, as numba's type inference determines them."""
    typing_context = cpu_target.typing_context
    flags = compiler.Flags()
    flags.error_model = "numpy"
    return EntryCompiler(typing_context, cpu_target.target_context, None, arguments, None, flags, {}).infer_types(
        function
    )


def _slot(kernel: LoweredKernel, name: str, kind: Any) -> Slot:
    if isinstance(kind, (types.Number, types.Boolean)):
        return Slot(name, np.dtype(as_dtype(kind)).name)
    if is_kept(kind):
        return Slot(name, "uint8", (bytes_of(kind),), pickle.dumps(kind))
    stores = (node for node in walk(kernel.body) if isinstance(node, ast.stmt) and name in stored_names([node]))
    refuse(
        next(stores),
        f"'{authors_name(name)}' is used after a barrier but holds {kind}: only numbers, arrays, views, records and "
        "tuples of them can be kept across a barrier",
    )


def authors_name(name: str) -> str:
    """Return the author's name of a variable that may have been renamed when its function was inlined."""
    return re.sub(rf"^({GENERATED}(own|\d+|[av]\d+)_)+", "", name)


def lower_with_slots(
    key: str,
    kernel: ResolvedKernel,
    kinds: Mapping[str, ArgumentKind],
    origins: dict[str, GeneratedModule],
    on_cpu: bool = False,
) -> tuple[LoweredKernel, list[Slot]]:
    """Split a kernel into regions, and return a slot for each variable that is kept between them.

    Unknown types are inferred from the kernel without its barriers, in which each version of a variable has a type of
    its own. Versions of one type then share a variable.

    Args:
        key: Cache key of the kernel.
        kernel: The kernel, with its names resolved.
        kinds: Kind of each parameter, by name.
        origins: Generated modules by name, to which the modules made for type inference are added.
        on_cpu: See :func:`warpdrive.kernels.lowering.lower`.

    Returns:
        The lowered kernel and the slots of its kept variables.
    """
    lowered = lower(kernel, array_names(kinds), on_cpu=on_cpu)
    known = known_slots(lowered)
    in_stages = kernel.grid_barrier is not None  # then the variables of blocks are kept, too
    if set(known) == set(lowered.variables.kept) and not (in_stages and lowered.block_variables):
        return lowered, list(known.values())
    functions = generate_functions(lowered)
    functions_module = cache.module_name(key, "functions")
    twin = generate_typing_twin(lowered, functions_module)
    origins |= {"functions": functions, "twin": twin}
    own = f"{key}-{os.getpid()}"  # the shared folder is created only when complete
    cache.store(own, {"functions.py": functions.text})
    cache.import_file(functions_module, cache.path(own, "functions.py"))
    cache.discard(own)
    inferred = infer_types(_twin_function(twin), [_numba_type(kind) for kind in kinds.values()])
    lowered = lower(kernel, array_names(kinds), merge_by_type(inferred), on_cpu)
    slots = slots_of(lowered, inferred)
    if in_stages:
        of_blocks = (_slot(lowered, name, inferred.get(name, types.int64)) for name in lowered.block_variables)
        slots += [replace(slot, is_of_block=True) for slot in of_blocks]
    return lowered, slots


def array_names(kinds: Mapping[str, ArgumentKind]) -> list[str]:
    """Return the names of the parameters that are arrays."""
    return [name for name, kind in kinds.items() if kind.rank is not None]


def _twin_function(twin: GeneratedModule) -> Any:
    namespace: dict[str, Any] = {}
    exec(compile(twin.text, "<twin>", "exec"), namespace)
    return namespace["twin"]


def _numba_type(kind: ArgumentKind) -> types.Type:
    if kind.parts is not None:
        named = kind.named
        made = None if named is None else authors_class(named.base, named.name, named.members)
        return types.BaseTuple.from_types([_numba_type(part) for part in kind.parts], made)
    if not kind.dtype:
        return types.none
    element = numba.from_dtype(dtype_of(kind.dtype))
    return element if kind.rank is None else types.Array(element, kind.rank, kind.layout, readonly=kind.readonly)
