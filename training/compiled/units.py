"""Recurrent units: forward and backward passes over the steps of sequences.

Arrays are ``[steps, sequences, elements]``: lanes are elements, and a tile is some sequences of a step. Each number is
computed in the same order whatever the tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum, auto
from typing import Any

from llvmlite import ir

from warpdrive.training.compiled.matrix import Matrix, multiply, transpose
from warpdrive.training.compiled.network import Dense, copy_floats
from warpdrive.training.compiled.simd import F32, Code, Vector, gradients

_SEQUENCES = 48  # per tile: its rows of a step stay in the cache, and its matrix products have whole tiles
_ROWS = 512  # contributions of this many rows to the gradient of a weight are summed while they are in the cache

Formula = Callable[[Sequence[Vector], Sequence[Vector]], Sequence[Vector]]


@dataclass(frozen=True)
class Units:
    """Kind of recurrent units, whose pre-activations are sums of products of the inputs and of the previous state.

    Attributes:
        gates: Number of sums per unit.
        numbers: Number of elements of the state per unit; weights apply to the first.
        of_inputs: Number of sums, the first ones, to which inputs contribute.
        of_state: Sums to which the state contributes, as runs: the first sum, the first gate in the weight, and their
            number.
        formula: Returns the next state of units from their sums and their previous state.
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
"""Units of ``models/recurrent.py``, with the same results."""


PARAMETERS = {kind: (0, 1, 2, 3) if units.of_state else (0, 2) for kind, units in UNITS.items()}
"""Parameters of each kind of units, as offsets from ``Array.INPUT_WEIGHT``; some kinds have no weight of the state."""


@dataclass(frozen=True)
class Trunk:
    """Encoder and recurrent units of a policy, a value function or both.

    Attributes:
        encoder: Layers of the encoder, possibly none.
        kind: Key of ``UNITS``.
        inputs: Number of inputs of the units.
        units: Number of units.
        parameters: Indices of the units' parameters in the vector of all parameters, if there is one.
    """

    encoder: tuple[Dense, ...]
    kind: str
    inputs: int
    units: int
    parameters: tuple[int, ...] = ()


class Array(IntEnum):
    """Arrays of the forward and backward passes."""

    INPUTS = 0  # [steps, sequences, inputs]
    START = auto()  # [sequences, state], before the first step
    BEGINS = auto()  # [steps, sequences] bool
    STATES = auto()  # [steps, sequences, state], after each step
    STATES_DELTAS = auto()  # the same, their derivatives
    BEFORE = auto()  # [steps, sequences, state], before each step
    SUMS = auto()  # [steps, sequences, gates], without biases
    SUMS_DELTAS = auto()  # the same, their derivatives; may be the same array
    INPUTS_DELTAS = auto()  # [steps, sequences, inputs], derivatives; missing, or at address 0, if not requested
    START_DELTAS = auto()  # [sequences, state], derivatives of the state before the first step
    INPUT_WEIGHT = auto()  # [gates, inputs]
    STATE_WEIGHT = auto()  # [gates, units]
    INPUT_BIAS = auto()  # [gates]
    STATE_BIAS = auto()  # [gates]
    INPUT_WEIGHT_TRANSPOSED = auto()
    STATE_WEIGHT_TRANSPOSED = auto()
    INPUT_WEIGHT_GRADIENT = auto()
    STATE_WEIGHT_GRADIENT = auto()
    INPUT_BIAS_GRADIENT = auto()
    STATE_BIAS_GRADIENT = auto()


