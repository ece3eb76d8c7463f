"""User-defined classes in kernels: named tuples and enumerations, rebuilt from a description.

Generated modules cannot import the originals: these may be defined in a notebook or inside a function.
"""

from __future__ import annotations

import enum
import hashlib
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

from warpdrive.kernels.syntax import GENERATED


@dataclass(frozen=True)
class AuthorsClass:
    """Structural description of a user-defined class; classes with equal descriptions are one class to a kernel.

    Attributes:
        base: ``namedtuple`` or ``Enum``.
        name: The name of the class.
        members: The names of the fields (``namedtuple``), or pairs of name and number (``Enum``).
    """

    base: str
    name: str
    members: tuple[Any, ...]

    @staticmethod
    def of(value: Any) -> AuthorsClass | None:
        """Return the description of a class, or None if ``value`` is no class that a kernel can use."""
        if not isinstance(value, type):
            return None
        if issubclass(value, tuple) and hasattr(value, "_fields"):
            return AuthorsClass("namedtuple", value.__name__, value._fields)
        if issubclass(value, enum.Enum) and all(map(_is_value, (member.value for member in value))):
            return AuthorsClass("Enum", value.__name__, tuple((member.name, member.value) for member in value))
        return None

    @property
    def alias(self) -> str:
        """The name of the class in generated modules and in this one; it contains a hash of base and members."""
        digest = hashlib.sha256(repr((self.base, self.members)).encode()).hexdigest()[:8]
        return f"{GENERATED}class_{digest}_{self.name}"


def _is_value(value: Any) -> bool:
    """Return True for a number, or a tuple of numbers."""
    return type(value) in (bool, int, float) or (isinstance(value, tuple) and all(map(_is_value, value)))


def authors_class(base: str, name: str, members: tuple[Any, ...]) -> Any:
    """Return the class for a description; it is created once per description and can be pickled.

    Args:
        base: ``namedtuple`` or ``Enum``.
        name: The name of the class.
        members: The names of the fields, or pairs of name and number, see :class:`AuthorsClass`.

    Returns:
        The class, the same object for equal arguments.
    """
    alias = AuthorsClass(base, name, members).alias
    if alias not in globals():
        made: Any = namedtuple(name, members) if base == "namedtuple" else enum.Enum(name, members)
        made.__module__, made.__qualname__ = __name__, alias
        globals().setdefault(alias, made)
    return globals()[alias]
