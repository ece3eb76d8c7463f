"""Native recurrent units, whose forward and backward passes over sequences are one PyTorch operator.

Arrays are PyTorch tensors. Results do not depend on the number of threads, since no sum is divided among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum, auto
from functools import cached_property, partial
from typing import Any

import torch
from llvmlite import ir
from torch import Tensor

from warpdrive.backends.host.workers import get_num_threads
from warpdrive.training.compiled.program import Program, address_of, parts_of, program_of, table_of
from warpdrive.training.compiled.simd import F32, I8, Code
from warpdrive.training.compiled.units import PARAMETERS, Array, Recurrence


class _Word(IntEnum):
    """Words of the argument table."""

    STEPS = 0
    SEQUENCES = auto()
    KEEPING = auto()  # 1 if the sums and states before each step are kept, else 0
    ARRAYS = auto()  # addresses of ``Array``


def _emit(recurrence: Recurrence, module: ir.Module, lanes: int) -> None:
    """Emit the functions ``forward``, ``backward`` and ``weights`` into a module."""
    for name in ("forward", "backward", "weights"):
        code = Code(module, name, lanes)
        kinds = {array: I8 if array is Array.BEGINS else F32 for array in Array}
        arrays = {array: code.pointer(_Word.ARRAYS + array, kind) for array, kind in kinds.items()}
        recurrence.begin(code, arrays, code.word(_Word.STEPS), code.word(_Word.SEQUENCES))
        if name == "forward":
            recurrence.forward(code.share(recurrence.sequences), code.word(_Word.KEEPING))
        elif name == "backward":
            recurrence.backward(code.share(recurrence.sequences))
        else:
            recurrence.weights(code.share, code.builder.icmp_signed("==", code.part, code.integer(0)))
        code.finish()


class CompiledRecurrence:
    """Forward and backward passes of recurrent units over sequences, which take the parameters as arguments.

    Args:
        kind: Key of :data:`UNITS`.
        inputs: Number of inputs.
        units: Number of units.
    """

    def __init__(self, kind: str, inputs: int, units: int) -> None:
        self._recurrence = Recurrence(kind, inputs, units)
        self._specialisation = f"recurrence {kind} {inputs} {units}"
        self._numbers = PARAMETERS[kind]

    @cached_property
    def _program(self) -> Program:
        return program_of(partial(_emit, self._recurrence), self._specialisation)

    def __call__(self, inputs: Tensor, state: Tensor, begins: Tensor, parameters: Sequence[Tensor]) -> Tensor:
        """Return the states after each step of sequences, recorded by autograd if it is enabled.

        Args:
            inputs: ``[T, n, inputs]`` float32 on the CPU.
            state: ``[n, state_size]`` float32, before the first step.
            begins: ``[T, n]`` bool, True where the state is reset to zero before the step.
            parameters: Weights of inputs and, if there is one, of the state, each ``[gates, ...]``; then their biases.

        Returns:
            ``[T, n, state_size]`` float32.
        """
        if not torch.is_grad_enabled():
            return self.forward(inputs, state, begins, parameters, keep=False)[0]
        states: Tensor = _Pass.apply(self, inputs, state, begins, *parameters)  # type: ignore[no-untyped-call]
        return states

    def forward(
        self, inputs: Tensor, state: Tensor, begins: Tensor, parameters: Sequence[Tensor], keep: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the states and, for the backward pass if ``keep``, the states before each step and the sums."""
        steps, sequences, _ = inputs.shape
        states = inputs.new_empty(steps, *state.shape)
        before = inputs.new_empty(steps if keep else 1, *state.shape)
        sums = inputs.new_empty(len(before), sequences, self._recurrence.gates)
        arrays = {
            Array.INPUTS: inputs,
            Array.START: state,
            Array.BEGINS: begins,
            Array.STATES: states,
            Array.BEFORE: before,
            Array.SUMS: sums,
            **self._by_array(parameters, Array.INPUT_WEIGHT),
        }
        weights = parameters[: len(parameters) // 2]
        arrays |= {Array(Array.INPUT_WEIGHT_TRANSPOSED + number): each.t() for number, each in enumerate(weights)}
        self._run(["forward"], arrays, keep)
        return states, before, sums

    def backward(
        self, inputs: Tensor, kept: Sequence[Tensor], parameters: Sequence[Tensor], derivatives: Tensor, of_inputs: bool
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Return the gradients of inputs, of the state before the first step, and of parameters.

        Args:
            inputs: ``[T, n, inputs]``.
            kept: ``begins``, states before each step, and sums.
            parameters: See :meth:`__call__`.
            derivatives: ``[T, n, state_size]``, derivatives of the states.
            of_inputs: If False, the gradient of the inputs is not computed.

        Returns:
            Gradients; that of the inputs is undefined unless ``of_inputs``.
        """
        begins, before, sums = kept
        gradients_of_parameters = [each.new_zeros(each.shape) for each in parameters]
        found = inputs.new_empty(inputs.shape), inputs.new_empty(before.shape[1:]), gradients_of_parameters
        arrays = {
            Array.INPUTS: inputs,
            Array.BEGINS: begins,
            Array.STATES_DELTAS: derivatives,
            Array.BEFORE: before,
            Array.SUMS: sums,
            Array.SUMS_DELTAS: torch.empty_like(sums),
            Array.START_DELTAS: found[1],
            **self._by_array(parameters, Array.INPUT_WEIGHT),
            **self._by_array(found[2], Array.INPUT_WEIGHT_GRADIENT),
        }
        if of_inputs:
            arrays[Array.INPUTS_DELTAS] = found[0]
        self._run(["backward", "weights"], arrays)
        return found

    def _by_array(self, parameters: Sequence[Tensor], first: Array) -> dict[Array, Tensor]:
        """Return parameters, or their gradients, by their :class:`Array`."""
        return {Array(first + number): each for number, each in zip(self._numbers, parameters, strict=True)}

    def _run(self, functions: Sequence[str], arrays: Mapping[Array, Tensor], keep: bool = True) -> None:
        """Run functions in order."""
        whole = {_Word.ARRAYS + array: tensor.contiguous() for array, tensor in arrays.items()}
        steps, sequences, _ = arrays[Array.INPUTS].shape
        sizes: dict[int, Any] = {_Word.STEPS: steps, _Word.SEQUENCES: sequences, _Word.KEEPING: int(keep)}
        table = table_of({**whole, **sizes}, _Word.ARRAYS + len(Array))
        parts = min(parts_of(steps * sequences), get_num_threads())
        for function in functions:
            self._program.run(function, address_of(table), parts)

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledRecurrence:
        return self


class _Pass(torch.autograd.Function):
    """Autograd function of recurrent units."""

    @staticmethod
    def forward(ctx: Any, native: CompiledRecurrence, *inputs: Tensor) -> Tensor:
        features, state, begins, *parameters = inputs
        ctx.native = native
        states, *kept = native.forward(features, state, begins, parameters, keep=True)
        ctx.save_for_backward(features, begins, *kept, *parameters)
        return states

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *derivatives: Tensor) -> tuple[Tensor | None, ...]:
        features, begins, before, sums, *parameters = ctx.saved_tensors
        kept, of_inputs = (begins, before, sums), ctx.needs_input_grad[1]
        of_features, of_state, found = ctx.native.backward(features, kept, parameters, derivatives[0], of_inputs)
        return None, of_features if of_inputs else None, of_state, None, *found
