"""Checks that ``cuda.jit(debug=True)`` adds to a kernel: of indices and divisors, and of which thread fails.

They are calls of ``debug.*`` intrinsics in the resolved tree, which pass the position of the thread, so that later
passes need no code for them.
"""

from __future__ import annotations

import ast

from warpdrive.kernels.faults import Fault
from warpdrive.kernels.language import ATOMIC_DTYPES, INDICES
from warpdrive.kernels.lowering import ResolvedKernel
from warpdrive.kernels.resolve import Table
from warpdrive.kernels.syntax import DEBUG, IntrinsicName, at, copy_tree, is_debug_call, negate, walk

_POSITION = [path for path in INDICES if path.startswith(("threadIdx", "blockIdx"))]
_OUTSIDE = "index {0} is out of bounds for axis {1} with size {2}"
_OUTSIDE_TUPLE = "tuple index out of range: index {0} of {2} items"


def add_debug_checks(kernel: ResolvedKernel) -> None:
    """Add the checks to a kernel and all functions that it calls."""
    for function in (*kernel.function.callees(), kernel.function):
        checks = _Checks(kernel.table, function.source.name)
        function.body = [new for statement in function.body for new in checks.statements(statement)]


class _Checks(ast.NodeTransformer):
    def __init__(self, table: Table, function: str) -> None:
        self.table, self.function = table, function

    def statements(self, node: ast.stmt) -> list[ast.stmt]:
        found = self.visit(node)
        return found if isinstance(found, list) else [found]

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.slice, ast.Constant) or _is_negative(node.slice):
            is_shape = isinstance(node.value, ast.Attribute)
            if not is_shape and not (isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)):
                node.value = self.check(node, "item", [node.value, node.slice], IndexError, _OUTSIDE)
        elif _is_pure(node.value):
            node.slice = self.index(node, node.value, node.slice)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        node.right = self.divisor(node, node.op, node.right)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        self.generic_visit(node)
        node.value = self.divisor(node, node.op, node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        path = node.func.path if isinstance(node.func, IntrinsicName) else ""
        if path in ATOMIC_DTYPES and path != "atomic.compare_and_swap" and _is_pure(node.args[0]):
            node.args[1] = self.index(node, node.args[0], node.args[1])
        return node

    def visit_Raise(self, node: ast.Raise) -> list[ast.stmt]:
        return self.fault(node, node.exc)

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        self.generic_visit(node)
        assert node.msg is not None
        return at(node, ast.If(negate(node.test), self.fault(node, node.msg), []))

    def fault(self, node: ast.stmt, code: ast.expr | None) -> list[ast.stmt]:
        assert isinstance(code, ast.Constant) and isinstance(code.value, str)
        call = ast.Call(IntrinsicName.of(f"{DEBUG}fault", node), [ast.Constant(int(code.value)), *_position(node)], [])
        return [at(node, ast.Expr(call)), at(node, ast.Raise(code))]

    def index(self, node: ast.expr, array: ast.expr, index: ast.expr) -> ast.expr:
        """Return the checked form of an index."""
        if not isinstance(index, ast.Tuple):
            if isinstance(index, ast.Slice) or not index_may_be_number(index):
                return index
            is_shape = isinstance(array, ast.Attribute) and array.attr in ("shape", "strides")
            message = _OUTSIDE_TUPLE if is_shape or isinstance(array, ast.Tuple) else _OUTSIDE
            return self.check(node, "index", [array, index, ast.Constant(0)], IndexError, message)
        for axis, part in enumerate(index.elts):
            if not index_may_be_number(part):
                break
            if not isinstance(part, ast.Slice):
                given = [array, part, ast.Constant(axis)]
                index.elts[axis] = self.check(node, "index", given, IndexError, _OUTSIDE)
        return index

    def divisor(self, node: ast.AST, operator: ast.operator, value: ast.expr) -> ast.expr:
        """Return the checked form of the right operand of an operator."""
        is_division = isinstance(operator, (ast.Div, ast.FloorDiv, ast.Mod))
        if not is_division or (isinstance(value, ast.Constant) and value.value):
            return value
        return self.check(node, "divisor", [value], ZeroDivisionError, "division by zero")

    def check(
        self, node: ast.AST, name: str, arguments: list[ast.expr], kind: type[BaseException], message: str
    ) -> ast.expr:
        line, file = getattr(node, "lineno", 0), getattr(node, "file", "")
        self.table.faults.append(Fault(file, line, self.function, kind, message))
        code = ast.Constant(len(self.table.faults) - 1)
        function = IntrinsicName.of(DEBUG + name, node)
        return at(node, ast.Call(function, [*copy_tree(arguments), code, *_position(node)], []))


def index_may_be_number(node: ast.expr) -> bool:
    """Return True unless an index is ``None`` or ``...``, after which its parts are not those of the array's axes."""
    return not (isinstance(node, ast.Constant) and (node.value is None or node.value is ...))


def _position(node: ast.AST) -> list[ast.expr]:
    return [IntrinsicName.of(path, node) for path in _POSITION]


def _is_pure(node: ast.expr) -> bool:
    """Return True if an expression can be evaluated twice."""
    return not any(isinstance(child, ast.Call) and not is_debug_call(child) for child in walk([node]))


def _is_negative(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant)
