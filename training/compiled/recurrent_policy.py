"""Native gradient of the losses of PPO and A2C of recurrent models: backpropagation through time.

A part of a minibatch has some of its sequences. It gathers their observations, encodes them, runs the recurrent units
over the steps, computes the losses of all rows and their derivatives, and runs everything backward. Intermediate
results are buffers ``[steps, sequences of the part, elements]``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from warpdrive.training.compiled.gradient import Inputs, Word
from warpdrive.training.compiled.matrix import Matrix, transpose
from warpdrive.training.compiled.network import ROWS, copy_floats, fill
from warpdrive.training.compiled.policy_gradient import PolicyGradient, PolicyPlan
from warpdrive.training.compiled.simd import F32, I8, I64
from warpdrive.training.compiled.units import PARAMETERS, Array, Recurrence, Trunk


@dataclass(frozen=True, kw_only=True)
class RecurrentPolicyPlan(PolicyPlan):
    """Plan of PPO and A2C with a recurrent model.

    Attributes:
        trunks: One shared trunk, or one for the policy and one for the value function.
        state_size: Number of elements of the recurrent state of the model.
    """

    trunks: tuple[Trunk, ...] = ()
    state_size: int = 0

    def gradient(self, module: ir.Module, lanes: int) -> RecurrentPolicyGradient:
        """See ``Plan``."""
        return RecurrentPolicyGradient(self, module, lanes)


class RecurrentPolicyGradient(PolicyGradient):
    """Emitter of the gradient of the losses of PPO and A2C with a recurrent model."""

    plan: RecurrentPolicyPlan

    def __init__(self, plan: RecurrentPolicyPlan, module: ir.Module, lanes: int) -> None:
        super().__init__(plan, module, lanes)
        self.others("start", "begins")
        self._begins = self.buffer("own begins", plan.steps)  # bytes, of which there is room for more
        self._trunks = [_Trunk(self, number, trunk) for number, trunk in enumerate(plan.trunks)]

    def rows_of_part(self, begin: Any, end: Any) -> None:
        """See ``Gradient``."""
        code, plan = self.code, self.plan
        sequences = code.divide(code.subtract(end, begin), plan.steps)
        first, last = code.share(sequences)
        self._first, self._count = first, code.subtract(last, first)
        self._total = code.times(self._count, plan.steps)

        def place_of(row: Any) -> Any:
            """Return the index of a row of the part in the order of all minibatches."""
            step = code.divide(row, self._count)
            sequence = code.subtract(row, code.times(step, self._count))
            return code.add(code.add(begin, code.times(step, sequences)), code.add(first, sequence))

        def gather(start: Any, *what: Any) -> None:
            def place(r: Any) -> tuple[Any, Any]:
                row, is_inside = self.within(code.add(start, r), self._total)
                return place_of(row), is_inside

            self.gather(place, *what)

        self._prepare(place_of)
        observations = [self._observations]
        states = [each for each in self._inputs if each is not self._observations]
        with self._tiles() as (start, own):
            gather(start, observations, [])
            for trunk in self._trunks:
                trunk.encode(self._observations, start, own)
        for trunk in self._trunks:
            trunk.forward()
        with self._tiles() as (start, own):
            gather(start, states, self._columns)
            for trunk in self._trunks:
                trunk.load_states(start, own)
            self.tile()
            for trunk in self._trunks:
                trunk.store_deltas(start, own)
        for trunk in self._trunks:
            trunk.backward()
        if any(trunk.encoder for trunk in self._trunks):
            with self._tiles() as (start, own):
                gather(start, observations, [])
                for trunk in self._trunks:
                    trunk.encode_backward(self._observations, start, own)

    def tile(self) -> None:
        """See ``Gradient``."""
        plan, of_policy, of_value = self.plan, self._trunks[0], self._trunks[-1]
        self._policy_loss(self.forward(self._policy, of_policy.columns))
        self.backward(self._policy, of_policy.rows, of_policy.deltas)
        if plan.value and plan.states:
            self._value_loss(self.forward(self._value, self._states.columns))
            self.backward(self._value, self._states.rows)
        elif plan.value:
            self._value_loss(self.forward(self._value, of_value.columns))
            self.backward(self._value, of_value.rows, of_value.deltas, add=of_value is of_policy)

    def own(self, name: str, kind: ir.Type = F32) -> Any:
        """Return the address of the part's own elements of a buffer."""
        memory = self.code.at(self.array(name), self.code.times(self._first, self.buffers[name]))
        return memory if kind is F32 else self.code.builder.bitcast(memory, kind.as_pointer())

    @contextmanager
    def _tiles(self) -> Iterator[tuple[Any, Any]]:
        """Emit a loop over the tiles of the part's rows; yield the first row of a tile and the number of its rows."""
        code = self.code
        with code.loop(self._total, step=ROWS) as start:
            yield start, code.smaller(ROWS, code.subtract(self._total, start))

    def _prepare(self, place_of: Callable[[Any], Any]) -> None:
        """Copy the initial states of the part's sequences and the flags of new episodes, and transpose weights."""
        code, order = self.code, self.code.pointer(Word.ORDER, I64)
        begins, own_begins = self.array("begins", I8), self.own(self._begins, I8)
        with code.loop(self._total) as row:
            begin = code.scalar(begins, code.scalar(order, place_of(row)))
            code.builder.store(begin, code.at(own_begins, row))
        for trunk in self._trunks:
            trunk.begin(self.own, own_begins, self._count)
        with code.loop(self._count) as sequence:
            state = code.times(code.scalar(order, place_of(sequence)), self.plan.state_size)
            for trunk in self._trunks:
                size = trunk.recurrence.state
                copy_floats(
                    code, trunk.arrays[Array.START], code.times(sequence, size), self.array("start"), state, size
                )
                state = code.add(state, size)


