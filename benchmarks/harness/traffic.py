"""Lower bound on the bytes moved by a fused step, and memory bandwidth: together, the limit of steps per second.

Each element of an array counts once per step as read, if kernel functions read it before they write it, and once as
written. Repeated reads, and reads after a write in the same launch, are served by registers or a cache. The end of an
episode and constants, which all replicas share, are not counted: the result is close to the minimum. Partly used arrays
count as a whole (one of four words of a random state is written), since memory is moved in sectors of 32 bytes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

import warpdrive as wd
from harness.measure import seconds_per_call
from warpdrive.kernels.fusion import ROLLOUT, Call, Fusion
from warpdrive.kernels.kernel import DeviceFunction
from warpdrive.kernels.source import FunctionSource, read_function
from warpdrive.spaces import action_arrays, nested

_REPLICAS = 13
"""The number of replicas in the analysis; arrays with a different first axis are not per-replica."""


@dataclass(frozen=True)
class Traffic:
    """Bytes that one step of one replica reads and writes, by array."""

    read: Mapping[str, float]
    written: Mapping[str, float]

    @property
    def total(self) -> float:
        """The total number of bytes."""
        return sum(self.read.values()) + sum(self.written.values())


def step_traffic(environment: wd.Environment) -> Traffic:
    """Return the traffic of ``env.step``: the copy of the actions to the fused step's input, and the step."""
    arrays = action_arrays(environment)
    moved = _traffic(environment, lambda env: env.step(nested(arrays, lambda array: env.ctx[array.name])))
    actions = {array.name: moved.read[array.name] for array in arrays}
    return Traffic({**moved.read, "the caller's actions": sum(actions.values())}, {**moved.written, **actions})


def recorded_step_traffic(environment: wd.Environment) -> Traffic:
    """Return the traffic of ``env.step_rollout``, which samples actions and records the step."""
    return _traffic(environment, lambda env: env.step_rollout(env.allocate_rollout(2)))


def _traffic(environment: wd.Environment, use: Callable[[wd.EnvWrapper], object]) -> Traffic:
    recorder = _Recorder()
    use(wd.EnvWrapper(environment, _REPLICAS, recorder))
    fusion, arguments = recorder.bound[-1]  # after the reset kernel
    names: dict[int, str] = {}  # arrays by their addresses: one may have several parameters
    read, written = set(), set()
    for parameter, is_write in _accesses(fusion):
        if _is_of_replicas(parameter, arguments[parameter]):
            name = names.setdefault(arguments[parameter].data_ptr(), parameter)
            if is_write:
                written.add(name)
            elif name not in written:
                read.add(name)
    return Traffic(*({name: _size(name, arguments[name]) for name in sorted(part)} for part in (read, written)))


def _is_of_replicas(parameter: str, value: Any) -> bool:
    """Return True if a step accesses a separate part of the array for each replica."""
    if not isinstance(value, torch.Tensor) or parameter.startswith("constant__"):
        return False
    axis = 1 if parameter.startswith(ROLLOUT) else 0
    return value.dim() > axis and value.shape[axis] == _REPLICAS


def _size(parameter: str, tensor: torch.Tensor) -> float:
    slots = tensor.shape[0] if parameter.startswith(ROLLOUT) else 1
    return tensor.nbytes / slots / _REPLICAS


class _Recorder:
    """Backend that records bindings without launches."""

    name, language, device = "none", "Python", torch.device("cpu")

    def __init__(self) -> None:
        self.bound: list[tuple[Fusion, Mapping[str, Any]]] = []

    def bind(self, fusion: Fusion, arguments: Mapping[str, Any], blocks: int, threads: int) -> Callable[[], None]:
        self.bound.append((fusion, dict(arguments)))
        return lambda: None


def _accesses(fusion: Fusion) -> Iterator[tuple[str, bool]]:
    """Iterate over all accesses to the fused kernel's arguments, in order: the name, and True if it is a write."""
    for call in fusion.steps:
        if isinstance(call, Call):  # conditional steps belong to the end of an episode
            yield from _accesses_of(
                call.function.source, dict(zip(call.function.parameters, call.arguments, strict=True))
            )


def _accesses_of(source: FunctionSource, arguments: Mapping[str, str]) -> Iterator[tuple[str, bool]]:
    for name, is_write in _Accesses(source).of(source.tree):
        if name in arguments:
            yield arguments[name], is_write


class _Accesses:
    """Collects accesses to arrays in evaluation order."""

    def __init__(self, source: FunctionSource) -> None:
        self.namespace = source.namespace

    def of(self, node: ast.AST | None) -> Iterator[tuple[str, bool]]:
        if isinstance(node, ast.Assign):
            yield from self._all(node.value, *node.targets)
        elif isinstance(node, ast.AugAssign):
            if isinstance(node.target, ast.Subscript) and isinstance(node.target.value, ast.Name):
                yield node.target.value.id, False
            yield from self._all(node.value, node.target)
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            yield from self.of(node.slice)
            yield node.value.id, isinstance(node.ctx, ast.Store)
        elif isinstance(node, ast.Call):
            yield from self._of_call(node)
        elif node is not None:
            yield from self._all(*ast.iter_child_nodes(node))

    def _all(self, *nodes: ast.AST) -> Iterator[tuple[str, bool]]:
        for node in nodes:
            yield from self.of(node)

    def _of_call(self, node: ast.Call) -> Iterator[tuple[str, bool]]:
        yield from self._all(*node.args, *(word.value for word in node.keywords))
        arrays = {position: part.id for position, part in enumerate(node.args) if isinstance(part, ast.Name)}
        source = self._source(node.func)
        if source is not None:
            named = {word.arg: word.value.id for word in node.keywords if word.arg and isinstance(word.value, ast.Name)}
            given = {source.parameters[position]: name for position, name in arrays.items()}
            yield from _accesses_of(source, {**given, **named})
        elif "atomic" in ast.unparse(node.func):
            yield from ((name, is_write) for name in arrays.values() for is_write in (False, True))

    def _source(self, function: ast.expr) -> FunctionSource | None:
        """Return the source of a kernel function or plain function, or None for functions of Python or CUDA."""
        try:
            found = eval(compile(ast.Expression(function), "<call>", "eval"), dict(self.namespace))
        except (NameError, AttributeError):  # a method of a local variable
            return None
        if isinstance(found, DeviceFunction):
            return found.source
        return read_function(found) if type(found).__name__ == "function" and self._is_ours(found) else None

    def _is_ours(self, function: Any) -> bool:
        return not function.__module__.startswith(("numba", "numpy"))


def copy_bandwidth(device: torch.device, megabytes: int = 1024) -> float:
    """Return the bandwidth in bytes per second of a copy within device memory, reads and writes included."""
    source = torch.ones(megabytes << 20, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / seconds_per_call(lambda: target.copy_(source), device)
