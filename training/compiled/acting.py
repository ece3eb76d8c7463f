"""Native forward pass of policies in rollouts: from the observations that the environment writes to the logits.

Results are bitwise equal to those of the operators in the modules ``perceptron`` and ``recurrence``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum, auto
from itertools import count
from typing import Any

import torch
from llvmlite import ir

from warpdrive.training.compiled.matrix import Matrix, transpose
from warpdrive.training.compiled.network import ROWS, Dense, Network, Workspace, copy_columns, copy_floats
from warpdrive.training.compiled.perceptron import addresses_of_parameters
from warpdrive.training.compiled.simd import F32, I8, I32, I64, Code
from warpdrive.training.compiled.units import PARAMETERS, Array, Recurrence, Trunk
from warpdrive.training.models.running_moments import MAX_DEVIATIONS

KINDS = {torch.float32: F32, torch.int32: I32, torch.int64: I64, torch.uint8: I8, torch.bool: I8}
"""LLVM types of the dtypes of observations that native code reads."""


class Word(IntEnum):
    """Words of the argument table.

    Further words hold, for each source, its array and the indices of the tag's agents in it; then the parameters of the
    layers and, for each trunk, those of its encoder and its units.
    """

    NUM_ENVS = 0
    ACTIVE = auto()  # [num_envs, agents] bool
    IDS = auto()  # [agents of the tag] int64
    LOGITS = auto()  # [num_envs, agents of the tag, logits] float32
    OFFSET = auto()  # [inputs] float32, subtracted
    SCALE = auto()  # [inputs] float32, then multiplied
    MEAN = auto()  # [inputs] float32, running mean
    DEVIATION = auto()  # [inputs] float32, running standard deviation
    STATE = auto()  # [num_envs, agents of the tag, state] float32, recurrent state
    TIMESTEP = auto()  # [num_envs] int32
    GREEDY = auto()  # [2] float32, logits of the best action and of the others
    WORKSPACE = auto()  # [parts, size] float32


@dataclass(frozen=True)
class Source:
    """Array of observations of one space, ``[num_envs, agents, *shape]``.

    Attributes:
        dtype: The dtype of the array.
        agents: Number of agents in the array.
        size: Number of elements of an agent.
        choices: Number of values of a Discrete space, which becomes a one-hot vector; 0 for other spaces.
    """

    dtype: torch.dtype
    agents: int
    size: int
    choices: int

    @property
    def columns(self) -> int:
        """Number of inputs."""
        return self.choices or self.size


@dataclass(frozen=True)
class ActingPlan:
    """Properties of a policy's forward pass that native code is specialised for.

    Attributes:
        agents: Number of agents of the tag.
        logits: Number of logits of an agent; those beyond the outputs are not written.
        sources: Observations, in the order of the inputs.
        layers: Layers of the perceptron.
        trunks: Encoders and recurrent units of a recurrent model; the layers follow the first.
        leaving: Number of agents of a replica if agents can leave the episode, else 0. Absent agents observe zeros.
        scaled: True if inputs are scaled.
        normalized: True if inputs are standardised and clipped.
        greedy: True if outputs are action values, which are replaced by logits that select the best action.
    """

    agents: int
    logits: int
    sources: tuple[Source, ...]
    layers: tuple[Dense, ...]
    leaving: int
    scaled: bool
    normalized: bool
    greedy: bool
    trunks: tuple[Trunk, ...] = ()

    @property
    def inputs(self) -> int:
        """Number of inputs."""
        return sum(source.columns for source in self.sources)


class Acting:
    """Emitter of a policy's forward pass."""

    def __init__(self, plan: ActingPlan, lanes: int) -> None:
        self.plan = plan
        workspace, inputs = Workspace(lanes), plan.inputs
        self.rows = workspace.matrix(ROWS, inputs)
        self.columns = workspace.take(workspace.padded(inputs) * ROWS)
        self.network = Network(plan.layers, workspace, backward=False)
        self.trunks = [_Trunk(trunk, workspace) for trunk in plan.trunks]
        self.size = workspace.size

    def emit(self, module: ir.Module, lanes: int) -> None:
        """Emit the function ``act`` into a module."""
        code, plan = Code(module, "act", lanes), self.plan
        builder, inputs, outputs = code.builder, plan.inputs, plan.layers[-1].outputs
        begin, end = (code.times(bound, plan.agents) for bound in code.share(code.word(Word.NUM_ENVS)))
        memory = code.at(code.pointer(Word.WORKSPACE), code.times(code.part, self.size))
        words = count(len(Word))
        sources = [
            (source, code.pointer(next(words), KINDS[source.dtype]), code.pointer(next(words), I64))
            for source in plan.sources
        ]
        parameters = addresses_of_parameters(code, plan.layers, words)
        for trunk in self.trunks:
            trunk.begin(code, memory, words)
        place, width = self.rows
        with code.loop(end, start=begin, step=ROWS) as start:
            own = code.smaller(code.subtract(end, start), ROWS)
            with code.loop(own) as r:
                env, agent = self._agent(code, builder.add(start, r))
                present = self._present(code, env, agent)
                target = code.add(code.times(r, width), place)
                for source, array, places in sources:
                    before = code.add(code.times(env, source.agents), code.scalar(places, agent))
                    _copy(code, memory, target, array, code.times(before, source.size), source, present)
                    target = code.add(target, source.columns)
            source_rows = Matrix(code.at(memory, place), width)
            transpose(code, Matrix(code.at(memory, self.columns), ROWS), source_rows, ROWS, inputs)
            self._standardise(code, memory)
            columns = self._advance_states(code, memory, start, own) if self.trunks else self.columns
            found = self.network.forward(code, memory, parameters, columns)
            if plan.greedy:
                _choose(code, memory, found, outputs)
            logits = Matrix(code.pointer(Word.LOGITS), plan.logits)
            copy_columns(code, memory, found, logits, start, own, outputs, into_rows=True)
        code.finish()

    def _agent(self, code: Code, row: Any) -> tuple[Any, Any]:
        """Return the indices of the replica and of the agent of a row."""
        env = code.divide(row, self.plan.agents)
        return env, code.subtract(row, code.times(env, self.plan.agents))

    def _advance_states(self, code: Code, memory: Any, start: Any, own: Any) -> int:
        """Advance the recurrent states of a tile, and return the index of the inputs of the layers."""
        builder, zero, states = code.builder, ir.Constant(I32, 0), code.pointer(Word.STATE)
        size = sum(trunk.recurrence.state for trunk in self.trunks)
        with code.loop(own) as r:
            row = code.add(start, r)
            env, _ = self._agent(code, row)
            begins = builder.icmp_signed("==", code.scalar(code.pointer(Word.TIMESTEP, I32), env), zero)
            place = code.times(row, size)
            for trunk in self.trunks:
                trunk.load(r, states, place, begins)
                place = code.add(place, trunk.recurrence.state)
        for trunk in self.trunks:
            trunk.advance(memory, self.columns, own)
        with code.loop(own) as r:
            row = code.add(start, r)
            present = self._present(code, *self._agent(code, row))
            place = code.times(row, size)
            for trunk in self.trunks:
                trunk.store(r, states, place, present)
                place = code.add(place, trunk.recurrence.state)
        return self.trunks[0].columns

    def _present(self, code: Code, env: Any, agent: Any) -> Any:
        if not self.plan.leaving:
            return None
        place = code.add(code.times(env, self.plan.leaving), code.scalar(code.pointer(Word.IDS, I64), agent))
        return code.builder.icmp_signed("!=", code.scalar(code.pointer(Word.ACTIVE, I8), place), ir.Constant(I8, 0))

    def _standardise(self, code: Code, memory: Any) -> None:
        """Scale, standardise and clip the inputs, as ``Flatten`` does."""
        plan = self.plan
        if not (plan.scaled or plan.normalized):
            return
        with code.loop(plan.inputs) as n, code.loop(ROWS, step=code.lanes) as v:
            place = code.add(code.add(code.times(n, ROWS), v), self.columns)
            value = code.load(memory, place)
            if plan.scaled:
                offset, scale = (
                    code.broadcast(code.scalar(code.pointer(word), n)) for word in (Word.OFFSET, Word.SCALE)
                )
                value = (value - offset) * scale
            if plan.normalized:
                mean, deviation = (
                    code.broadcast(code.scalar(code.pointer(word), n)) for word in (Word.MEAN, Word.DEVIATION)
                )
                value = ((value - mean) / deviation).clamp(-MAX_DEVIATIONS, MAX_DEVIATIONS)
            code.store(value, memory, place)


