"""Native code of acting: from the observations of a tag's agents, where the environment writes them, to their logits.

The results have the bits of :class:`~warpdrive.training.compiled.perceptron.CompiledPerceptron`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, auto
from typing import Any

import torch
from llvmlite import ir

from warpdrive.training.compiled.matrix import Matrix, transpose
from warpdrive.training.compiled.network import ROWS, Dense, Network, Workspace, copy_columns, copy_floats
from warpdrive.training.compiled.perceptron import tensors_of_parameters
from warpdrive.training.compiled.simd import F32, I8, I32, I64, Code
from warpdrive.training.models.running_moments import MOST_DEVIATIONS

KINDS = {torch.float32: F32, torch.int32: I32, torch.int64: I64, torch.uint8: I8, torch.bool: I8}
"""LLVM types of the dtypes of observations that native code reads."""


class Word(IntEnum):
    """Words of the argument table.

    For each source follow its array, and an array of the places of the tag's agents in it; then the parameters.
    """

    NUM_ENVS = 0
    ACTIVE = auto()  # [num_envs, agents] bool
    IDS = auto()  # [agents of the tag] int64
    LOGITS = auto()  # [num_envs, agents of the tag, logits] float32
    OFFSET = auto()  # [inputs] float32, subtracted
    SCALE = auto()  # [inputs] float32, then multiplied
    MEAN = auto()  # [inputs] float32, running mean
    DEVIATION = auto()  # [inputs] float32, running standard deviation
    GREEDY = auto()  # [2] float32, logits of the best action and of the others
    WORKSPACE = auto()  # [parts, size] float32


@dataclass(frozen=True)
class Source:
    """Array of observations of one space, ``[num_envs, agents, *shape]``.

    Attributes:
        dtype: dtype of the array.
        agents: number of agents in the array.
        size: number of elements of an agent.
        choices: number of values of a Discrete space, which becomes a one-hot vector; 0 for other spaces.
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
    """Specialisation of a policy's pass.

    Attributes:
        agents: number of agents of the tag.
        logits: number of logits of an agent; those beyond the outputs are not written.
        sources: observations, in the order of the inputs.
        layers: layers of the perceptron.
        leaving: number of agents of a replica if they may be out of the episode: their observations are zero; else 0.
        scaled: True if inputs are scaled.
        normalized: True if inputs are standardised and clipped.
        greedy: True if outputs are action values, of which the best action follows.
    """

    agents: int
    logits: int
    sources: tuple[Source, ...]
    layers: tuple[Dense, ...]
    leaving: int
    scaled: bool
    normalized: bool
    greedy: bool


class Acting:
    """Emitter of a policy's pass."""

    def __init__(self, plan: ActingPlan, lanes: int) -> None:
        self.plan = plan
        workspace, inputs = Workspace(lanes), plan.layers[0].inputs
        self.rows = workspace.matrix(ROWS, inputs)
        self.columns = workspace.take(workspace.padded(inputs) * ROWS)
        self.network = Network(plan.layers, workspace, backward=False)
        self.size = workspace.size

    def emit(self, module: ir.Module, lanes: int) -> None:
        """Emit the function ``act`` into a module."""
        code, plan = Code(module, "act", lanes), self.plan
        builder, inputs, outputs = code.builder, plan.layers[0].inputs, plan.layers[-1].outputs
        begin, end = (code.times(bound, plan.agents) for bound in code.share(code.word(Word.NUM_ENVS)))
        memory = code.at(code.pointer(Word.WORKSPACE), code.times(code.part, self.size))
        words = iter(range(len(Word), len(Word) + 2 * len(plan.sources) + tensors_of_parameters(plan.layers)))
        sources = [
            (source, code.pointer(next(words), KINDS[source.dtype]), code.pointer(next(words), I64))
            for source in plan.sources
        ]
        parameters = [[code.pointer(next(words)) for _ in (layer.weight, *layer.vectors)] for layer in plan.layers]
        place, width = self.rows
        with code.loop(end, start=begin, step=ROWS) as start:
            own = code.smaller(code.subtract(end, start), ROWS)
            with code.loop(own) as r:
                row = builder.add(start, r)
                env = builder.sdiv(row, code.integer(plan.agents))
                agent = builder.sub(row, code.times(env, plan.agents))
                present = self._present(code, env, agent)
                target = code.add(code.times(r, width), place)
                for source, array, places in sources:
                    before = code.add(code.times(env, source.agents), code.scalar(places, agent))
                    _copy(code, memory, target, array, code.times(before, source.size), source, present)
                    target = code.add(target, source.columns)
            source_rows = Matrix(code.at(memory, place), width)
            transpose(code, Matrix(code.at(memory, self.columns), ROWS), source_rows, ROWS, inputs)
            self._standardise(code, memory)
            found = self.network.forward(code, memory, parameters, self.columns)
            if plan.greedy:
                _choose(code, memory, found, outputs)
            logits = Matrix(code.pointer(Word.LOGITS), plan.logits)
            copy_columns(code, memory, found, logits, start, own, outputs, into_rows=True)
        code.finish()

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
        with code.loop(plan.layers[0].inputs) as n, code.loop(ROWS, step=code.lanes) as v:
            place = code.add(code.add(code.times(n, ROWS), v), self.columns)
            value = code.load(memory, place)
            if plan.scaled:
                offset, scale = (code.spread(code.scalar(code.pointer(word), n)) for word in (Word.OFFSET, Word.SCALE))
                value = (value - offset) * scale
            if plan.normalized:
                mean, deviation = (
                    code.spread(code.scalar(code.pointer(word), n)) for word in (Word.MEAN, Word.DEVIATION)
                )
                value = ((value - mean) / deviation).clamp(-MOST_DEVIATIONS, MOST_DEVIATIONS)
            code.store(value, memory, place)


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
    """Return an integer as one of 64 bits; bytes are unsigned."""
    if value.type == I64:
        return value
    return (code.builder.zext if value.type == I8 else code.builder.sext)(value, I64)


def _choose(code: Code, memory: Any, values: int, actions: int) -> None:
    """Emit the replacement of action values by logits: of the best action, the first if several are, and of others."""
    best_logit, other_logit = (code.spread(code.scalar(code.pointer(Word.GREEDY), n)) for n in range(2))
    with code.loop(ROWS, step=code.lanes) as v:
        best, highest = code.spread(0.0), code.load(memory, code.add(v, values))
        for action in range(1, actions):
            value = code.load(memory, code.add(v, values + action * ROWS))
            is_higher = value.compare(">", highest)
            best, highest = code.spread(float(action)).where(is_higher, best), value.where(is_higher, highest)
        for action in range(actions):
            logit = best_logit.where(best.compare("==", float(action)), other_logit)
            code.store(logit, memory, code.add(v, values + action * ROWS))
