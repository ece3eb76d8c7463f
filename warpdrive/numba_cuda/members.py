"""Members of ``numba.cuda`` that only kernels can use, such as ``cuda.threadIdx`` and ``cuda.atomic``.

Each is an :class:`Intrinsic`, by which the resolver recognises it, including those that kernels do not support yet.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NoReturn

from warpdrive.kernels import libraries
from warpdrive.kernels.language import DIMENSIONS, SPACES, SUPPORTED, Intrinsic

NAMES = frozenset(
    {
        *DIMENSIONS,
        *SPACES,
        *(path for path in SUPPORTED if "." not in path),
        *("shfl_sync", "shfl_up_sync", "shfl_down_sync", "shfl_xor_sync", "shfl_sync_intrinsic"),
        *("all_sync", "any_sync", "eq_sync", "ballot_sync", "vote_sync_intrinsic", "match_any_sync", "match_all_sync"),
        *("activemask", "lanemask_lt"),
        *("ldca", "ldcg", "ldcs", "ldlu", "ldcv", "stcg", "stcs", "stwb", "stwt"),
    }
)
"""Names of ``numba.cuda`` that belong to the kernel language, except those of its modules and vector types."""

MODULES = ("cg", *libraries.MODULES)
"""Modules whose names all belong to the kernel language."""


class Member(Intrinsic):
    """Member of the kernel language, which has no meaning outside of a kernel."""

    def __getattr__(self, name: str) -> Member:
        if name.startswith("_"):
            raise AttributeError(f"{self!r} has no attribute '{name}'")
        return member(f"{self.path}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise :class:`TypeError`."""
        raise TypeError(f"{self!r} can only be used in a kernel or device function")

    def __reduce__(self) -> tuple[Any, ...]:
        return member, (self.path,)


class MemberModule(ModuleType):
    """Module of which every name is a member of the kernel language."""

    def __getattr__(self, name: str) -> Member:
        path = f"{self.__name__.rpartition('.')[2]}.{name}"
        if name.startswith("_") and path not in SUPPORTED:
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
        return member(path)


_members: dict[str, Member] = {}


def member(path: str) -> Member:
    """Return the member of that dotted name, the same object each time."""
    return _members.setdefault(path, Member(path))


def members() -> dict[str, Any]:
    """Return the members of ``numba.cuda`` by name: functions, namespaces, vector types and modules."""
    vectors = {name: member(path) for name, path in libraries.VECTOR_ALIASES.items()}
    modules = {name: MemberModule(f"numba.cuda.{name}") for name in MODULES}
    return {**{name: member(name) for name in NAMES}, **vectors, **modules}