class _Trunk:
    """Emitter of the forward and backward passes of a trunk.

    Args:
        gradient: Emitter of the gradient.
        number: Index of the trunk.
        plan: The trunk.

    Attributes:
        rows: Index of a tile of outputs ``[ROWS, units]``, and its row stride.
        columns: Index of the same tile, transposed: ``[units, ROWS]``.
        deltas: Index of its derivatives ``[units, ROWS]``.
    """

    def __init__(self, gradient: RecurrentPolicyGradient, number: int, plan: Trunk) -> None:
        self.gradient, self.plan, self.code = gradient, plan, gradient.code
        self.recurrence = Recurrence(plan.kind, plan.inputs, plan.units)
        self.encoder = gradient.network(plan.encoder) if plan.encoder else None
        workspace, padded, state = gradient.workspace, gradient.workspace.padded, self.recurrence.state
        self.rows = workspace.matrix(ROWS, plan.units)
        self.columns, self.deltas = (workspace.take(padded(plan.units) * ROWS) for _ in range(2))
        self._features = workspace.matrix(ROWS, plan.inputs)
        steps = gradient.plan.steps
        sizes = {
            Array.INPUTS: steps * plan.inputs,
            Array.START: state,
            Array.STATES: steps * state,
            Array.BEFORE: steps * state,
            Array.SUMS: steps * self.recurrence.gates,
            Array.START_DELTAS: state,
        }
        if self.encoder:
            sizes[Array.INPUTS_DELTAS] = steps * plan.inputs
        self._buffers = {array: gradient.buffer(f"{array.name} {number}", size) for array, size in sizes.items()}
        self._transposed = [workspace.take(rows * columns) for rows, columns in self.recurrence.shapes]
        self.arrays: dict[Array, Any] = {}

    def begin(self, own: Callable[[str], Any], begins: Any, sequences: Any) -> None:
        """Set the addresses of the part's arrays, and transpose the weights."""
        code, gradient, plan = self.code, self.gradient, self.plan
        self.arrays = {array: own(name) for array, name in self._buffers.items()}
        arrays = self.arrays
        # derivatives overwrite the values they belong to
        arrays |= {
            Array.STATES_DELTAS: arrays[Array.STATES],
            Array.SUMS_DELTAS: arrays[Array.SUMS],
            Array.BEGINS: begins,
        }
        for number, place in zip(PARAMETERS[plan.kind], plan.parameters, strict=True):
            arrays[Array(Array.INPUT_WEIGHT + number)] = code.at(gradient.parameters, place)
            arrays[Array(Array.INPUT_WEIGHT_GRADIENT + number)] = code.at(gradient.gradient, place)
        for number, place in enumerate(self._transposed):
            arrays[Array(Array.INPUT_WEIGHT_TRANSPOSED + number)] = code.at(gradient.memory, place)
        self.recurrence.begin(code, arrays, gradient.plan.steps, sequences)
        self.recurrence.transpose_weights()

    def encode(self, observations: Inputs, start: Any, own: Any) -> None:
        """Compute the inputs of the units for a tile."""
        rows = observations.rows
        if self.encoder:
            found, rows = self.gradient.forward(self.encoder, observations.columns), self._features
            self._transpose(rows, (found, ROWS), self.plan.inputs, ROWS)
        self._store(rows, Array.INPUTS, self.plan.inputs, start, own, self.plan.inputs)

    def forward(self) -> None:
        """Run the units over all steps."""
        self.recurrence.forward((0, self.recurrence.sequences))

    def load_states(self, start: Any, own: Any) -> None:
        """Load the outputs of the units for a tile."""
        self._load(self.rows, Array.STATES, self.recurrence.state, start, own, self.plan.units)
        self._transpose((self.columns, ROWS), self.rows, ROWS, self.plan.units)

    def store_deltas(self, start: Any, own: Any) -> None:
        """Store the derivatives of the outputs of the units for a tile."""
        self._transpose(self.rows, (self.deltas, ROWS), self.plan.units, ROWS)
        self._store(self.rows, Array.STATES_DELTAS, self.recurrence.state, start, own, self.plan.units)

    def backward(self) -> None:
        """Backpropagate through all steps, and add to the gradient of the parameters."""
        self.recurrence.backward((0, self.recurrence.sequences), of_outputs=True)
        self.recurrence.weights(lambda count: (0, count), ir.Constant(ir.IntType(1), 1))

    def encode_backward(self, observations: Inputs, start: Any, own: Any) -> None:
        """Backpropagate through the encoder for a tile."""
        if self.encoder:
            inputs = self.plan.inputs
            self.gradient.forward(self.encoder, observations.columns)
            self._load(self._features, Array.INPUTS_DELTAS, inputs, start, own, inputs)
            self._transpose((self.encoder.deltas[-1], ROWS), self._features, ROWS, inputs)
            self.gradient.backward(self.encoder, observations.rows)

    def _transpose(self, target: tuple[int, int], source: tuple[int, int], rows: int, columns: int) -> None:
        """Transpose ``[rows, columns]`` in the workspace, given the indices and row strides of both."""
        code, memory = self.code, self.gradient.memory
        of_target, of_source = (Matrix(code.at(memory, place), width) for place, width in (target, source))
        transpose(code, of_target, of_source, rows, columns)

    def _load(self, rows: tuple[int, int], array: Array, stride: int, start: Any, own: Any, size: int) -> None:
        """Copy the first ``size`` elements of rows to a tile; missing rows are zero."""
        code, (place, width), memory = self.code, rows, self.gradient.memory
        fill(code, memory, place, ROWS * width)
        with code.loop(own) as r:
            target, source = code.add(code.times(r, width), place), code.times(code.add(start, r), stride)
            copy_floats(code, memory, target, self.arrays[array], source, size)

    def _store(self, rows: tuple[int, int], array: Array, stride: int, start: Any, own: Any, size: int) -> None:
        """Copy the rows of a tile to the first ``size`` elements of rows."""
        code, (place, width), memory = self.code, rows, self.gradient.memory
        with code.loop(own) as r:
            target, source = code.times(code.add(start, r), stride), code.add(code.times(r, width), place)
            copy_floats(code, self.arrays[array], target, memory, source, size)
