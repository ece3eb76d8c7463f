"""Atomic operations of ``numba.cuda`` for generated CPU code: atomic between blocks on different cores.

Each takes the arguments of its ``numba.cuda`` counterpart, for the same dtypes, and returns the old value of the
element. All have acquire-release ordering, which costs nothing on x86 and which kernels written for GPUs rely on.

Operations that x86 has as one instruction are compiled to it instead of a loop of compare-and-swap. Minimum and maximum
only read an element that stays the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from warpdrive.kernels.language import ATOMIC_DTYPES

Change = Callable[[Any, Any, Any, Any], Any]
"""``(builder, dtype, address, value) -> old value``: code generator that updates the element at an address."""


def _native(operation: str, of_floats: str = "") -> Change:
    """Return an update that is one LLVM instruction, which may have another name for floats."""

    def change(builder: Any, dtype: Any, address: Any, value: Any) -> Any:
        name = of_floats if isinstance(dtype, types.Float) else operation
        return builder.atomic_rmw(name, address, value, "acq_rel")

    return change


def _unless(keeps: Callable[[Any, Any, Any, Any], Any]) -> Change:
    """Return an update that stores the value unless ``keeps(builder, dtype, old, value)``.

    An element that is kept is only read: threads that all lower one minimum seldom write it, so its cache line is not
    transferred between cores.
    """

    def change(builder: Any, dtype: Any, address: Any, value: Any) -> Any:
        word = ir.IntType(dtype.bitwidth)
        data_type = value.type
        address = builder.bitcast(address, word.as_pointer())
        first = builder.load_atomic(address, "acquire", dtype.bitwidth // 8)
        start = builder.block
        look, swap, done = (builder.append_basic_block(f"atomic.{name}") for name in ("look", "swap", "done"))
        builder.branch(look)
        builder.position_at_end(look)
        old = builder.phi(word)
        old.add_incoming(first, start)
        builder.cbranch(keeps(builder, dtype, builder.bitcast(old, data_type), value), done, swap)
        builder.position_at_end(swap)
        result = builder.cmpxchg(address, old, builder.bitcast(value, word), "acq_rel", "acquire")
        old.add_incoming(builder.extract_value(result, 0), swap)
        builder.cbranch(builder.extract_value(result, 1), done, look)
        builder.position_at_end(done)
        return builder.bitcast(old, data_type)

    return change


def _comparison(sign: str, *, keeps_nan: bool) -> Callable[[Any, Any, Any, Any], Any]:
    """Return ``old sign value``. A NaN value is never stored; a NaN element is kept if ``keeps_nan``."""

    def compare(builder: Any, dtype: Any, old: Any, value: Any) -> Any:
        if isinstance(dtype, types.Float):
            if keeps_nan:
                return builder.fcmp_unordered(sign, old, value)
            no_value = builder.fcmp_unordered("uno", value, value)
            return builder.or_(no_value, builder.fcmp_ordered(sign, old, value))
        return (builder.icmp_signed if dtype.signed else builder.icmp_unsigned)(sign, old, value)

    return compare


def _plain(new: Change) -> Change:
    """Return an update of memory that only one core uses: load, ``new(builder, dtype, old, value)``, store."""

    def change(builder: Any, dtype: Any, address: Any, value: Any) -> Any:
        old = builder.load(address)
        builder.store(new(builder, dtype, old, value), address)
        return old

    return change


def _instruction(operation: str, of_floats: str = "") -> Change:
    """Return the code generator of one LLVM instruction, which may have another name for floats."""

    def new(builder: Any, dtype: Any, old: Any, value: Any) -> Any:
        return getattr(builder, of_floats if isinstance(dtype, types.Float) else operation)(old, value)

    return new


def _kept(keeps: Callable[[Any, Any, Any, Any], Any]) -> Change:
    """Return the code generator of the old value if ``keeps(builder, dtype, old, value)``, else of the new one."""

    def new(builder: Any, dtype: Any, old: Any, value: Any) -> Any:
        return builder.select(keeps(builder, dtype, old, value), old, value)

    return new


def _operation(name: str, change: Change) -> Any:
    """Return the intrinsic ``atomic.name(array, index, value) -> old value``."""

    def typing(typingctx: Any, array: Any, index: Any, value: Any) -> Any:
        _check(f"atomic.{name}", array, index, value)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            array_type, index_type, _ = signature.args
            address = _address(context, builder, array_type, index_type, args[0], args[1])
            return change(builder, array_type.dtype, address, args[2])

        return array.dtype(array, index, array.dtype), codegen

    typing.__name__ = f"atomic_{name}"
    return intrinsic(typing)


_KEEPS = {
    "max": _comparison(">=", keeps_nan=True),
    "min": _comparison("<=", keeps_nan=True),
    "nanmax": _comparison(">=", keeps_nan=False),
    "nanmin": _comparison("<=", keeps_nan=False),
}
_INSTRUCTIONS = {"add": ("add", "fadd"), "sub": ("sub", "fsub"), "and_": ("and",), "or_": ("or",), "xor": ("xor",)}
_BETWEEN_CORES = {
    **{name: _native(*instruction) for name, instruction in _INSTRUCTIONS.items()},
    **{name: _unless(keeps) for name, keeps in _KEEPS.items()},
    "inc": _native("uinc_wrap"),
    "dec": _native("udec_wrap"),
    "exch": _native("xchg"),
}
_OF_BLOCK = {
    **{
        name: _plain(_instruction(*(each + "_" * (each in ("and", "or")) for each in instruction)))
        for name, instruction in _INSTRUCTIONS.items()
    },
    **{name: _plain(_kept(keeps)) for name, keeps in _KEEPS.items()},
    "exch": _plain(lambda builder, dtype, old, value: value),
}
globals().update({f"atomic_{name}": _operation(name, change) for name, change in _BETWEEN_CORES.items()})
globals().update({f"block_atomic_{name}": _operation(name, change) for name, change in _OF_BLOCK.items()})

IN_SHARED_MEMORY = {f"atomic.{name}": f"block_atomic_{name}" for name in _OF_BLOCK}
"""Names of the functions for arrays in shared memory, which only the core that runs the block uses."""


@intrinsic  # type: ignore[untyped-decorator]
def accumulate(typingctx: Any, array: Any, index: Any, value: Any, is_own: Any) -> Any:
    """Add ``value`` to an element of an array that only this core uses if ``is_own`` (boolean), else atomically."""
    _check("atomic.add", array, index, value)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _address(context, builder, *signature.args[:2], *args[:2])
        with builder.if_else(args[3]) as (alone, among_others):
            with alone:
                _OF_BLOCK["add"](builder, array.dtype, address, args[2])
            with among_others:
                _BETWEEN_CORES["add"](builder, array.dtype, address, args[2])
        return context.get_dummy_value()

    return types.void(array, index, array.dtype, types.boolean), codegen


@intrinsic  # type: ignore[untyped-decorator]
def atomic_cas(typingctx: Any, array: Any, index: Any, expected: Any, value: Any) -> Any:
    """Store ``value`` into an element if it equals ``expected``; return the old value.

    Args:
        typingctx: Typing context of numba.
        array: The array.
        index: Index of the element: an integer, or a tuple of one per axis.
        expected: The value to replace, of the array's dtype.
        value: The new value, of the array's dtype.

    Returns:
        The old value.
    """
    _check("atomic.cas", array, index, expected, value)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _address(context, builder, *signature.args[:2], *args[:2])
        return _swapped(builder, address, args[2], args[3])

    return array.dtype(array, index, array.dtype, array.dtype), codegen


@intrinsic  # type: ignore[untyped-decorator]
def atomic_compare_and_swap(typingctx: Any, array: Any, expected: Any, value: Any) -> Any:
    """Store ``value`` into the first element of a 1-D array if it equals ``expected``; return the old value.

    Args:
        typingctx: Typing context of numba.
        array: The array.
        expected: The value to replace, of the array's dtype.
        value: The new value, of the array's dtype.

    Returns:
        The old value.
    """
    _check("atomic.compare_and_swap", array, types.intp, expected, value)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        first = context.get_constant(types.intp, 0)
        address = _address(context, builder, signature.args[0], types.intp, args[0], first)
        return _swapped(builder, address, args[1], args[2])

    return array.dtype(array, array.dtype, array.dtype), codegen


def _swapped(builder: Any, address: Any, expected: Any, value: Any) -> Any:
    return builder.extract_value(builder.cmpxchg(address, expected, value, "acq_rel", "acquire"), 0)


def _address(context: Any, builder: Any, array_type: Any, index_type: Any, array: Any, index: Any) -> Any:
    """Return the address of an element; negative indices count from the end, as everywhere in numba."""
    is_tuple = isinstance(index_type, types.BaseTuple)
    indices = cgutils.unpack_tuple(builder, index) if is_tuple else [index]
    kinds = list(index_type) if is_tuple else [index_type]
    indices = [context.cast(builder, value, kind, types.intp) for value, kind in zip(indices, kinds, strict=True)]
    structure = make_array(array_type)(context, builder, array)
    return cgutils.get_item_pointer(context, builder, array_type, structure, indices, wraparound=True)


def _check(path: str, array: Any, index: Any, *values: Any) -> None:
    """Raise ``TypingError`` with a readable message for argument types that ``numba.cuda`` rejects."""
    allowed = ATOMIC_DTYPES[path]
    if not isinstance(array, types.Array) or str(array.dtype) not in allowed:
        raise TypingError(f"cuda.{path} works on an array of {_listed(allowed)}, found {array}")
    if not array.mutable:
        raise TypingError(f"cuda.{path} changes an array, but this one is read-only: {array}")
    if not array.aligned:
        raise TypingError(
            f"cuda.{path} needs elements at multiples of their size: give the records' dtype align=True, found {array}"
        )
    kinds = list(index) if isinstance(index, types.BaseTuple) else [index]
    if len(kinds) != array.ndim or array.ndim == 0:
        raise TypingError(f"cuda.{path} needs {array.ndim} indices for {array}, found {len(kinds)}")
    numbers = (types.Integer, types.Float) if isinstance(index, types.BaseTuple) else types.Integer  # as in numba-cuda
    for kind in kinds:  # the result of a function that may also return None is an Optional
        if not isinstance(kind.type if isinstance(kind, types.Optional) else kind, numbers):
            raise TypingError(f"cuda.{path} takes an integer for each axis as the index, found {kind}")
    for value in values:
        if not isinstance(value, (types.Integer, types.Float, types.Boolean)):
            raise TypingError(f"cuda.{path} takes numbers, found {value}")


def _listed(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
