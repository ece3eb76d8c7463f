"""Binding of the parameters of kernel functions by name."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from warpdrive.device_context import DeviceContext, torch_dtype
from warpdrive.environment import Environment, KernelFunction, KernelFunctions
from warpdrive.errors import nearest, shown
from warpdrive.kernels.compile_time import ON_GPU
from warpdrive.kernels.cuda_kernel import CudaKernel
from warpdrive.kernels.errors import KernelError, place
from warpdrive.kernels.kernel import Kernel
from warpdrive.per_replica import plain_constant

NUM_ENVS = "num_envs"


class Binding:
    """Binds the parameters of an environment's kernel functions to arrays and values.

    Names are looked up first among the arrays of the device context that kernel functions may access (those in
    ``constants`` are read-only), then ``num_envs`` and ``on_gpu``, then among the attributes of the environment (an
    ``int`` becomes int32, a ``float`` float32, a ``bool`` boolean, and a NumPy array a read-only array).

    Args:
        environment: The environment.
        functions: Its kernel functions.
        context: The device context of the arrays.
        arrays: Names of the arrays that kernel functions may access.
        constants: Names of those that are read-only.
    """

    def __init__(
        self,
        environment: Environment,
        functions: KernelFunctions,
        context: DeviceContext,
        arrays: Iterable[str],
        constants: Iterable[str],
    ) -> None:
        self.environment, self.functions = environment, functions
        self.context, self.arrays, self.constants = context, set(arrays), set(constants)
        self._constants: dict[str, Any] = {}

    def check(self, kernel: KernelFunction) -> None:
        """Raise :class:`KernelError` if a parameter is unbound, or a constant is assigned to.

        For CUDA C, parameter types are checked as well.
        """
        constants = {name for name in kernel.parameters if self._is_constant(kernel, name)}
        if isinstance(kernel, CudaKernel):
            kernel.signature.check({name: self.value(name) for name in kernel.parameters})
            for name in sorted(constants & self.constants):
                if kernel.may_change(name):
                    raise KernelError(f"{kernel.where}: '{name}' is a constant of the environment: make it const")
            return
        for name, node in _changes(kernel):
            if name not in constants:
                continue
            raise KernelError(
                f"{place(node)}: kernel function '{kernel.source.name}' assigns to '{name}', a "
                "constant of the environment; state that changes is returned by initial_state"
            )
        for name in sorted(constants - self.constants):
            self._check_rows(kernel, name)

    def value(self, name: str) -> Any:
        """Return the tensor, read-only array or number bound to a parameter that passed :meth:`check`."""
        if name in self.arrays:
            return self.context[name]
        if name == NUM_ENVS:
            return np.int32(self.context.num_envs)
        if name == ON_GPU:
            return np.bool_(self.context.device.type == "cuda")
        if name not in self._constants:
            self._constants[name] = _constant(name, getattr(self.environment, name))
        return self._constants[name]

    def _check_rows(self, kernel: Kernel, name: str) -> None:
        """Raise :class:`KernelError` if a kernel indexes an array by replica that has fewer rows than replicas."""
        value, count = self.value(name), self.context.num_envs
        if not isinstance(value, np.ndarray) or value.ndim == 0 or len(value) >= count:
            return
        for node in _elements_of_the_replica(kernel, name):
            raise KernelError(
                f"{place(node)}: kernel function '{kernel.source.name}' reads a row of '{name}' for each replica, but "
                f"it has {len(value)} rows for {count} replicas: wd.PerReplica makes one for any number of replicas"
            )

    def _is_constant(self, kernel: KernelFunction, name: str) -> bool:
        if name in self.arrays:
            return name in self.constants
        if name in (NUM_ENVS, ON_GPU) or _is_bindable(getattr(self.environment, name, None)):
            return True
        title = f"{kernel.where}: parameter '{name}' of kernel function '{_name(kernel)}'"
        if name in vars(self.environment) or name in vars(type(self.environment)):
            raise KernelError(
                f"{title} is the attribute {shown(getattr(self.environment, name))} of "
                f"{type(self.environment).__name__}, expected an int, a float, a bool, a NumPy array or a wd.PerReplica"
            )
        raise KernelError(
            f"{title} is not bound: it is neither a reserved array, nor an array of initial_state, nor a number or "
            f"array among the attributes of {type(self.environment).__name__}.{self._advice(name)}"
        )

    def _advice(self, name: str) -> str:
        """Return advice about an unbound name: the arrays that exist for its space instead, or the nearest name."""
        for array, space in (("observations", "observation_space"), ("actions", "action_space")):
            if name == array or name.removeprefix(f"{array}_") in self.environment.policy_tags:
                names = sorted(known for known in self.arrays if known == array or known.startswith(f"{array}_"))
                return f" The arrays of {space} are: {', '.join(names)}"
        return nearest(name, self._candidates())

    def _candidates(self) -> list[str]:
        attributes = (name for name, value in vars(self.environment).items() if _is_bindable(value))
        return [*self.arrays, *attributes, NUM_ENVS, ON_GPU]


def _is_bindable(value: Any) -> bool:
    return isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating, np.ndarray))


def _constant(name: str, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        torch_dtype(value.dtype, f"attribute '{name}' of the environment")
        array = np.array(value, order="C")
        array.flags.writeable = False
        return array
    return plain_constant(name, value)[()]


def _changes(kernel: Kernel) -> Iterator[tuple[str, ast.AST]]:
    """Iterate over the names that a kernel function itself stores to, or whose elements it changes, with the places.

    Elements may also be changed through another name of an array or of a part of it, if that is assigned once.
    """
    nodes = list(ast.walk(kernel.source.tree))
    stored = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    parts = {
        target.id: _array_of(value)
        for target, value in _assignments(nodes)
        if isinstance(target, ast.Name) and stored.count(target.id) == 1
    }
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node
            continue
        array = None
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            array = _array_of(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            array = _array_of(node.args[0]) if ast.unparse(node.func.value).endswith("atomic") else None
        while array is not None:
            yield array, node
            array = parts.pop(array, None)  # once, as names may be assigned to each other


def _array_of(node: ast.expr) -> str | None:
    """Return the name of the array of which an expression is an element or a part, or None."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _elements_of_the_replica(kernel: Kernel, name: str) -> Iterator[ast.Subscript]:
    """Iterate over the subscripts of an array whose first index is the index of the replica."""
    nodes = list(ast.walk(kernel.source.tree))
    replica = {
        target.id for target, value in _assignments(nodes) if isinstance(target, ast.Name) and _is_replica(value)
    }
    for node in nodes:
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == name:
            first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice
            if _is_replica(first) or (isinstance(first, ast.Name) and first.id in replica):
                yield node


