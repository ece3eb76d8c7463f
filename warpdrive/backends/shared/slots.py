"""Per-thread storage of variables that are live between regions, where one thread runs several threads of a kernel."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from warpdrive.kernels.syntax import GENERATED, at, copy_tree, stored_names


@dataclass(frozen=True)
class Slot:
    """Storage of one variable for each thread of a block, or for the block.

    Attributes:
        name: Name of the variable.
        dtype: Dtype of the storage.
        shape: Shape of the variable, ``()`` for a number.
        kind: Pickled numba type of a view, tuple or other value of fixed size, which is stored as bytes; else empty.
        is_of_block: True if the threads of a block share the variable.
    """

    name: str
    dtype: str
    shape: tuple[int, ...] = ()
    kind: bytes = b""
    is_of_block: bool = False

    @property
    def array(self) -> str:
        """Name of the array that holds the slots of all threads."""
        return f"{GENERATED}slots_{self.name}"


def without_array_calls(statements: list[ast.stmt], names: set[str]) -> list[ast.stmt]:
    """Remove the assignments that create the named arrays, which have slots instead."""

    class Remover(ast.NodeTransformer):
        def visit_Assign(self, node: ast.Assign) -> ast.stmt:
            return at(node, ast.Pass()) if stored_names(node.targets) & names else node

    return [Remover().visit(copy_tree(statement)) for statement in statements] if names else statements
