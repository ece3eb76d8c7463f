"""Deep Q-learning (Mnih et al. 2015, doi:10.1038/nature14236).

One action-value network is trained from a replay buffer, with double estimates (van Hasselt et al. 2016,
arXiv:1509.06461).
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from gymnasium import Space, spaces
from torch import Tensor
from torch.nn import functional

from warpdrive.training.algorithms.base import EveryN, Stateful
from warpdrive.training.algorithms.common import (
    compile_q_update,
    q_steps,
    rows_with_targets,
    soft_update,
    target_network,
)
from warpdrive.training.algorithms.off_policy import OffPolicy, OffPolicyConfig, replay_buffer
from warpdrive.training.algorithms.task import Task, adam
from warpdrive.training.config.values import Count, FractionSchedule
from warpdrive.training.experience.replay_buffer import ReplayBuffer
from warpdrive.training.experience.transitions import Transitions
from warpdrive.training.models.distributions import masked
from warpdrive.training.models.q_network import QNetwork
from warpdrive.training.rollout.exploration import EpsilonGreedy


class DQNConfig(OffPolicyConfig):
    """Deep Q-learning, for a single Discrete action."""

    actions = "Discrete"
    algorithm: Literal["dqn"] = "dqn"
    epsilon: FractionSchedule = [[0, 1.0], [10_000, 0.05]]  # type: ignore[assignment]
    """Probability of a random action, by environment steps."""
    repeat: FractionSchedule = 0.0
    """Probability that a random action repeats the previous one, so that exploration is correlated in time."""
    double: bool = True
    """If True, the model selects the action that the target network evaluates (double Q-learning)."""
    tau: FractionSchedule = 1.0
    """Interpolation factor of a target network update: 1 copies the model."""
    target_update_every: Count = 500
    """Gradient steps between two target network updates."""

    def build_model(self, observation_space: Space[Any], action_space: Space[Any]) -> QNetwork:
        """See ``LearningConfig``."""
        assert isinstance(action_space, spaces.Discrete), "the configuration is checked for this"
        return QNetwork(observation_space, int(action_space.n), self.model)


class DQN(OffPolicy[DQNConfig]):
    """DQN for one model.

    Args:
        config: Section of the policy in the run configuration.
        model: Action-value network to train.
        optimizer: Optimizer of the model.
    """

    actor: EpsilonGreedy
    model: QNetwork

    def __init__(self, config: DQNConfig, model: QNetwork, optimizer: torch.optim.Optimizer) -> None:
        super().__init__(config)
        self.model, self.trained, self.optimizer = model, model, optimizer
        self.target = target_network(model)
        self.actor = EpsilonGreedy(model, repeats=config.repeat != 0).to(next(model.parameters()).device)
        self._target_is_due = EveryN(config.target_update_every)

    def parts(self) -> dict[str, Stateful]:
        """See ``Algorithm``."""
        return {"optimizer": self.optimizer, "target": self.target, "target_is_due": self._target_is_due}

    def begin(self, env_steps: int) -> None:
        """See ``Algorithm``."""
        super().begin(env_steps)
        self.actor.epsilon.fill_(self.config.epsilon)
        self.actor.repeat.fill_(self.config.repeat)

    def step(self, batch: Transitions, generator: torch.Generator) -> dict[str, Tensor]:
        """See ``OffPolicy``."""
        if self.is_compiled:
            rows = rows_with_targets(batch, self.targets(batch))
            epochs, limit = [[torch.arange(len(rows))]], self.config.max_grad_norm
            metrics = q_steps(self, rows, epochs, max_grad_norm=limit, huber_delta=1.0)
        else:
            metrics = self.take_gradient_step(batch)
        if self._target_is_due():
            soft_update(self.target, self.model, self.config.tau)
        return metrics

    def loss(self, batch: Transitions) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss to minimise, the Huber loss of the temporal differences, and its terms without gradient."""
        value = self.model(batch.observations).gather(-1, batch.actions.long().unsqueeze(-1)).squeeze(-1)
        loss = batch.masked_mean(functional.smooth_l1_loss(value, self.targets(batch), reduction="none"))
        return loss, {"td_loss": loss.detach(), "q_values": batch.masked_mean(value.detach())}

    @torch.no_grad()
    def targets(self, batch: Transitions) -> Tensor:
        """Return the targets ``[rows]``: the reward, bootstrapped with the best action's value unless terminated.

        With ``double`` the model selects the best action, else the target network does; the target network evaluates
        it.
        """
        later = self.target(batch.next_observations)
        judged = self.model(batch.next_observations) if self.config.double else later
        if batch.next_action_mask is not None:
            judged = masked(judged, batch.next_action_mask[..., : judged.shape[-1]])
        best: Tensor = later.gather(-1, judged.argmax(-1, keepdim=True)).squeeze(-1)
        return batch.target(self.config.gamma, best)


def build(config: DQNConfig, task: Task) -> tuple[DQN, ReplayBuffer]:
    """Build the algorithm and its source of experience."""
    model = task.new_model(config)
    algorithm = DQN(config, model, adam(model))
    compile_q_update(algorithm, task, huber=True)
    return algorithm, replay_buffer(algorithm, task)
