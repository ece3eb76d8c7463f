"""Vector types of ``numba.cuda``, such as ``float32x3``, for generated CPU code: one to four numbers of one type."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import StructModel, register_default
from numba.core.errors import TypingError
from numba.core.imputils import lower_builtin, lower_getattr_generic
from numba.core.typing.templates import (
    AbstractTemplate,
    AttributeTemplate,
    Signature,
    infer_getattr,
    infer_global,
    signature as signature_of,
)

from warpdrive.kernels.libraries import COMPONENTS, VECTORS


class VectorType(types.Type):  # type: ignore[misc]
    """Type of vectors.

    Attributes:
        base: Type of a component.
        components: Names of the components: the first letters of ``xyzw``.
    """

    def __init__(self, name: str) -> None:
        base, count = VECTORS[name]
        self.base, self.components = getattr(types, base), COMPONENTS[:count]
        super().__init__(name)


@register_default(VectorType)
class _VectorModel(StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: VectorType) -> None:
        super().__init__(manager, kind, [(name, kind.base) for name in kind.components])


@infer_getattr
class _Components(AttributeTemplate):  # type: ignore[misc]
    key = VectorType

    def generic_resolve(self, kind: VectorType, name: str) -> types.Type | None:
        return kind.base if name in tuple(kind.components) else None


@lower_getattr_generic(VectorType)  # type: ignore[untyped-decorator]
def _component(context: Any, builder: Any, kind: VectorType, value: Any, name: str) -> Any:
    return getattr(cgutils.create_struct_proxy(kind)(context, builder, value), name)


def _declare(name: str) -> Any:
    """Return the constructor of a vector type, which takes numbers and vectors with as many components together."""
    kind = VectorType(name)

    def construct(*args: Any) -> Any:
        """Return a vector."""

    class Template(AbstractTemplate):  # type: ignore[misc]
        key = construct

        def generic(self, args: tuple[Any, ...], kws: Any) -> Signature:
            parts = [arg if isinstance(arg, VectorType) else kind.base for arg in args]
            fits = all(self.context.can_convert(arg, part) is not None for arg, part in zip(args, parts, strict=True))
            fits = fits and all(part.base == kind.base for part in parts if isinstance(part, VectorType)) and not kws
            count = sum(len(part.components) if isinstance(part, VectorType) else 1 for part in parts)
            if not fits or count != len(kind.components):
                given = ", ".join(map(str, args))
                raise TypingError(
                    f"cuda.{name} takes {len(kind.components)} components: numbers, and vectors of {kind.base}, "
                    f"found ({given})"
                )
            return signature_of(kind, *parts)

    construct.__name__ = name
    infer_global(construct, types.Function(Template))
    lower_builtin(construct, types.VarArg(types.Any))(_constructed)
    return construct


def _constructed(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    numbers: list[Any] = []
    for value, part in zip(args, signature.args, strict=True):
        is_vector = isinstance(part, VectorType)
        numbers += cgutils.unpack_tuple(builder, value) if is_vector else [value]
    vector = ir.Constant(context.get_value_type(signature.return_type), ir.Undefined)
    for place, number in enumerate(numbers):
        vector = builder.insert_value(vector, number, place)
    return vector


globals().update({name: _declare(name) for name in VECTORS})