class _Trunk:
    """Emitter of the forward pass of an encoder and recurrent units.

    Attributes:
        columns: Index of the outputs of a tile ``[units, ROWS]``.
    """

    def __init__(self, plan: Trunk, workspace: Workspace) -> None:
        self.plan, self.recurrence = plan, Recurrence(plan.kind, plan.inputs, plan.units)
        self.encoder = Network(plan.encoder, workspace, backward=False) if plan.encoder else None
        state, gates = self.recurrence.state, self.recurrence.gates
        widths = {Array.INPUTS: plan.inputs, Array.SUMS: gates, Array.BEGINS: 1}  # the last are bytes, all zero
        widths |= dict.fromkeys((Array.START, Array.STATES, Array.BEFORE), state)
        self._places = {array: workspace.take(ROWS * width) for array, width in widths.items()}
        self._transposed = [workspace.take(rows * columns) for rows, columns in self.recurrence.shapes]
        self._features, self._outputs = (workspace.matrix(ROWS, size) for size in (plan.inputs, plan.units))
        self.columns = workspace.take(workspace.padded(plan.units) * ROWS)

    def begin(self, code: Code, memory: Any, words: Iterator[int]) -> None:
        """Emit the start of a part: read addresses, and transpose weights."""
        self.code = code
        self._parameters = addresses_of_parameters(code, self.plan.encoder, words)
        arrays = {array: code.at(memory, place) for array, place in self._places.items()}
        arrays[Array.BEGINS] = code.builder.bitcast(arrays[Array.BEGINS], I8.as_pointer())
        for number in PARAMETERS[self.plan.kind]:
            arrays[Array(Array.INPUT_WEIGHT + number)] = code.pointer(next(words))
        for number, place in enumerate(self._transposed):
            arrays[Array(Array.INPUT_WEIGHT_TRANSPOSED + number)] = code.at(memory, place)
        self.recurrence.begin(code, arrays, 1, ROWS)
        self.recurrence.transpose_weights()

    def load(self, row: Any, states: Any, place: Any, begins: Any) -> None:
        """Copy the state of a row to a tile; it is zero where an episode begins."""
        start, size = self.recurrence.arrays[Array.START], self.recurrence.state
        copy_floats(self.code, start, self.code.times(row, size), states, place, size)
        with self.code.builder.if_then(begins):
            self.recurrence.clear(start, row)

    def advance(self, memory: Any, columns: int, count: Any) -> None:
        """Compute the next states of a tile from its inputs, ``columns``."""
        code, plan, arrays = self.code, self.plan, self.recurrence.arrays
        if self.encoder:
            columns = self.encoder.forward(code, memory, self._parameters, columns)
        (place, width), (into, wide) = self._features, self._outputs
        transpose(
            code, Matrix(code.at(memory, place), width), Matrix(code.at(memory, columns), ROWS), plan.inputs, ROWS
        )
        with code.loop(count) as r:
            source = code.add(code.times(r, width), place)
            copy_floats(code, arrays[Array.INPUTS], code.times(r, plan.inputs), memory, source, plan.inputs)
        self.recurrence.forward((0, count))
        with code.loop(count) as r:
            source = code.times(r, self.recurrence.state)
            copy_floats(code, memory, code.add(code.times(r, wide), into), arrays[Array.STATES], source, plan.units)
        transpose(
            code, Matrix(code.at(memory, self.columns), ROWS), Matrix(code.at(memory, into), wide), ROWS, plan.units
        )

    def store(self, row: Any, states: Any, place: Any, present: Any) -> None:
        """Copy the state of a row of a tile back; it is zero while the agent is not ``present``."""
        code, found, size = self.code, self.recurrence.arrays[Array.STATES], self.recurrence.state
        if present is not None:
            with code.builder.if_then(code.builder.not_(present)):
                self.recurrence.clear(found, row)
        copy_floats(code, states, place, found, code.times(row, size), size)