class Recurrence:
    """Emitter of the forward and backward passes of recurrent units.

    Args:
        kind: Key of :data:`UNITS`.
        inputs: Number of inputs.
        units: Number of units.

    Attributes:
        gates: Number of sums of a step.
        state: Number of elements of the state.
        shapes: Shapes of the weights of inputs and, if there is one, of the state.
    """

    def __init__(self, kind: str, inputs: int, units: int) -> None:
        self.kind, self.inputs, self.units = UNITS[kind], inputs, units
        self.gates, self.state = self.kind.gates * units, self.kind.numbers * units
        self.shapes = [(self.kind.of_inputs * units, inputs)]
        if self.kind.of_state:
            self.shapes.append((sum(number for _, _, number in self.kind.of_state) * units, units))

    def begin(self, code: Code, arrays: Mapping[Array, Any], steps: Any, sequences: Any) -> None:
        """Set the operands of the passes.

        Args:
            code: Code to emit into.
            arrays: Addresses of the arrays.
            steps: Number of steps.
            sequences: Number of sequences.
        """
        self.code, self.arrays, self.steps, self.sequences = code, arrays, steps, sequences

    def forward(self, bounds: tuple[Any, Any], keeping: Any = 1) -> None:
        """Emit the forward pass.

        Args:
            bounds: First and last sequence, exclusive.
            keeping: 1 if the sums and states before each step are kept; 0 if these arrays have a single step.
        """
        code, kind, units, arrays = self.code, self.kind, self.units, self.arrays
        with self._tiles(bounds) as (first, count), code.loop(self.steps) as t:
            kept = code.times(t, keeping)
            states = self._rows(Array.STATES, t, first, self.state)
            before = self._rows(Array.BEFORE, kept, first, self.state)
            sums = self._rows(Array.SUMS, kept, first, self.gates)
            start = self._rows(Array.START, 0, first, self.state)
            earlier = self._rows(Array.STATES, code.subtract(t, 1), first, self.state)
            is_first = code.builder.icmp_signed("==", code.integer(t), code.integer(0))
            earlier = code.builder.select(is_first, start, earlier)
            with code.loop(count) as row:
                place = code.times(row, self.state)
                copy_floats(code, before, place, earlier, place, self.state)
            self._reset(before, t, first, count)
            inputs = Matrix(self._rows(Array.INPUTS, t, first, self.inputs), self.inputs)
            contributing = kind.of_inputs * units
            weight = Matrix(arrays[Array.INPUT_WEIGHT_TRANSPOSED], contributing)
            multiply(code, Matrix(sums, self.gates), inputs, weight, (count, contributing, self.inputs))
            for gate, place, number in kind.of_state:
                weight = Matrix(code.at(arrays[Array.STATE_WEIGHT_TRANSPOSED], place * units), self.shapes[1][0])
                target, size = Matrix(code.at(sums, gate * units), self.gates), (count, number * units, units)
                multiply(code, target, Matrix(before, self.state), weight, size, add=gate < kind.of_inputs)
            with code.loop(count) as row:
                for unit, width in self._spans(units):
                    after = kind.formula(*self._variables(sums, before, row, unit, width))
                    self._store(after, states, self.state, row, unit)

    def backward(self, bounds: tuple[Any, Any], of_outputs: bool = False) -> None:
        """Emit the backward pass from the derivatives of the states to those of sums, inputs and the initial state.

        Args:
            bounds: First and last sequence, exclusive.
            of_outputs: If True, derivatives are given for the first state element of each unit; the others are zero.
        """
        with self._tiles(bounds) as (first, count):
            with self.code.loop(count) as row:
                self.clear(self._rows(Array.START_DELTAS, 0, first, self.state), row)
            with self.code.loop(self.steps) as done:
                self._step_back(first, count, self.code.subtract(self.code.subtract(self.steps, 1), done), of_outputs)

    def _step_back(self, first: Any, count: Any, t: Any, of_outputs: bool) -> None:
        """Emit the backward pass of a tile through a step."""
        code, kind, units, arrays = self.code, self.kind, self.units, self.arrays
        states = self._rows(Array.STATES_DELTAS, t, first, self.state)
        before = self._rows(Array.BEFORE, t, first, self.state)
        sums = self._rows(Array.SUMS, t, first, self.gates)
        deltas = self._rows(Array.SUMS_DELTAS, t, first, self.gates)
        carried = self._rows(Array.START_DELTAS, 0, first, self.state)
        with code.loop(count) as row:
            for unit, width in self._spans(units):
                of_sums, of_state = self._variables(sums, before, row, unit, width)
                own = self._load(states, self.state, row, unit, width)
                later = self._load(carried, self.state, row, unit, width)
                output = code.broadcast(0.0, width)
                for number, after in enumerate(kind.formula(of_sums, of_state)):
                    is_given = number == 0 or not of_outputs
                    output = output + after * (own[number] + later[number] if is_given else later[number])
                derivatives = gradients(output, [*of_sums, *of_state])
                self._store(derivatives[: kind.gates], deltas, self.gates, row, unit)
                self._store(derivatives[kind.gates :], carried, self.state, row, unit)
        for gate, place, number in kind.of_state:
            weight = Matrix(code.at(arrays[Array.STATE_WEIGHT], place * units * units), units)
            source, size = Matrix(code.at(deltas, gate * units), self.gates), (count, units, number * units)
            multiply(code, Matrix(carried, self.state), source, weight, size, add=True)
        self._reset(carried, t, first, count)
        if Array.INPUTS_DELTAS in arrays:
            address = arrays[Array.INPUTS_DELTAS]
            is_wanted = code.builder.icmp_unsigned("!=", address, ir.Constant(address.type, None))
            with code.builder.if_then(is_wanted):
                target = Matrix(self._rows(Array.INPUTS_DELTAS, t, first, self.inputs), self.inputs)
                weight, contributing = Matrix(arrays[Array.INPUT_WEIGHT], self.inputs), kind.of_inputs * units
                multiply(code, target, Matrix(deltas, self.gates), weight, (count, self.inputs, contributing))

    def weights(self, share: Callable[[int], tuple[Any, Any]], has_biases: Any) -> None:
        """Emit the addition of derivatives of parameters to their gradients.

        Args:
            share: Returns the bounds of the gates to compute, given their number.
            has_biases: Bit that is True if the gradients of the biases are computed.
        """
        code, kind, units, arrays = self.code, self.kind, self.units, self.arrays
        rows, one = code.times(self.steps, self.sequences), code.allocate(F32)
        code.builder.store(ir.Constant(F32, 1.0), one)
        runs = [(Array.INPUTS, self.inputs, self.inputs, 0, (0, 0, kind.of_inputs))]
        runs += [(Array.BEFORE, self.state, units, 1, run) for run in kind.of_state]
        with code.loop(rows, step=_ROWS) as first:
            count = code.smaller(_ROWS, code.subtract(rows, first))
            for array, stride, width, number, (gate, place, gates) in runs:
                weight = arrays[Array(Array.INPUT_WEIGHT_GRADIENT + number)]
                bias = arrays[Array(Array.INPUT_BIAS_GRADIENT + number)]
                begin, end = share(gates * units)
                own = code.at(arrays[Array.SUMS_DELTAS], code.add(code.times(first, self.gates), gate * units))
                target = Matrix(code.at(weight, code.times(code.add(begin, place * units), width)), width)
                source = Matrix(code.at(arrays[array], code.times(first, stride)), stride)
                size = (code.subtract(end, begin), width, count)
                multiply(code, target, Matrix(code.at(own, begin), 1, self.gates), source, size, add=True)
                with code.builder.if_then(has_biases):
                    target, size = Matrix(code.at(bias, place * units), 0), (1, gates * units, count)
                    multiply(code, target, Matrix(one, 0, 0), Matrix(own, self.gates), size, add=True)

    def transpose_weights(self) -> None:
        """Emit the transposition of the weights for the forward pass."""
        for number, (rows, columns) in enumerate(self.shapes):
            source, target = (
                self.arrays[Array(a + number)] for a in (Array.INPUT_WEIGHT, Array.INPUT_WEIGHT_TRANSPOSED)
            )
            _transpose_exactly(self.code, target, source, rows, columns)

    # -- tiles

    @contextmanager
    def _tiles(self, bounds: tuple[Any, Any]) -> Iterator[tuple[Any, Any]]:
        """Emit a loop over tiles; yield the first sequence of a tile and the number of its sequences."""
        first, last = bounds
        with self.code.loop(last, start=first, step=_SEQUENCES) as start:
            yield start, self.code.smaller(_SEQUENCES, self.code.subtract(last, start))

    def _rows(self, array: Array, t: Any, first: Any, width: int) -> Any:
        """Return the address of the rows of a tile in ``[steps, sequences, width]``."""
        code = self.code
        return code.at(self.arrays[array], code.times(code.add(code.times(t, self.sequences), first), width))

    def _reset(self, states: Any, t: Any, first: Any, count: Any) -> None:
        """Set states to zero where an episode begins with step ``t``."""
        code, kind = self.code, ir.IntType(8)
        begins = code.at(self.arrays[Array.BEGINS], code.add(code.times(t, self.sequences), first))
        with code.loop(count) as row:
            begin = code.builder.icmp_signed("!=", code.scalar(begins, row), ir.Constant(kind, 0))
            with code.builder.if_then(begin):
                self.clear(states, row)

    def clear(self, states: Any, row: Any) -> None:
        """Emit zeros for the state of a row."""
        code = self.code
        for number, width in self._spans(self.state):
            code.store(code.broadcast(0.0, width), states, code.add(code.times(row, self.state), number))

    # -- rows in vectors

    def _spans(self, count: int) -> Iterator[tuple[Any, int]]:
        """Emit a loop over vectors of ``count`` elements; yield the first element and the lanes, fewer at the end."""
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
        """Return a vector from element ``first`` of each group of ``units`` elements of a row."""
        code, start = self.code, self.code.add(self.code.times(row, size), first)
        return [code.load(memory, code.add(start, place), width) for place in range(0, size, self.units)]

    def _store(self, vectors: Sequence[Vector], memory: Any, size: int, row: Any, first: Any) -> None:
        """Store a vector from element ``first`` of each group of ``units`` elements of a row."""
        start = self.code.add(self.code.times(row, size), first)
        for number, vector in enumerate(vectors):
            self.code.store(vector, memory, self.code.add(start, number * self.units))

    def _variables(self, sums: Any, before: Any, row: Any, first: Any, width: int) -> tuple[list[Vector], list[Vector]]:
        """Return the sums with their biases, and the previous state, of the units from ``first`` on."""
        code, kind, units = self.code, self.kind, self.units
        found = self._load(sums, self.gates, row, first, width)
        runs = [(Array.INPUT_BIAS, (0, 0, kind.of_inputs)), *((Array.STATE_BIAS, run) for run in kind.of_state)]
        for array, (gate, place, number) in runs:
            for n in range(number):
                bias = code.load(self.arrays[array], code.add(first, (place + n) * units), width)
                found[gate + n] = found[gate + n] + bias
        state = self._load(before, self.state, row, first, width)
        return [code.variable(x) for x in found], [code.variable(x) for x in state]


def _transpose_exactly(code: Code, target: Any, source: Any, rows: int, columns: int) -> None:
    """Emit ``target [columns, rows] = source [rows, columns]`` transposed, both without padding."""
    if rows % code.lanes == 0 and columns % code.lanes == 0:
        transpose(code, Matrix(target, rows), Matrix(source, columns), rows, columns)
        return
    with code.loop(rows) as i, code.loop(columns) as j:
        value = code.scalar(source, code.add(code.times(i, columns), j))
        code.builder.store(value, code.at(target, code.add(code.times(j, rows), i)))
