"""Rollouts as one native call, which alternates the policies' forward passes and the fused step without Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from warpdrive.backends.host.workers import parts_of
from warpdrive.backends.interface import MachineCode
from warpdrive.env_wrapper import EnvWrapper
from warpdrive.rollout import Rollout
from warpdrive.spaces import SpaceArray, observation_arrays
from warpdrive.training.compiled.acting import KINDS, Acting, ActingPlan, Source, Word
from warpdrive.training.compiled.network import Dense
from warpdrive.training.compiled.perceptron import CompiledPerceptron
from warpdrive.training.compiled.program import address_of, program_of, table_of
from warpdrive.training.compiled.simd import host_lanes
from warpdrive.training.compiled.units import Trunk
from warpdrive.training.models.base import Actor
from warpdrive.training.models.flatten import FlatPart, Flatten
from warpdrive.training.models.fully_connected import FullyConnected
from warpdrive.training.models.perceptron import Perceptron
from warpdrive.training.models.q_network import RecurrentQNetwork
from warpdrive.training.models.recurrent import Cell, Recurrent, RecurrentActor
from warpdrive.training.rollout.exploration import EpsilonGreedy
from warpdrive.training.rollout.loop import act


def native_rollout(env: EnvWrapper, rollout: Rollout, actors: Mapping[str, Actor]) -> Callable[[], None] | None:
    """Return a function that fills a rollout in one native call.

    Args:
        env: The replicas.
        rollout: Rollout of ``env``, which is empty at each call.
        actors: Actors by policy tag.

    Returns:
        The function, or None if the backend, an actor or its observations have no native code.
    """
    policies = []
    for tag, actor in actors.items():
        model = _model_of(env, tag, actor)
        if model is None or any(env.ctx[array.name].dtype not in KINDS for array in _observed(env, tag)):
            return None
        policies.append(_NativePolicy(env, tag, model))
    fill = env.repeated_rollout(rollout, [policy.code for policy in policies])
    if fill is None:
        return None

    def run() -> None:
        states = [(state, state.clone()) for actor in actors.values() if (state := actor.memory()) is not None]
        act(env, actors)  # writes the outputs that do not depend on observations, among others
        for state, before in states:
            state.copy_(before)
        for policy in policies:
            policy.refresh()
        fill()

    return run


class _Model(NamedTuple):
    """Model of an actor: a sequence of perceptrons, followed by exploration.

    In a recurrent model, they follow the first of its encoders and recurrent units.
    """

    flatten: Flatten
    perceptrons: list[Perceptron]
    greedy: EpsilonGreedy | None = None
    recurrent: RecurrentActor | None = None

    @property
    def layers(self) -> tuple[Dense, ...]:
        """Layers of native code."""
        return _layers_of(self.perceptrons)

    @property
    def trunks(self) -> tuple[Trunk, ...]:
        """Encoders and recurrent units."""
        return tuple(
            Trunk(_layers_of([encoder]), cell.kind, next(cell.parameters()).shape[-1], cell.hidden_size)
            for encoder, cell in self._parts()
        )

    def _parts(self) -> list[tuple[Perceptron, Cell]]:
        """Return encoders and recurrent units."""
        if self.recurrent is None:
            return []
        acting = self.recurrent.model if self.greedy is None else self.greedy.model
        model = cast("Recurrent | RecurrentQNetwork", acting)
        return list(zip(model.encoders, model.cells, strict=True))  # type: ignore[arg-type]

    @property
    def parameters(self) -> list[Tensor]:
        """Parameters, in the order of the layers."""
        found = [parameter for perceptron in self.perceptrons for parameter in perceptron.tensors()]
        for encoder, cell in self._parts():
            found += [*encoder.tensors(), *cell.parameters()]
        return found


def _layers_of(perceptrons: Sequence[Perceptron]) -> tuple[Dense, ...]:
    natives = (perceptron.native for perceptron in perceptrons)
    return tuple(layer for native in natives if isinstance(native, CompiledPerceptron) for layer in native.layers)


def _model_of(env: EnvWrapper, tag: str, actor: Actor) -> _Model | None:
    """Return the model of an actor, or None if it has no native code."""
    recurrent = greedy = None
    layers: tuple[nn.Module, ...]
    if type(actor) is FullyConnected and actor.std_is_constant:
        flatten, layers = actor.flatten, (actor.trunk, actor.policy)
    elif type(actor) is RecurrentActor and type(actor.model) is Recurrent and actor.model.std_is_constant:
        if any(cell.native is None for cell in actor.model.cells):
            return None
        flatten, layers, recurrent = actor.model.flatten, (actor.model.policy,), actor
    elif type(actor) is RecurrentActor and type(actor.model) is EpsilonGreedy:
        greedy, recurrent = actor.model, actor
        network = greedy.model
        if greedy.repeats or env.action_mask(tag) is not None or not isinstance(network, RecurrentQNetwork):
            return None
        if any(cell.native is None for cell in network.cells):
            return None
        flatten, layers = network.flatten, (network.value,)
    elif type(actor) is EpsilonGreedy and not actor.repeats and env.action_mask(tag) is None:
        flatten, layers, greedy = actor.model.flatten, (actor.model.features, actor.model.value), actor
    else:
        return None
    parts = [part for part in layers if not isinstance(part, nn.Identity)]
    perceptrons = [p for p in parts if isinstance(p, Perceptron) and isinstance(p.native, CompiledPerceptron)]
    return _Model(flatten, perceptrons, greedy, recurrent) if len(perceptrons) == len(parts) else None


def _observed(env: EnvWrapper, tag: str) -> list[SpaceArray]:
    """Return the arrays that hold the observations of a tag, sorted by key as ``Flatten`` takes them."""
    by_tag = isinstance(env.env.observation_space, dict)
    arrays = [array for array in observation_arrays(env.env) if not by_tag or array.path[0] == tag]
    return sorted(arrays, key=lambda array: array.path)


class _NativePolicy:
    """Native forward pass of a policy for all replicas.

    Args:
        env: The replicas.
        tag: Policy tag.
        model: Model of the policy.

    Attributes:
        code: Machine code of the forward pass.
    """

    def __init__(self, env: EnvWrapper, tag: str, model: _Model) -> None:
        self.model, logits = model, env.logits(tag)
        _, agents, num_logits = logits.shape
        observed, ids = _observed(env, tag), list(env.policy_tags[tag])
        flat_parts = [part for part in model.flatten.parts if isinstance(part, FlatPart)]
        sources = tuple(
            Source(
                env.ctx[array.name].dtype,
                len(array.agents),
                math.prod(array.shape[1:]),
                0 if part.values is None else len(part.values),
            )
            for array, part in zip(observed, flat_parts, strict=True)
        )
        is_scaled = any(part.offset is not None for part in flat_parts)
        leaving = env.num_agents if "active" in env.ctx else 0
        moments, greedy = model.flatten.moments, model.greedy is not None
        inputs = sources, model.layers, leaving, is_scaled, moments is not None
        plan = ActingPlan(agents, num_logits, *inputs, greedy, model.trunks)
        emitter = Acting(plan, host_lanes())
        program = program_of(emitter.emit, f"acting {plan}")
        size = model.flatten.size
        self._mean, self._deviation, self._greedy = torch.zeros(size), torch.ones(size), torch.zeros(2)
        arguments: dict[int, Any] = {
            Word.NUM_ENVS: env.num_envs,
            Word.LOGITS: logits,
            Word.MEAN: self._mean,
            Word.DEVIATION: self._deviation,
            Word.GREEDY: self._greedy,
            Word.WORKSPACE: torch.zeros(parts_of(env.num_envs), emitter.size),
        }
        if model.recurrent is not None:
            arguments |= {Word.STATE: model.recurrent.state, Word.TIMESTEP: env.ctx["timestep"]}
        if leaving:
            arguments |= {Word.ACTIVE: env.ctx["active"], Word.IDS: np.array(ids, np.int64)}
        if is_scaled:
            arguments |= {Word.OFFSET: _side_by_side(flat_parts, sources, "offset", 0.0)}
            arguments |= {Word.SCALE: _side_by_side(flat_parts, sources, "scale", 1.0)}
        further: list[Any] = []
        for array in observed:
            further += env.ctx[array.name], np.array([array.agents.index(agent) for agent in ids], np.int64)
        arguments |= dict(enumerate([*further, *model.parameters], len(Word)))
        self._table = table_of(arguments, len(Word) + len(further) + len(model.parameters))
        self._alive = program, arguments  # the table has their addresses
        self.code = MachineCode(program.address("act"), address_of(self._table))

    def refresh(self) -> None:
        """Copy the values that change between rollouts, other than parameters: running moments and exploration."""
        if (moments := self.model.flatten.moments) is not None:
            mean, deviation = moments.mean_and_deviation()
            self._mean.copy_(mean)
            self._deviation.copy_(deviation)
        if self.model.greedy is not None:
            self._greedy.copy_(self.model.greedy.logits_of_two(self.model.layers[-1].outputs))


def _side_by_side(parts: list[FlatPart], sources: tuple[Source, ...], name: str, otherwise: float) -> Tensor:
    """Return the offset or scale of all inputs, ``[inputs]``; ``otherwise`` for parts that are not scaled."""
    found = ((getattr(part, name), source.columns) for part, source in zip(parts, sources, strict=True))
    return torch.cat([torch.full((columns,), otherwise) if own is None else own for own, columns in found])
