"""Room for what agents keep from one region of a kernel to another, where one thread does the work of several."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from warpdrive.kernels.syntax import GENERATED, at, copy_tree, stored_names


@dataclass(frozen=True)
class Slot:
    """Room for one variable per thread of a block: ``shape`` is what the variable itself has, ``()`` for a number.

    A view, a tuple or another value of which numba knows the size has room for its bytes, and ``kind``: its type in
    numba, pickled.
    """

    name: str
    dtype: str
    shape: tuple[int, ...] = ()
    kind: bytes = b""

    @property
    def array(self) -> str:
        """The name of the array that holds the slots of all threads."""
        return f"{GENERATED}slots_{self.name}"


def without_array_calls(statements: list[ast.stmt], names: set[str]) -> list[ast.stmt]:
    """Leave out the assignments that make the named arrays, which have slots instead."""

    class Remover(ast.NodeTransformer):
        def visit_Assign(self, node: ast.Assign) -> ast.stmt:
            return at(node, ast.Pass()) if stored_names(node.targets) & names else node

    return [Remover().visit(copy_tree(statement)) for statement in statements] if names else statements
