"""Device functions that vectorised loops call only where a lane needs them."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from llvmlite.binding import llvm_version_info
from numba import types
from numba.extending import intrinsic

LANES = (2, 4, 8, 16)
"""Lengths of the vectors for which there are vector versions of outlined functions."""


def outlined(function: Any) -> Any:
    """Return a compiled function without side effects as one that stays out of line in a vectorised loop.

    A loop that calls it inside an ``if`` is vectorised: a vector version returns at once where no lane takes the
    branch, and computes lane by lane otherwise. Inlined, all lanes would always compute the branch.

    Args:
        function: Dispatcher of a function of one scalar that returns a tuple of scalars.

    Returns:
        A numba intrinsic with the signature, ``py_func`` and ``targetoptions`` of the function; the function itself
        before LLVM 21, which does not vectorise calls that return several values.
    """
    if llvm_version_info < (21,):
        return function

    @intrinsic  # type: ignore[untyped-decorator]
    def call(typingctx: Any, argument: Any) -> Any:
        inner = typingctx.resolve_function_type(types.Dispatcher(function), (argument,), {})

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            compiled = function.overloads[inner.args]
            context.active_code_library.add_linking_library(compiled.library)
            name = f"{compiled.fndesc.mangled_name}.outlined"
            known = builder.module.globals.get(name)
            return builder.call(known or _outlined(context, builder.module, name, compiled.fndesc), args)

        return inner, codegen

    call.py_func, call.targetoptions = function.py_func, function.targetoptions
    return call


def _outlined(context: Any, module: Any, name: str, described: Any) -> Any:
    """Define a function of scalars declared to LLVM as pure, and its vector versions."""
    taken, given = (context.get_value_type(kind) for kind in (described.argtypes[0], described.restype))
    scalar = ir.Function(module, ir.FunctionType(given, [taken]), name)
    builder = ir.IRBuilder(scalar.append_basic_block())
    callee = context.declare_function(module, described)
    _, result = context.call_conv.call_function(builder, callee, described.restype, described.argtypes, scalar.args)
    builder.ret(result)
    versions = [_vector_version(module, scalar, lanes) for lanes in LANES]
    _set_pure(scalar, "noinline")
    variants = ",".join(f"_ZGV_LLVM_M{lanes}v_{name}({v.name})" for lanes, v in zip(LANES, versions, strict=True))
    set.add(scalar.attributes, f'"vector-function-abi-variant"="{variants}"')
    return scalar


def _set_pure(function: Any, inlining: str) -> None:
    """Declare a function of this module to LLVM as pure, and keep it even if it is not called yet."""
    function.linkage = "weak_odr"
    for attribute in (inlining, "readnone", "nounwind", "willreturn"):
        set.add(function.attributes, attribute)  # llvmlite does not know the last


def _vector_version(module: Any, scalar: Any, lanes: int) -> Any:
    """Define the version of a function for vectors and a mask of lanes."""
    given = ir.LiteralStructType([ir.VectorType(part, lanes) for part in scalar.function_type.return_type.elements])
    taken, mask = ir.VectorType(scalar.function_type.args[0], lanes), ir.VectorType(ir.IntType(1), lanes)
    lane_by_lane = ir.Function(module, ir.FunctionType(given, [taken]), f"{scalar.name}.lanes_{lanes}")
    builder = ir.IRBuilder(lane_by_lane.append_basic_block())
    result = ir.Constant(given, ir.Undefined)
    for lane in map(ir.IntType(32), range(lanes)):
        parts = builder.call(scalar, [builder.extract_element(lane_by_lane.args[0], lane)])
        for index in range(len(given.elements)):
            vector = builder.insert_element(
                builder.extract_value(result, index), builder.extract_value(parts, index), lane
            )
            result = builder.insert_value(result, vector, index)
    builder.ret(result)
    _set_pure(lane_by_lane, "noinline")

    version = ir.Function(module, ir.FunctionType(given, [taken, mask]), f"{scalar.name}.vector_{lanes}")
    builder = ir.IRBuilder(version.append_basic_block())
    bits = builder.bitcast(version.args[1], ir.IntType(lanes))
    with builder.if_then(builder.icmp_unsigned("!=", bits, bits.type(0)), likely=False):
        builder.ret(builder.call(lane_by_lane, [version.args[0]]))
    builder.ret(ir.Constant(given, ir.Undefined))
    _set_pure(version, "alwaysinline")
    return version
