"""Populations: models of one kind with separate parameters, computed in one batch.

Parameters are stacked and the members computed by ``torch.func``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from warpdrive.errors import DefinitionError
from warpdrive.observations import Observations, mapped
from warpdrive.training.models.base import ActorCritic


class Population(ActorCritic):
    """Population of models of the same architecture, whose parameters have a leading axis: ``[size, ...]``.

    In rollouts each member acts in an equal slice of the replicas: member 0 in the first ``num_envs / size`` of them.
    Elsewhere, as in evaluations, member :attr:`best` acts. Buffers, such as running statistics of observations, are
    shared.

    Args:
        members: Feed-forward models of the same architecture.

    Attributes:
        size: Number of members.
        best: ``[]`` int64, index of the member that acts outside of rollouts, initially 0.

    Raises:
        DefinitionError: If the models are recurrent.
    """

    best: Tensor

    def __init__(self, members: Sequence[ActorCritic]) -> None:
        super().__init__()
        if members[0].state_size:
            raise DefinitionError(
                f"population: found the recurrent model {type(members[0]).__name__}, expected another"
            )
        self.size, self.action_units = len(members), members[0].action_units
        stacked = [torch.stack(parts) for parts in zip(*(member.parameters() for member in members), strict=True)]
        self.member = members[0]
        for parameter, stack in zip(self.member.parameters(), stacked, strict=True):
            parameter.data = stack.detach()
        self.register_buffer("best", torch.zeros((), dtype=torch.int64))

    def by_member(self, observations: Observations) -> tuple[Tensor, Tensor]:
        """Return the outputs of each member for its own observations, with gradient.

        Args:
            observations: ``[size, ..., *observation_shape]``, as returned by :meth:`split`; by key for a Dict
                observation space.

        Returns:
            Logits ``[size, ..., num_logits]`` and values ``[size, ...]``.
        """
        logits, values = self.call_members("forward", observations)
        return logits, values

    def split(self, tensor: Tensor, dim: int) -> Tensor:
        """Return the members' slices of a tensor of all replicas.

        Args:
            tensor: Rewards of a rollout, for example: ``[num_steps, num_envs, agents]``.
            dim: Axis of the replicas, 1 in this example.

        Returns:
            ``[size, ...]``: ``[size, num_steps, num_envs / size, agents]``.
        """
        slices: Tensor = tensor.unflatten(dim, (self.size, -1)).movedim(dim, 0)
        return slices

    def logits(self, observations: Observations) -> Tensor:
        """See ``Actor``: logits of the best member."""
        found: Tensor = self._call_best("logits", observations)
        return found

    def values(self, observations: Observations) -> Tensor:
        """See ``ActorCritic``: values of the best member."""
        found: Tensor = self._call_best("values", observations)
        return found

    def call_members(self, method: str, observations: Observations) -> Any:
        """Call a method of every member, each with its own observations.

        Args:
            method: Name of a method of the members, which takes observations.
            observations: ``[size, ..., *observation_shape]``, see :meth:`by_member`.

        Returns:
            The results, with a leading axis of the members.
        """

        def call(parameters: dict[str, Tensor], seen: Observations) -> Any:
            return functional_call(_Method(self.member, method), parameters, (seen,))

        return vmap(call)(self._parameters_of_members(), observations)

    def _call_best(self, method: str, observations: Observations) -> Any:
        best = self.best.view(1)
        parameters = {name: stack.index_select(0, best)[0] for name, stack in self._parameters_of_members().items()}
        return functional_call(_Method(self.member, method), parameters, (observations,))

    def _parameters_of_members(self) -> dict[str, Tensor]:
        return {f"member.{name}": parameter for name, parameter in self.member.named_parameters()}


class _Method(nn.Module):
    """Module whose forward pass is a given method of a model, for ``functional_call``."""

    def __init__(self, member: nn.Module, method: str) -> None:
        super().__init__()
        self.member, self.method = member, method

    def forward(self, observations: Observations) -> Any:
        return getattr(self.member, self.method)(observations)


class PopulationInReplicas(ActorCritic):
    """Population in training replicas, where each member acts, and is replayed, in its slice.

    Args:
        population: The population whose parameters are used.
        num_envs: Number of replicas, a multiple of the population's size.
        num_agents: Number of agents per replica.
    """

    def __init__(self, population: Population, num_envs: int, num_agents: int) -> None:
        super().__init__()
        self.population, self.action_units = population, population.action_units
        self.num_envs, self.num_agents = num_envs, num_agents

    def logits(self, observations: Observations) -> Tensor:
        """Return logits ``[num_envs, agents, num_logits]`` of ``[num_envs, agents, *observation_shape]``."""
        slices = mapped(lambda seen: self.population.split(seen, 0), observations)
        found: Tensor = self.population.call_members("logits", slices)
        return found.flatten(0, 1)

    def values(self, observations: Observations) -> Tensor:
        """Return values ``[rows]``; see :meth:`forward`."""
        return self.forward(observations)[1]

    def forward(self, observations: Observations) -> tuple[Tensor, Tensor]:
        """Return logits ``[rows, num_logits]`` and values ``[rows]`` of rows over time x replica x agent."""
        steps = (-1, self.num_envs, self.num_agents)
        slices = mapped(lambda seen: self.population.split(seen.unflatten(0, steps), 1), observations)
        logits, values = self.population.by_member(slices)
        return _as_rows(logits), _as_rows(values)


def _as_rows(slices: Tensor) -> Tensor:
    """Reshape ``[size, steps, num_envs / size, agents, ...]`` to ``[rows, ...]`` over time x replica x agent."""
    return slices.movedim(0, 1).flatten(0, 3)
