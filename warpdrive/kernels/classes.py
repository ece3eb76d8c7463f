"""The classes of an author that kernels may use, named tuples and enumerations, made again from a description.

Generated modules cannot import them: an author may define them in a notebook, or inside a function.
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
    """What two classes must have in common to be one to a kernel.

    ``base`` is ``namedtuple``, with the names of its fields as ``members``, or ``Enum``, with pairs of name and number.
    """

    base: str
    name: str
    members: tuple[Any, ...]

    @staticmethod
    def of(value: Any) -> AuthorsClass | None:
        """Return the description of a class, or None for anything that is no class a kernel may use."""
        if not isinstance(value, type):
            return None
        if issubclass(value, tuple) and hasattr(value, "_fields"):
            return AuthorsClass("namedtuple", value.__name__, value._fields)
        if issubclass(value, enum.Enum) and all(type(member.value) in (bool, int, float) for member in value):
            return AuthorsClass("Enum", value.__name__, tuple((member.name, member.value) for member in value))
        return None

    @property
    def alias(self) -> str:
        """The name of the class in generated modules and in this one: the same for the same content."""
        digest = hashlib.sha256(repr((self.base, self.members)).encode()).hexdigest()[:8]
        return f"{GENERATED}class_{digest}_{self.name}"


def authors_class(base: str, name: str, members: tuple[Any, ...]) -> Any:
    """Return the class of a description, always the same one; it can be pickled."""
    alias = AuthorsClass(base, name, members).alias
    if alias not in globals():
        made: Any = namedtuple(name, members) if base == "namedtuple" else enum.Enum(name, members)
        made.__module__, made.__qualname__ = __name__, alias
        globals().setdefault(alias, made)
    return globals()[alias]
