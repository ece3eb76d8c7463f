"""Type inference with numba for a kernel function and, per call, for its device functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types
from numba.core import compiler, ir, typed_passes
from numba.core.compiler import StateDict
from numba.core.errors import TypingError
from numba.core.registry import cpu_target
from numba.core.rewrites.static_getitem import RewriteConstGetitems, RewriteConstSetitems
from numba.core.rewrites.static_raise import RewriteConstRaises
from numba.core.ssa import reconstruct_ssa
from numba.core.typing.templates import AbstractTemplate, Signature, signature
from numba.extending import typeof_impl

from warpdrive.backends.host import scalars
from warpdrive.backends.host.mathematics import replacement
from warpdrive.checks.helpers import HELPERS
from warpdrive.checks.linking import Linker
from warpdrive.kernels.compile_time import shape_parameters
from warpdrive.kernels.language import GRID_BARRIER, SHUFFLES, VOTES, WARP_FUNCTIONS
from warpdrive.kernels.source import FunctionSource

_REWRITES = (RewriteConstRaises, RewriteConstGetitems, RewriteConstSetitems)
"""Rewrites that numba needs before type inference: constants in ``raise`` and in indices."""


@dataclass
class TypedFunction:
    """Numba IR of a function, with the type of every variable and the signature of every operation."""

    source: FunctionSource
    code: Any
    types: Mapping[str, Any]
    signatures: Mapping[Any, Any]
    returns: Any

    @cached_property
    def definitions(self) -> dict[str, list[Any]]:
        """Values assigned to each variable, in order."""
        found: dict[str, list[Any]] = {}
        for _, block in sorted(self.code.blocks.items()):
            for statement in block.find_insts(ir.Assign):
                found.setdefault(statement.target.name, []).append(statement.value)
        return found


_in_progress: list[Any] = []
"""Syntax trees of the functions whose types are being inferred, from callers to callees."""


@dataclass(eq=False)
class StandIn:
    """Typeable replacement, in a linked function, of an intrinsic or a device function.

    ``others`` has the replacements of all device functions of the kernel, by their syntax trees.
    """

    path: str = ""
    source: FunctionSource | None = None
    others: dict[Any, StandIn] = field(default_factory=dict)
    typed: dict[tuple[Any, ...], TypedFunction] = field(default_factory=dict)

    def __repr__(self) -> str:  # used for the name of its type, which numba formats often
        return f"<{self.path}>"

    def signature_of(self, context: Any, arguments: tuple[Any, ...], words: Mapping[str, Any]) -> Signature | None:
        """Return the signature of a call, or None if the types do not match.

        Args:
            context: Numba's typing context.
            arguments: Types of the positional arguments.
            words: Types of the keyword arguments.

        Returns:
            The signature, or None.
        """
        if self.source is None:
            return _intrinsic_signature(context, self.path, arguments, words)
        given = dict(zip(self.source.parameters, arguments, strict=False)) | dict(words)
        given = {**{n: typed_argument(v) for n, v in self.source.defaults.items() if n not in given}, **given}
        if set(given) != set(self.source.parameters):
            return None
        shapes = shape_parameters(self.source)
        ordered = tuple(given[n] if n in shapes else types.unliteral(given[n]) for n in self.source.parameters)
        if ordered not in self.typed:
            if self.source.tree in _in_progress:
                raise TypingError(f"'{self.source.name}' calls itself")
            _in_progress.append(self.source.tree)
            try:
                self.typed[ordered] = infer(self.source, ordered, self.others)
            finally:
                _in_progress.pop()
        return signature(types.unliteral(self.typed[ordered].returns), *ordered)


_of_library: dict[Any, StandIn] = {}
"""Replacements of library functions, by their syntax trees: their types are inferred once for all kernels."""


@typeof_impl.register(StandIn)  # type: ignore[untyped-decorator]
def _type_of_stand_in(value: StandIn, context: Any) -> Any:
    class Template(AbstractTemplate):  # type: ignore[misc]
        key = value
        prefer_literal = True

        def generic(self, arguments: tuple[Any, ...], words: Mapping[str, Any]) -> Signature | None:
            return value.signature_of(self.context, arguments, words)

    return types.Function(Template)


def infer(
    source: FunctionSource, arguments: tuple[Any, ...], stand_ins: dict[Any, StandIn] | None = None
) -> TypedFunction:
    """Infer the types in a function.

    Args:
        source: The function.
        arguments: The types of its arguments.
        stand_ins: The replacements of the kernel's device functions, by their syntax trees; it is added to.

    Returns:
        The typed function.

    Raises:
        numba.core.errors.NumbaError: If types do not unify.
    """
    others = {} if stand_ins is None else stand_ins

    def stand_in(callee: FunctionSource) -> StandIn:
        known = _of_library if callee.file in HELPERS else others
        return known.setdefault(callee.tree, StandIn(callee.name, callee, known))

    linker = Linker(source, stand_in, _typed_intrinsic, replacement)
    typing_context, target_context = cpu_target.typing_context, cpu_target.target_context
    typing_context.refresh()
    code = compiler.run_frontend(linker.link())
    for rewrite in _REWRITES:
        found = rewrite(StateDict(func_ir=code))
        for label, block in list(code.blocks.items()):
            if found.match(code, block, None, None):
                code.blocks[label] = found.apply()
    code = reconstruct_ssa(code)
    inferred = typed_passes.type_inference_stage(typing_context, target_context, code, arguments, None)
    return TypedFunction(source, code, inferred.typemap, inferred.calltypes, inferred.return_type)


def typed_argument(value: Any) -> Any:
    """Return the numba type of an argument. Integers are literals, as they may be the shape of an array."""
    is_integer = isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))
    return types.literal(int(value)) if is_integer else numba.typeof(value)


class _Axes(NamedTuple):
    x: np.int32
    y: np.int32
    z: np.int32


_POSITION = _Axes(np.int32(0), np.int32(0), np.int32(0))


def _typed_intrinsic(path: str) -> Any:
    if path in ("threadIdx", "blockIdx", "blockDim", "gridDim"):
        return _POSITION
    if path in ("laneid", "warpsize"):
        return np.int32(32)
    return scalars.host_function(path) if scalars.home_of(path) else StandIn(path)


_OF_WARPS = {
    **dict.fromkeys(("ballot_sync", "match_any_sync"), types.int32),
    "match_all_sync": types.Tuple((types.int32, types.boolean)),
    "activemask": types.uint32,
}
"""Types of the results of the functions of a warp that are neither booleans nor those of their arguments."""


def _intrinsic_signature(
    context: Any, path: str, arguments: tuple[Any, ...], words: Mapping[str, Any]
) -> Signature | None:
    given = (*arguments, *words.values())
    if path in ("shared.array", "local.array"):
        names = dict(zip(("shape", "dtype"), arguments, strict=False)) | dict(words)
        shape, dtype = names["shape"], names["dtype"]
        rank = len(shape) if isinstance(shape, types.BaseTuple) else 1
        element = dtype.instance_type if isinstance(dtype, types.TypeRef) else dtype.dtype  # record or number
        return signature(types.Array(element, rank, "C"), *given)
    if path.startswith("atomic."):
        return signature(arguments[0].dtype, *given)
    if path in ("grid", "gridsize"):
        rank = arguments[0].literal_value
        return signature(types.int64 if rank == 1 else types.UniTuple(types.int64, rank), *given)
    if path in VOTES:
        return signature(types.int32, *given)
    if path in SHUFFLES:
        return signature(types.unliteral(given[1]), *given)
    if path in WARP_FUNCTIONS:
        return signature(_OF_WARPS.get(path, types.boolean), *given)
    if path == "lanemask_lt":
        return signature(types.uint32)
    if path == GRID_BARRIER or path.startswith(("threadfence", "sync")):
        return signature(types.none, *given)
    return signature(given[0], *given)  # const.array_like
