"""PPO with a centralised critic (MAPPO: Yu et al. 2022, arXiv:2103.01955).

Values are estimated from the global state of a replica, or from the observations of all its agents, while each agent
acts on its own observation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from warpdrive.observations import Observations
from warpdrive.training.algorithms.base import BeforeStep, Stateful
from warpdrive.training.algorithms.common import set_learning_rate
from warpdrive.training.algorithms.on_policy import rollout_batcher
from warpdrive.training.algorithms.ppo import PPO, PPOConfig
from warpdrive.training.algorithms.task import ExperienceSource, Task, adam
from warpdrive.training.config.schedule import value_at
from warpdrive.training.config.values import PositiveSchedule
from warpdrive.training.experience.batch import Batch
from warpdrive.training.experience.sequences import Replayed, Sequences, logits_of, sequences_of
from warpdrive.training.models import build_central_critic
from warpdrive.training.models.base import ActorCritic
from warpdrive.training.models.central_critic import CentralCritic, RecurrentCritic, WithRecurrentCritic
from warpdrive.training.models.critic_inputs import AgentSpecific, CriticInput, CriticRows
from warpdrive.training.models.distributions import Distribution

if TYPE_CHECKING:
    from warpdrive.rollout import Rollout


class MAPPO(PPO):
    """PPO for a model, whose own value head is not used, and a centralised critic. See ``PPO``.

    Args:
        config: Section of the policy in the run configuration.
        model: The policy.
        critic: Value function of ``critic_input``.
        critic_input: Computes the critic's inputs.
        distribution: Action distribution for the model's logits.
        optimizer: Optimizer of the model and, without ``critic_optimizer``, of the critic.
        critic_optimizer: Optimizer of the critic; None: it is trained together with the model.
    """

    critic_input: CriticInput

    def __init__(
        self,
        config: PPOConfig,
        model: ActorCritic,
        critic: CentralCritic,
        critic_input: CriticInput,
        distribution: Distribution,
        optimizer: torch.optim.Optimizer,
        critic_optimizer: torch.optim.Optimizer | None = None,
    ) -> None:
        self.critic_optimizer = critic_optimizer
        super().__init__(config, model, distribution, optimizer)
        self.critic, self.critic_input = critic, critic_input
        self.trained = nn.ModuleList([model, critic])
        if isinstance(critic, RecurrentCritic):
            self.actor = WithRecurrentCritic(model, critic, critic_input)

    @property
    def learns_from_global_state(self) -> bool:
        """See ``Algorithm``."""
        return self.critic_input.uses_global_state

    def begin(self, env_steps: int) -> None:
        """See ``Algorithm``."""
        super().begin(env_steps)
        if self.critic_optimizer is not None:
            lr = self.config.lr if self.config.critic_lr is None else self.config.critic_lr
            set_learning_rate(self.critic_optimizer, value_at(lr, env_steps))

    def parts(self) -> dict[str, Stateful]:
        """See ``Algorithm``."""
        parts = {**super().parts(), "critic": self.critic}
        return parts if self.critic_optimizer is None else {**parts, "critic_optimizer": self.critic_optimizer}

    def step(self, batch: Batch, before: BeforeStep) -> dict[str, Tensor]:
        """Take one gradient step on a minibatch, see ``PPO``.

        A critic with its own optimizer continues to train after ``target_kl`` stops the policy.

        Args:
            batch: Rows of the minibatch, with advantages in the units of the loss.
            before: Called with the terms of the loss before the optimizer step; returns additional terms.

        Returns:
            The terms of the loss, and the norms of the gradients before clipping.
        """
        if self.critic_optimizer is None:
            return super().step(batch, before)
        loss, terms = self.loss(batch, batch.advantages)
        limit = self.config.max_grad_norm
        of_policy = self.optimizer_step(loss, terms, self.optimizer, self.model, limit, before)
        of_critic = self.optimizer_step(loss, {}, self.critic_optimizer, self.critic, self.critic_limit)
        return {**of_policy, "critic_grad_norm": of_critic["grad_norm"]}

    @property
    def critic_limit(self) -> PositiveSchedule:
        """See ``ActorCriticAlgorithm``."""
        limit = self.config.critic_max_grad_norm
        return super().critic_limit if limit is None else limit

    def values(self, observations: Observations) -> Tensor:
        """Return the estimated returns ``[rows]`` float32 of critic inputs ``[rows, size]``.

        A recurrent critic takes the rows for first steps of episodes.
        """
        assert isinstance(observations, Tensor)
        return self.denormalized(self.critic.values(observations))

    def forward_sequence(
        self, observations: Observations, state: Tensor, begins: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See ``ActorCriticAlgorithm``: the critic's values ``[T, n]``, also in place of the logits, and its states."""
        assert isinstance(observations, Tensor)
        own, of_critic = state.split([state.shape[-1] - self.critic.state_size, self.critic.state_size], dim=-1)
        values, after = self.critic.forward_sequence(observations, of_critic, begins)
        states = torch.cat([own.expand(*begins.shape, -1), after], dim=-1)
        return values, self.denormalized(values), states

    def evaluate_actions(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Return the outputs of the current weights for recorded observations and actions, with gradient.

        Args:
            batch: Rows of experience, with the inputs of the critic in ``critic_rows``.

        Returns:
            Log-probabilities of the actions, entropies, and the critic's values: ``[rows]`` float32 each.
        """
        logits = logits_of(self.model, batch.observations, batch.sequences)
        probabilities = self.distribution.log_prob_and_entropy(logits, batch.actions, batch.action_mask)
        return *probabilities, self._critic_values(_critic_rows(batch).all(), batch.sequences)

    def critic_inputs(self, batch: Batch) -> CriticRows:
        """Return the normalised inputs of the critic.

        Args:
            batch: Rows of experience, with the inputs of the critic in ``critic_rows``.
        """
        return self.critic.normalized_rows(_critic_rows(batch))

    def update(self, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """See ``PPO``."""
        metrics = super().update(batch, generator)
        self.critic.observe(_critic_rows(batch), batch.weight)
        return metrics

    def replay(self, rollout: Rollout, tag: str) -> Replayed:
        """See ``OnPolicy``."""
        found = super().replay(rollout, tag)
        sequences = sequences_of(rollout, tag)
        values = self._critic_values(self.critic_input.of(rollout).all(), sequences)[: found.values.numel()]
        return found._replace(values=self.denormalized(values).view(found.values.shape))

    def _critic_values(self, states: Tensor, sequences: Sequences | None) -> Tensor:
        """Return the outputs of the critic ``[rows]``; rows are over time x sequence if it is recurrent."""
        if sequences is None or not self.critic.state_size:
            return self.critic.values(states)
        by_step = states.unflatten(0, sequences.begins.shape)
        start = sequences.start[:, -self.critic.state_size :]
        return self.critic.forward_sequence(by_step, start, sequences.begins)[0].flatten()


def _critic_rows(batch: Batch) -> CriticRows:
    assert batch.critic_rows is not None
    return batch.critic_rows


def build(config: PPOConfig, task: Task) -> tuple[MAPPO, ExperienceSource]:
    """Build the algorithm and its source of experience."""
    model, distribution = task.new_model(config), config.acting_distribution(task.action_space).to(task.device)
    shared = task.shared_input(config.critic_input)
    critic_input: CriticInput = shared
    if config.critic_input == "agent_specific":
        critic_input = AgentSpecific(task.tag, task.all_observation_spaces[task.tag], shared).to(task.device)
    critic = task.new_critic(lambda: build_central_critic(config.model, critic_input.size, config.recurrent_critic))
    apart = config.has_critic_optimizer
    critic_optimizer = adam(critic, eps=1e-5) if apart else None
    optimizer = adam(model if apart else nn.ModuleList([model, critic]), eps=1e-5)
    mappo = config.derived_from(MAPPO)
    algorithm = mappo(config, model, critic, critic_input, distribution, optimizer, critic_optimizer)
    if type(critic) is CentralCritic:
        algorithm.compile_actor_critic(task, MAPPO, (critic.value, critic_input.size), critic_optimizer)
    else:
        algorithm.not_compiled = "the critic is recurrent"
    return algorithm, rollout_batcher(algorithm, task, critic_input)