def _assignments(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Iterate over the pairs of target and value of all assignments."""
    for node in nodes:
        if isinstance(node, ast.Assign):
            yield from _pairs(node.targets[0], node.value)


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """Return the pairs of target and value of ``a, b = x, y`` or ``a = x``."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return list(zip(target.elts, value.elts, strict=False))
    return [(target, value)]


def _is_replica(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and ast.unparse(node).endswith("blockIdx.x")


def may_change(kernel: KernelFunction, name: str) -> bool:
    """Return True if a kernel function stores to an array, or passes it to a function that may."""
    if isinstance(kernel, CudaKernel):
        return kernel.may_change(name)
    elements = (node for node in ast.walk(kernel.source.tree) if isinstance(node, ast.Subscript))
    read = {id(node.value) for node in elements if isinstance(node.ctx, ast.Load)}
    return any(
        isinstance(node, ast.Name) and node.id == name and id(node) not in read for node in ast.walk(kernel.source.tree)
    )


def _name(kernel: KernelFunction) -> str:
    return kernel.name if isinstance(kernel, CudaKernel) else kernel.source.name


def named_parameters(kernels: Iterable[KernelFunction]) -> set[str]:
    """Return the names of all parameters of the kernels."""
    return {name for kernel in kernels for name in kernel.parameters}
