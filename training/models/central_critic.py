"""Centralised critics: value functions of more than the policy's observations.

A recurrent critic stores its state in the same way as a recurrent model: the state of an agent in
``WithRecurrentCritic`` is the model's, followed by the critic's, even though no value estimates are used during a
rollout. Checkpoints, CUDA graphs, several processes and copies on other devices thus need no code for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from warpdrive.observations import Observations
from warpdrive.training.models.base import Actor, ActorCritic, observations_of
from warpdrive.training.models.critic_inputs import CriticInput, CriticRows
from warpdrive.training.models.options import PerceptronConfig, RecurrentConfig
from warpdrive.training.models.perceptron import Perceptron, hidden_layers, perceptron
from warpdrive.training.models.recurrent import CELLS, RecurrentActor
from warpdrive.training.models.running_moments import RunningMoments

if TYPE_CHECKING:
    from warpdrive.env_wrapper import EnvWrapper


class CentralCritic(nn.Module):
    """Perceptron of the outputs of a ``CriticInput``.

    Args:
        size: Number of elements of a row.
        options: Section of the policy's model: hidden layers, activation, initialisation, and normalisation of the
            rows.

    Attributes:
        state_size: Number of elements of the recurrent state per agent.
    """

    state_size = 0

    def __init__(self, size: int, options: PerceptronConfig) -> None:
        super().__init__()
        self.moments = RunningMoments(size) if options.normalize_observations else None
        self.value = self._perceptron(size, options)

    def _perceptron(self, size: int, options: PerceptronConfig) -> nn.Module:
        return perceptron([size, *options.hidden, 1], options, last_gain=1.0)

    def values(self, rows: Tensor) -> Tensor:
        """Return the value estimates ``[...]`` float32 of rows ``[..., size]`` float32."""
        outputs: Tensor = self.value(self.normalized(rows))
        return outputs.squeeze(-1)

    def forward_sequence(self, rows: Tensor, state: Tensor, begins: Tensor) -> tuple[Tensor, Tensor]:
        """Return the values of sequences, and the recurrent states after each step.

        Args:
            rows: ``[T, n, size]``, in time order.
            state: ``[n, state_size]``, recurrent state before the first step.
            begins: ``[T, n]`` bool, True where the state is reset to zero because an episode begins with this step.

        Returns:
            Values ``[T, n]`` and states ``[T, n, state_size]``.
        """
        return self.values(rows), state.expand(*begins.shape, -1)

    def observe(self, rows: CriticRows, weight: Tensor) -> None:
        """Update running statistics with rows after training on them; see ``Actor.observe``."""
        if self.moments is not None:
            by_agent = weight.view(-1, len(rows.which))
            parts = [(rows.own, weight), (rows.common, by_agent.sum(1)), (rows.which, by_agent.sum(0))]
            self.moments.observe_side_by_side(parts)

    def normalized(self, rows: Tensor) -> Tensor:
        """Return rows ``[..., size]`` in the units of the network."""
        return rows if self.moments is None else self.moments.clipped(rows)

    def normalized_rows(self, rows: CriticRows) -> CriticRows:
        """Return rows in the units of the network."""
        if self.moments is None:
            return rows
        return CriticRows(*self.moments.clipped_side_by_side([rows.own, rows.common, rows.which]))


class RecurrentCritic(CentralCritic):
    """Perceptron, recurrent units and one linear layer.

    Args:
        size: Number of elements of a row.
        options: See ``CentralCritic``.
        recurrent: Kind and number of the recurrent units.
    """

    def __init__(self, size: int, options: PerceptronConfig, recurrent: RecurrentConfig) -> None:
        self.units = recurrent.units
        super().__init__(size, options)
        sizes, cell = [size, *options.hidden], CELLS[recurrent.type]
        self.encoder = Perceptron(*hidden_layers(sizes, options))
        self.cell = cell(sizes[-1], recurrent.units, options.initialization)
        self.state_size = cell.numbers * recurrent.units

    def _perceptron(self, size: int, options: PerceptronConfig) -> nn.Module:
        return perceptron([self.units, 1], options, last_gain=1.0)

    def values(self, rows: Tensor) -> Tensor:
        """See ``CentralCritic``: rows are taken for first steps of episodes."""
        return self._value_of(self.step(rows, rows.new_zeros(*rows.shape[:-1], self.state_size)))

    def forward_sequence(self, rows: Tensor, state: Tensor, begins: Tensor) -> tuple[Tensor, Tensor]:
        """See ``CentralCritic``."""
        after = self.cell.sequence(self.encoder(self.normalized(rows)), state, begins)
        return self._value_of(after), after

    def step(self, rows: Tensor, state: Tensor) -> Tensor:
        """Return the next state ``[..., state_size]`` from rows ``[..., size]`` and the state ``[..., state_size]``."""
        features = self.encoder(self.normalized(rows))
        after: Tensor = self.cell(features.flatten(0, -2), state.flatten(0, -2))
        return after.view(state.shape)

    def _value_of(self, state: Tensor) -> Tensor:
        outputs: Tensor = self.value(state[..., : self.units])
        return outputs.squeeze(-1)


class WithRecurrentCritic(Actor):
    """Actor of rollouts with a recurrent critic whose state advances with every step.

    The state of an agent is that of the model, followed by that of the critic.

    Args:
        model: The acting model.
        critic: Value function of the collected steps.
        critic_input: Computes the critic's inputs.
    """

    def __init__(self, model: ActorCritic, critic: RecurrentCritic, critic_input: CriticInput) -> None:
        super().__init__()
        self.model, self.critic, self.critic_input = model, critic, critic_input
        self.state_size, self.action_units = model.state_size + critic.state_size, model.action_units

    def logits(self, observations: Observations) -> Tensor:
        """See ``Actor``."""
        return self.model.logits(observations)

    def step_in(self, env: EnvWrapper, tag: str, state: Tensor) -> tuple[Tensor, Tensor]:
        """See ``Actor``."""
        own, of_critic = state.split([self.model.state_size, self.critic.state_size], dim=-1)
        logits, own = self.model.step(observations_of(env, tag), own)
        return logits, torch.cat([own, self.critic.step(self.critic_input.now(env), of_critic)], dim=-1)

    def in_replicas(self, num_envs: int, num_agents: int) -> Actor:
        """See ``Actor``."""
        return RecurrentActor(self, num_envs, num_agents)
