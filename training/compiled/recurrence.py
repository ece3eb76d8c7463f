"""Recurrent units as native code: forward and backward passes over sequences as one operator of PyTorch each.

Arrays are those of PyTorch, ``[steps, sequences, elements]``: lanes are elements, and tiles are some sequences of a
step. Each number is computed in the same order whatever the parts, so that results do not depend on the threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum, auto
from functools import cached_property
from typing import Any

import torch
from llvmlite import ir
from torch import Tensor

from warpdrive.backends.host.workers import get_num_threads
from warpdrive.training.compiled.matrix import Matrix, multiply
from warpdrive.training.compiled.network import copy_floats
from warpdrive.training.compiled.program import Program, address_of, parts_of, program_of, table_of
from warpdrive.training.compiled.simd import F32, Code, Vector, gradients

_SEQUENCES = 48  # of a tile: its rows of a step stay in the cache, and its multiplications have whole tiles
_ROWS = 512  # whose contributions to the gradient of a weight are summed while they are in the cache

Formula = Callable[[Sequence[Vector], Sequence[Vector]], Sequence[Vector]]


@dataclass(frozen=True)
class Units:
    """Kind of recurrent units, whose ``gates`` are sums of products of inputs and of the state before the step.

    Attributes:
        gates: number of sums per unit.
        numbers: elements of the state per unit; weights apply to the first.
        of_inputs: number of sums, the first ones, to which inputs contribute.
        of_state: sums to which the state contributes, as runs: the first sum, the first gate in the weight, and their
            number.
        formula: returns the next state of units from their sums and the state before.
    """

    gates: int
    numbers: int
    of_inputs: int
    of_state: tuple[tuple[int, int, int], ...]
    formula: Formula


def _gru(sums: Sequence[Vector], state: Sequence[Vector]) -> Sequence[Vector]:
    reset, update, of_inputs, of_state = sums
    candidate = (of_inputs + reset.sigmoid() * of_state).tanh()
    return (candidate + update.sigmoid() * (state[0] - candidate),)


def _lstm(sums: Sequence[Vector], state: Sequence[Vector]) -> Sequence[Vector]:
    write, keep, candidate, read = sums
    cell = keep.sigmoid() * state[1] + write.sigmoid() * candidate.tanh()
    return read.sigmoid() * cell.tanh(), cell


def _mingru(sums: Sequence[Vector], state: Sequence[Vector]) -> Sequence[Vector]:
    gate, candidate = sums
    positive = (candidate + 0.5).where(candidate.compare(">=", 0.0), candidate.sigmoid())
    return ((-gate).sigmoid() * state[0] + gate.sigmoid() * positive,)


UNITS = {
    "gru": Units(4, 1, 3, ((0, 0, 2), (3, 2, 1)), _gru),
    "lstm": Units(4, 2, 4, ((0, 0, 4),), _lstm),
    "mingru": Units(2, 1, 2, (), _mingru),
}
"""Units of ``models/recurrent.py``, whose results these equal."""


class _Word(IntEnum):
    """Words of the argument table."""

    STEPS = 0
    SEQUENCES = auto()
    KEEPING = auto()  # 1 if the sums and states before each step are kept, else 0: they have one step
    WANTED = auto()  # 1 if derivatives of inputs are wanted, else 0
    INPUTS = auto()  # [steps, sequences, inputs]
    START = auto()  # [sequences, state], before the first step
    BEGINS = auto()  # [steps, sequences] bool
    STATES = auto()  # [steps, sequences, state], or their derivatives
    BEFORE = auto()  # [steps, sequences, state], before each step
    SUMS = auto()  # [steps, sequences, gates], without biases
    INPUT_WEIGHT = auto()  # [gates, inputs], transposed in the forward pass
    STATE_WEIGHT = auto()  # [gates, units], transposed in the forward pass
    INPUT_BIAS = auto()  # [gates]
    STATE_BIAS = auto()  # [gates]
    SUM_DELTAS = auto()  # [steps, sequences, gates], derivatives
    INPUT_DELTAS = auto()  # [steps, sequences, inputs], derivatives
    STATE_DELTAS = auto()  # [sequences, state], derivatives of the state before a step
    INPUT_WEIGHT_GRADIENT = auto()
    STATE_WEIGHT_GRADIENT = auto()
    INPUT_BIAS_GRADIENT = auto()
    STATE_BIAS_GRADIENT = auto()


_PARAMETERS = (_Word.INPUT_WEIGHT, _Word.STATE_WEIGHT, _Word.INPUT_BIAS, _Word.STATE_BIAS)


class _Emitter:
    """Emits the passes.

    Args:
        kind: key of :data:`UNITS`.
        inputs: number of inputs.
        units: number of units.
    """

    def __init__(self, kind: str, inputs: int, units: int) -> None:
        self.kind, self.inputs, self.units = UNITS[kind], inputs, units
        self.gates, self.state = self.kind.gates * units, self.kind.numbers * units

    def emit(self, module: ir.Module, lanes: int) -> None:
        """Emit the functions ``forward``, ``backward`` and ``weights`` into a module."""
        for name, emit in (("forward", self._forward), ("backward", self._backward), ("weights", self._weights)):
            self.code = Code(module, name, lanes)
            self.steps, self.sequences = (self.code.word(word) for word in (_Word.STEPS, _Word.SEQUENCES))
            emit()
            self.code.finish()

    def _forward(self) -> None:
        code, kind, units = self.code, self.kind, self.units
        with self._tiles() as (first, count), code.loop(self.steps) as t:
            kept = code.times(t, code.word(_Word.KEEPING))
            inputs = self._rows(_Word.INPUTS, t, first, self.inputs)
            states = self._rows(_Word.STATES, t, first, self.state)
            before = self._rows(_Word.BEFORE, kept, first, self.state)
            sums = self._rows(_Word.SUMS, kept, first, self.gates)
            is_first = code.builder.icmp_signed("==", t, code.integer(0))
            earlier = self._rows(_Word.STATES, code.subtract(t, 1), first, self.state)
            start = self._rows(_Word.START, 0, first, self.state)
            earlier = code.builder.select(is_first, start, earlier)
            with code.loop(count) as row:
                place = code.times(row, self.state)
                copy_floats(code, before, place, earlier, place, self.state)
            self._reset(before, t, first, count)
            weight, contributing = code.pointer(_Word.INPUT_WEIGHT), kind.of_inputs * units
            size = (count, contributing, self.inputs)
            multiply(code, Matrix(sums, self.gates), Matrix(inputs, self.inputs), Matrix(weight, contributing), size)
            total = sum(number for _, _, number in kind.of_state) * units
            for gate, place, number in kind.of_state:
                weight = code.at(code.pointer(_Word.STATE_WEIGHT), place * units)
                target, size = Matrix(code.at(sums, gate * units), self.gates), (count, number * units, units)
                is_added = gate < kind.of_inputs
                multiply(code, target, Matrix(before, self.state), Matrix(weight, total), size, add=is_added)
            with code.loop(count) as row:
                for unit, width in self._spans(units):
                    after = kind.formula(*self._variables(sums, before, row, unit, width))
                    self._store(after, states, self.state, row, unit)

    def _backward(self) -> None:
        code, kind, units = self.code, self.kind, self.units
        is_wanted = code.builder.icmp_signed("!=", code.word(_Word.WANTED), code.integer(0))
        with self._tiles() as (first, count), code.loop(self.steps) as done:
            t = code.subtract(code.subtract(self.steps, 1), done)
            states = self._rows(_Word.STATES, t, first, self.state)
            before = self._rows(_Word.BEFORE, t, first, self.state)
            sums = self._rows(_Word.SUMS, t, first, self.gates)
            deltas = self._rows(_Word.SUM_DELTAS, t, first, self.gates)
            carried = self._rows(_Word.STATE_DELTAS, 0, first, self.state)
            with code.loop(count) as row:
                for unit, width in self._spans(units):
                    of_sums, of_state = self._variables(sums, before, row, unit, width)
                    own = self._load(states, self.state, row, unit, width)
                    later = self._load(carried, self.state, row, unit, width)
                    output = code.spread(0.0, width)
                    for after, x, y in zip(kind.formula(of_sums, of_state), own, later, strict=True):
                        output = output + after * (x + y)
                    derivatives = gradients(output, [*of_sums, *of_state])
                    self._store(derivatives[: kind.gates], deltas, self.gates, row, unit)
                    self._store(derivatives[kind.gates :], carried, self.state, row, unit)
            for gate, place, number in kind.of_state:
                weight = code.at(code.pointer(_Word.STATE_WEIGHT), place * units * units)
                source, size = Matrix(code.at(deltas, gate * units), self.gates), (count, units, number * units)
                multiply(code, Matrix(carried, self.state), source, Matrix(weight, units), size, add=True)
            self._reset(carried, t, first, count)
            with code.builder.if_then(is_wanted):
                target = Matrix(self._rows(_Word.INPUT_DELTAS, t, first, self.inputs), self.inputs)
                weight, size = code.pointer(_Word.INPUT_WEIGHT), (count, self.inputs, kind.of_inputs * units)
                multiply(code, target, Matrix(deltas, self.gates), Matrix(weight, self.inputs), size)

    def _weights(self) -> None:
        code, kind, units = self.code, self.kind, self.units
        deltas, rows = code.pointer(_Word.SUM_DELTAS), code.times(self.steps, self.sequences)
        one = code.allocate(F32)
        code.builder.store(ir.Constant(F32, 1.0), one)
        runs = [(_Word.INPUTS, self.inputs, self.inputs, 0, (0, 0, kind.of_inputs))]
        runs += [(_Word.BEFORE, self.state, units, 1, run) for run in kind.of_state]
        with code.loop(rows, step=_ROWS) as first:
            count = self._at_most(_ROWS, code.subtract(rows, first))
            for word, stride, width, number, (gate, place, gates) in runs:
                weight, bias = (code.pointer(_Word.INPUT_WEIGHT_GRADIENT + number + offset) for offset in (0, 2))
                begin, end = code.share(gates * units)
                own = code.at(deltas, code.add(code.times(first, self.gates), gate * units))
                target = Matrix(code.at(weight, code.times(code.add(begin, place * units), width)), width)
                source = Matrix(code.at(code.pointer(word), code.times(first, stride)), stride)
                size = (code.subtract(end, begin), width, count)
                multiply(code, target, Matrix(code.at(own, begin), 1, self.gates), source, size, add=True)
                with code.builder.if_then(code.builder.icmp_signed("==", code.part, code.integer(0))):
                    target = Matrix(code.at(bias, place * units), 0)
                    size = (1, gates * units, count)
                    multiply(code, target, Matrix(one, 0, 0), Matrix(own, self.gates), size, add=True)

    # -- parts of passes

    @contextmanager
    def _tiles(self) -> Iterator[tuple[Any, Any]]:
        """Repeat for each tile of the part: its first sequence and their number."""
        first, last = self.code.share(self.sequences)
        with self.code.loop(last, start=first, step=_SEQUENCES) as start:
            yield start, self._at_most(_SEQUENCES, self.code.subtract(last, start))

    def _at_most(self, most: int, count: Any) -> Any:
        builder, limit = self.code.builder, self.code.integer(most)
        return builder.select(builder.icmp_signed("<", count, limit), count, limit)

    def _rows(self, word: _Word, t: Any, first: Any, width: int) -> Any:
        """Return the address of the rows of a tile in ``[steps, sequences, width]``."""
        code = self.code
        return code.at(code.pointer(word), code.times(code.add(code.times(t, self.sequences), first), width))

    def _reset(self, states: Any, t: Any, first: Any, count: Any) -> None:
        """Set states to zero where an episode begins with step ``t``."""
        code, kind = self.code, ir.IntType(8)
        begins = code.at(code.pointer(_Word.BEGINS, kind), code.add(code.times(t, self.sequences), first))
        with code.loop(count) as row:
            begin = code.builder.icmp_signed("!=", code.scalar(begins, row), ir.Constant(kind, 0))
            with code.builder.if_then(begin):
                for number, width in self._spans(self.state):
                    code.store(code.spread(0.0, width), states, code.add(code.times(row, self.state), number))

    # -- rows in vectors

    def _spans(self, count: int) -> Iterator[tuple[Any, int]]:
        """Repeat for each vector of ``count`` elements: its first element and its lanes, fewer at the end."""
        lanes = self.code.lanes
        done = count // lanes * lanes
        if done:
            with self.code.loop(done, step=lanes) as first:
                yield first, lanes
        while done < count:
            width = 1 << ((count - done).bit_length() - 1)
            yield done, width
            done += width

    def _load(self, memory: Any, size: int, row: Any, first: Any, width: int) -> list[Vector]:
        """Return vectors from element ``first`` of each ``units`` elements of a row."""
        code, start = self.code, self.code.add(self.code.times(row, size), first)
        return [code.load(memory, code.add(start, place), width) for place in range(0, size, self.units)]

    def _store(self, vectors: Sequence[Vector], memory: Any, size: int, row: Any, first: Any) -> None:
        """Store vectors from element ``first`` of each ``units`` elements of a row."""
        start = self.code.add(self.code.times(row, size), first)
        for number, vector in enumerate(vectors):
            self.code.store(vector, memory, self.code.add(start, number * self.units))

    def _variables(self, sums: Any, before: Any, row: Any, first: Any, width: int) -> tuple[list[Vector], list[Vector]]:
        """Return the sums with their biases, and the state before a step, of the units from ``first`` on."""
        code, kind, units = self.code, self.kind, self.units
        found = self._load(sums, self.gates, row, first, width)
        runs = [(_Word.INPUT_BIAS, (0, 0, kind.of_inputs)), *((_Word.STATE_BIAS, run) for run in kind.of_state)]
        for word, (gate, place, number) in runs:
            for n in range(number):
                bias = code.load(code.pointer(word), code.add(first, (place + n) * units), width)
                found[gate + n] = found[gate + n] + bias
        state = self._load(before, self.state, row, first, width)
        return [code.variable(x) for x in found], [code.variable(x) for x in state]


class CompiledRecurrence:
    """Passes of recurrent units over sequences, whichever tensors hold their parameters.

    Args:
        kind: key of :data:`UNITS`.
        inputs: number of inputs.
        units: number of units.
    """

    def __init__(self, kind: str, inputs: int, units: int) -> None:
        self._emitter = _Emitter(kind, inputs, units)
        self._specialisation = f"recurrence {kind} {inputs} {units}"
        has_state_weight = bool(UNITS[kind].of_state)
        self._parameters = _PARAMETERS if has_state_weight else _PARAMETERS[::2]

    @cached_property
    def _program(self) -> Program:
        return program_of(self._emitter.emit, self._specialisation)

    def __call__(self, inputs: Tensor, state: Tensor, begins: Tensor, parameters: Sequence[Tensor]) -> Tensor:
        """Return the states after each step of sequences, with gradient where PyTorch records one.

        Args:
            inputs: ``[T, n, inputs]`` float32 on the CPU.
            state: ``[n, state_size]`` float32, before the first step.
            begins: ``[T, n]`` bool, True where the state is reset to zero before the step.
            parameters: weights of inputs and, if there is one, of the state, each ``[gates, ...]``; then their biases.

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
        """Return the states, and with ``keep`` what the backward pass needs: states before each step, and sums."""
        steps, sequences, _ = inputs.shape
        states = inputs.new_empty(steps, *state.shape)
        before = inputs.new_empty(steps if keep else 1, *state.shape)
        sums = inputs.new_empty(len(before), sequences, self._emitter.gates)
        transposed = [each.t() if each.dim() > 1 else each for each in parameters]
        arrays: dict[int, Tensor] = {
            _Word.START: state,
            _Word.BEGINS: begins,
            _Word.STATES: states,
            _Word.BEFORE: before,
            _Word.SUMS: sums,
        }
        self._run(["forward"], inputs, transposed, arrays, {_Word.KEEPING: int(keep)})
        return states, before, sums

    def backward(
        self, inputs: Tensor, kept: Sequence[Tensor], parameters: Sequence[Tensor], derivatives: Tensor, of_inputs: bool
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Return the gradients of inputs, of the state before the first step, and of parameters.

        Args:
            inputs: ``[T, n, inputs]``.
            kept: ``begins``, states before each step, and sums.
            parameters: see :meth:`__call__`.
            derivatives: ``[T, n, state_size]``, derivatives of the states.
            of_inputs: If False, the gradient of the inputs is not computed.

        Returns:
            Gradients; that of the inputs is undefined without ``of_inputs``.
        """
        begins, before, sums = kept
        gradients_of_parameters = [each.new_zeros(each.shape) for each in parameters]
        found = inputs.new_empty(inputs.shape), inputs.new_zeros(before.shape[1:]), gradients_of_parameters
        arrays: dict[int, Tensor] = {
            _Word.BEGINS: begins,
            _Word.STATES: derivatives,
            _Word.BEFORE: before,
            _Word.SUMS: sums,
            _Word.SUM_DELTAS: torch.empty_like(sums),
            _Word.INPUT_DELTAS: found[0],
            _Word.STATE_DELTAS: found[1],
        }
        pairs = zip(self._parameters, found[2], strict=True)
        arrays |= {_Word(_Word.INPUT_WEIGHT_GRADIENT + word - _Word.INPUT_WEIGHT): each for word, each in pairs}
        self._run(["backward", "weights"], inputs, parameters, arrays, {_Word.KEEPING: 1, _Word.WANTED: int(of_inputs)})
        return found

    def _run(
        self,
        functions: Sequence[str],
        inputs: Tensor,
        parameters: Sequence[Tensor],
        arrays: Mapping[int, Tensor],
        numbers: Mapping[int, int],
    ) -> None:
        """Run functions, one after the other."""
        steps, sequences, _ = inputs.shape
        tensors: dict[int, Tensor] = {
            **arrays,
            _Word.INPUTS: inputs,
            **dict(zip(self._parameters, parameters, strict=True)),
        }
        whole = {word: tensor.contiguous() for word, tensor in tensors.items()}
        sizes = {**numbers, _Word.STEPS: steps, _Word.SEQUENCES: sequences}
        table = table_of({**sizes, **whole}, len(_Word))
        parts = min(parts_of(steps * sequences), get_num_threads())
        for function in functions:
            self._program.run(function, address_of(table), parts)

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledRecurrence:
        return self


class _Pass(torch.autograd.Function):
    """Operator of PyTorch for recurrent units."""

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
