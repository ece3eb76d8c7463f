"""Backend-independent description of a fused kernel: calls of kernel functions, barriers and conditions, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from numba import cuda

from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.kernel import DeviceFunction, Kernel, kernel_from_source
from warpdrive.kernels.syntax import AGREED, GENERATED


class FusedFunction(Protocol):
    """Protocol for functions that can be part of a fused kernel, in any language."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters, in order."""
        ...


@dataclass(frozen=True)
class Call:
    """Call of a function with named arguments of the fused kernel; ``result`` names the condition that it computes."""

    function: FusedFunction
    arguments: tuple[str, ...]
    result: str | None = None


@dataclass(frozen=True)
class Barrier:
    """Barrier among all threads of a replica."""


@dataclass(frozen=True)
class When:
    """Steps executed if a variable is true: the result of a call, uniform across the threads of a replica."""

    condition: str
    steps: tuple[FusedStep, ...]


FusedStep = Call | Barrier | When
ROLLOUT = "rollout__"
"""Prefix of parameters for arrays of a rollout, in which the axis of the replicas follows that of the steps."""
SHARED = ("constant__", "pool__")
"""Prefixes of parameters for arrays without an axis of the replicas."""
_CUDA = f"{GENERATED}cuda"
_kernels: dict[Fusion, Kernel] = {}


@dataclass(frozen=True)
class Fusion:
    """A fused kernel, launched with one block per replica and one thread per agent.

    Equal fusions call the same functions.

    Attributes:
        name: The name of the kernel; an identifier.
        parameters: The names of its arguments, in order; identifiers.
        steps: Calls, barriers and conditions, in order.
    """

    name: str
    parameters: tuple[str, ...]
    steps: tuple[FusedStep, ...]

    @staticmethod
    def of(function: DeviceFunction) -> Fusion:
        """Return a fusion that calls a single function with arguments named as its parameters."""
        return Fusion(function.source.name, function.parameters, (Call(function, function.parameters),))

    def calls(self) -> Iterator[Call]:
        """Iterate over all calls, in order."""
        return _calls(self.steps)

    def kernel(self) -> Kernel:
        """Return the fusion as a Python kernel, with the compiled code of an equal one.

        Raises :class:`KernelError` if a function is in another language.
        """
        known = _kernels.get(self)
        if known is None or not known.is_current:
            known = _kernels[self] = self._new_kernel()
        return known

    def _new_kernel(self) -> Kernel:
        names: dict[FusedFunction, str] = {}
        for call in self.calls():
            if not isinstance(call.function, DeviceFunction):
                raise KernelError(f"{call.function!r} is not a Python kernel function, which this backend requires")
            names.setdefault(call.function, f"{GENERATED}call_{len(names)}_{call.function.source.name}")
        lines = [f"def {self.name}({', '.join(self.parameters)}):", *_python(self.steps, names, "    ")]
        namespace: dict[str, Any] = {_CUDA: cuda, **{name: function for function, name in names.items()}}
        return kernel_from_source("\n".join(lines) + "\n", self.name, namespace)


def _calls(steps: Sequence[FusedStep]) -> Iterator[Call]:
    for step in steps:
        if isinstance(step, Call):
            yield step
        elif isinstance(step, When):
            yield from _calls(step.steps)


def _python(steps: Sequence[FusedStep], names: dict[FusedFunction, str], indent: str) -> Iterator[str]:
    for step in steps:
        if isinstance(step, Barrier):
            yield f"{indent}{_CUDA}.syncthreads()"
        elif isinstance(step, When):
            yield f"{indent}if {AGREED}{step.condition}:"
            yield from _python(step.steps, names, indent + "    ")
        else:
            result = f"{AGREED}{step.result} = " if step.result else ""
            yield f"{indent}{result}{names[step.function]}({', '.join(step.arguments)})"