def _copy(code: Code, memory: Any, target: Any, array: Any, first: Any, source: Source, present: Any) -> None:
    """Emit a copy of an agent's observations to a row; zero if the agent is not ``present``."""
    builder, kind = code.builder, KINDS[source.dtype]
    if kind is F32 and present is None:
        copy_floats(code, memory, target, array, first, source.size)
        return
    zero = ir.Constant(kind, 0.0 if kind is F32 else 0)
    with code.loop(source.columns) as n:
        value = code.scalar(array, first if source.choices else code.add(first, n))
        if present is not None:
            value = builder.select(present, value, zero)
        if source.choices:
            value = builder.uitofp(builder.icmp_signed("==", _as_word(code, value), n), F32)
        elif kind is not F32:
            value = builder.sitofp(_as_word(code, value), F32)
        builder.store(value, code.at(memory, code.add(target, n)))


def _as_word(code: Code, value: Any) -> Any:
    """Extend an integer to 64 bits; bytes are unsigned."""
    if value.type == I64:
        return value
    return (code.builder.zext if value.type == I8 else code.builder.sext)(value, I64)


def _choose(code: Code, memory: Any, values: int, actions: int) -> None:
    """Emit code that replaces action values by logits: one of the best action, the first of equals, one of the rest."""
    best_logit, other_logit = (code.broadcast(code.scalar(code.pointer(Word.GREEDY), n)) for n in range(2))
    with code.loop(ROWS, step=code.lanes) as v:
        best, highest = code.broadcast(0.0), code.load(memory, code.add(v, values))
        for action in range(1, actions):
            value = code.load(memory, code.add(v, values + action * ROWS))
            is_higher = value.compare(">", highest)
            best, highest = code.broadcast(float(action)).where(is_higher, best), value.where(is_higher, highest)
        for action in range(actions):
            logit = best_logit.where(best.compare("==", float(action)), other_logit)
            code.store(logit, memory, code.add(v, values + action * ROWS))
