"""Parallelised Q-network (PQN: Gallici et al. 2024, arXiv:2407.04811).

Q-learning with lambda-returns of each rollout, without a replay buffer or a target network. Layer normalisation keeps
it stable, and thousands of replicas decorrelate its samples. With ``mixing: vdn`` the agents of a policy tag learn the
sum of their action values from the sum of their rewards (VDN: Sunehag et al. 2018, arXiv:1706.05296).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from gymnasium import Space, spaces
from torch import Tensor

from warpdrive.environment import Environment
from warpdrive.observations import Observations, mapped
from warpdrive.training.algorithms.base import Algorithm, ReturnsConfig, Stateful, UpdateSize
from warpdrive.training.algorithms.common import (
    at,
    compile_q_update,
    means,
    minibatch_problems,
    q_steps,
    set_learning_rate,
)
from warpdrive.training.algorithms.task import Task, adam
from warpdrive.training.config.messages import Problem
from warpdrive.training.config.values import Count, FractionSchedule, PositiveSchedule
from warpdrive.training.distributed.process_group import Sharding
from warpdrive.training.experience.batch import AbsentValue, Batch
from warpdrive.training.experience.transitions import ended, transitions_of
from warpdrive.training.models.distributions import masked
from warpdrive.training.models.options import ACTION_VALUE_CONFIGS, OffPolicyModelConfig, PerceptronConfig
from warpdrive.training.models.q_network import QNetwork
from warpdrive.training.rollout.exploration import EpsilonGreedy

if TYPE_CHECKING:
    from warpdrive.rollout import Rollout


class PQNConfig(ReturnsConfig):
    """Parallelised Q-network, for a single Discrete action."""

    actions = "Discrete"
    model_sections = ACTION_VALUE_CONFIGS
    algorithm: Literal["pqn"] = "pqn"
    model: OffPolicyModelConfig = PerceptronConfig(layer_norm=True, activation="relu")
    """Model of the action values, with layer normalisation in place of a target network."""
    td_lambda: FractionSchedule = 0.65
    """Lambda of the returns: 0 for one-step targets, 1 for returns up to the end of the rollout or episode."""
    epsilon: FractionSchedule = [[0, 1.0], [100_000, 0.05]]  # type: ignore[assignment]
    """Probability of a random action, by environment steps."""
    mixing: Literal["none", "vdn"] = "none"
    """``vdn``: the sum of the agents' action values is learned from the team reward; ``none``: each agent learns from
    its own rewards.
    """
    epochs: Count = 2
    """Passes over the rollout per update."""
    minibatches: Count = 16
    """Minibatches per epoch, each for one gradient step."""
    max_grad_norm: PositiveSchedule = 10.0
    """Maximum norm of a gradient; larger gradients are scaled down to it."""

    def problems(self, size: UpdateSize, env: Environment) -> list[Problem]:
        """See ``LearningConfig``."""
        found = minibatch_problems(self.minibatches, self._rows(size), "the samples of one update")
        if self.mixing == "vdn" and not self.parameter_sharing:
            found.append(("mixing", "found 'vdn', expected parameter_sharing: true: a team is trained together"))
        return found

    def _rows(self, size: UpdateSize) -> int:
        return size.samples if self.mixing == "none" else size.samples // size.num_agents

    def build_model(self, observation_space: Space[Any], action_space: Space[Any]) -> QNetwork:
        """See ``LearningConfig``."""
        assert isinstance(action_space, spaces.Discrete), "the configuration is checked for this"
        return QNetwork(observation_space, int(action_space.n), self.model)


@dataclass(frozen=True)
class TeamBatch(Batch):
    """Batch whose rows are teams, over time x replica.

    Observations are ``[rows, agents, *observation_shape]`` and actions ``[rows, agents]``.

    Attributes:
        active: ``[rows, agents]`` float32, 1 where the agent was in the episode, else 0.
    """

    active: Tensor | None = None


class PQN(Algorithm[Batch]):
    """PQN for one model.

    Args:
        config: Section of the policy in the run configuration.
        model: Action-value network to train.
        optimizer: Optimizer of the model.

    Attributes:
        config: The section with the current value in place of each schedule.
    """

    config: PQNConfig
    actor: EpsilonGreedy
    model: QNetwork

    def __init__(self, config: PQNConfig, model: QNetwork, optimizer: torch.optim.Optimizer) -> None:
        self.schedules, self.model, self.trained, self.optimizer = config, model, model, optimizer
        self.actor = EpsilonGreedy(model).to(next(model.parameters()).device)
        self.begin(env_steps=0)

    def begin(self, env_steps: int) -> None:
        """See ``Algorithm``."""
        self.config = at(self.schedules, env_steps)
        self.actor.epsilon.fill_(self.config.epsilon)
        set_learning_rate(self.optimizer, self.config.lr)

    def parts(self) -> dict[str, Stateful]:
        """See ``Algorithm``."""
        return {"optimizer": self.optimizer}

    def update(self, experience: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """Train for several epochs of random minibatches drawn with ``generator``. Returns means over all of them."""
        epochs = [experience.partition(self.config.minibatches, generator) for _ in range(self.config.epochs)]
        if self.is_compiled:
            return q_steps(self, experience, epochs, max_grad_norm=self.config.max_grad_norm)
        return means([self.take_gradient_step(part) for parts in epochs for part in experience.split(parts)])

    def loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss to minimise, half the squared error of the action values, and its terms without gradient."""
        values = self.model(batch.observations).gather(-1, batch.actions.long().unsqueeze(-1)).squeeze(-1)
        if isinstance(batch, TeamBatch):
            values = (values if batch.active is None else values * batch.active).sum(-1)
        loss = batch.masked_mean(0.5 * (values - batch.returns).square())
        return loss, {"td_loss": loss.detach(), "q_values": batch.masked_mean(values.detach())}

    def best_values(self, observations: Observations, action_mask: Tensor | None) -> Tensor:
        """Return the value ``[rows]`` of the best allowed action.

        Args:
            observations: ``[rows, *observation_shape]``.
            action_mask: ``[rows, choices]`` bool, or None.
        """
        values: Tensor = self.model(observations)
        if action_mask is not None:
            values = masked(values, action_mask[..., : values.shape[-1]])
        return values.amax(-1)


class LambdaReturns:
    """Builder of the batch of each rollout, whose returns are lambda-returns of the best actions' values.

    Like ``RolloutBatcher``, it bootstraps returns of agents that have left their episode with their running mean.

    Args:
        tag: Policy tag.
        learner: Provides the values and the coefficients.
        sharding: Distribution of the rows over processes.
        device: Device of the rows.
    """

    def __init__(self, tag: str, learner: PQN, sharding: Sharding, device: torch.device) -> None:
        self.tag, self.learner, self.sharding = tag, learner, sharding
        self._absent_value = AbsentValue(device, sharding)

    @torch.no_grad()
    def of(self, rollout: Rollout) -> Batch:
        """Return the rows of a full rollout."""
        if self.learner.config.mixing == "vdn":
            return self._of_teams(rollout)
        config, after_leaving = self.learner.config, self.learner.config.returns_after_leaving
        steps = transitions_of(rollout, self.tag, after_leaving)
        shape = rollout.of("rewards", self.tag).shape
        following = self.learner.best_values(steps.next_observations, steps.next_action_mask).view(shape)
        weight = torch.full(shape, config.td_lambda, device=following.device)
        if rollout.still_active is not None:
            stays = rollout.of("still_active", self.tag)
            following = following.where(stays, self._absent_value.value)
            weight = weight.where(stays, 1.0)  # inactive agents choose no actions
        returns = lambda_returns(
            rewards=steps.rewards.view(shape),
            next_values=following.where(~steps.terminal.view(shape), 0.0),
            ended=ended(rollout, self.tag, after_leaving),
            gamma=config.gamma,
            td_lambda=weight,
        ).flatten()
        if rollout.active is not None and after_leaving:
            self._absent_value.observe(returns - self._absent_value.value, 1.0 - steps.weight)
        nothing = torch.zeros_like(returns)
        return Batch(
            observations=steps.observations,
            actions=steps.actions,
            log_probabilities=nothing,
            values=nothing,
            advantages=nothing,
            returns=returns,
            weight=steps.weight,
            sharding=self.sharding,
        )

    def _of_teams(self, rollout: Rollout) -> TeamBatch:
        """Return the rows of a full rollout, over time x replica."""
        config = self.learner.config
        steps = transitions_of(rollout, self.tag, returns_after_leaving=True)
        own = rollout.of("rewards", self.tag)
        agents = own.shape[-1]
        active = None if rollout.active is None else steps.weight.view(own.shape)
        following = self.learner.best_values(steps.next_observations, steps.next_action_mask).view(own.shape)
        stays = None
        if active is not None:
            stays = rollout.of("still_active", self.tag)
            following = following.where(stays, 0.0)
            own = own if config.returns_after_leaving or config.team_reward != "own" else own * active
        rewards = own.sum(-1) if config.team_reward == "own" else own.mean(-1)
        following = following.sum(-1).where(~rollout.terminated, 0.0)
        returns = team_returns(
            rewards=rewards,
            next_values=following,
            ended=rollout.terminated | rollout.truncated,
            still_active=stays,
            gamma=config.gamma,
            td_lambda=torch.full_like(following, config.td_lambda),
            returns_after_leaving=config.returns_after_leaving,
        ).flatten()
        zeros = torch.zeros_like(returns)
        return TeamBatch(
            observations=mapped(lambda seen: seen.unflatten(0, (-1, agents)), steps.observations),
            actions=steps.actions.view(-1, agents),
            log_probabilities=zeros,
            values=zeros,
            advantages=zeros,
            returns=returns,
            weight=torch.ones_like(returns) if active is None else active.amax(-1).flatten(),
            sharding=replace(self.sharding, agents=1),
            active=None if active is None else active.flatten(0, 1),
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the running mean of the returns of agents out of the episode."""
        return self._absent_value.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state returned by ``state_dict()``."""
        self._absent_value.load_state_dict(state_dict)


def lambda_returns(*, rewards: Tensor, next_values: Tensor, ended: Tensor, gamma: float, td_lambda: Tensor) -> Tensor:
    """Return the lambda-returns of steps (equation 12.18 of Sutton & Barto 2018, with ``next_values`` as estimates).

    ``G[t] = r[t] + gamma * ((1 - lambda[t]) * V[t + 1] + lambda[t] * G[t + 1])``, where ``G[t + 1]`` is ``V[t + 1]`` at
    the end of the rollout and of an episode.

    Args:
        rewards: ``[T, ...]`` float32.
        next_values: ``[T, ...]`` float32, estimates after each step, in the same episode; 0 if nothing follows.
        ended: ``[T, ...]`` bool, True if the next row is not the next step of the same episode.
        gamma: Discount per step.
        td_lambda: ``[T, ...]`` float32, weight of longer returns.

    Returns:
        Returns ``[T, ...]`` float32.
    """
    returns, later = torch.empty_like(rewards), next_values[-1]
    for t in reversed(range(len(rewards))):
        later = torch.where(ended[t], next_values[t], later)
        returns[t] = rewards[t] + gamma * torch.lerp(next_values[t], later, td_lambda[t])
        later = returns[t]
    return returns


def team_returns(
    *,
    rewards: Tensor,
    next_values: Tensor,
    ended: Tensor,
    still_active: Tensor | None,
    gamma: float,
    td_lambda: Tensor,
    returns_after_leaving: bool,
) -> Tensor:
    """Return the :func:`lambda_returns` of teams, whose agents may all be out of the episode.

    There is no bootstrapping from a step after which no agent is active. The rewards of the following steps are summed,
    as there are no actions, until an agent is active again or the episode ends; without ``returns_after_leaving``
    returns end.

    Args:
        rewards: ``[T, ...]`` float32.
        next_values: ``[T, ...]`` float32, see :func:`lambda_returns`.
        ended: ``[T, ...]`` bool, True if the episode ended in the step.
        still_active: ``[T, ..., agents]`` bool, True if the agent was in the episode after the step; None: always.
        gamma: Discount per step.
        td_lambda: ``[T, ...]`` float32, weight of longer returns.
        returns_after_leaving: See ``ReturnsConfig``.

    Returns:
        Returns ``[T, ...]`` float32.
    """
    if still_active is not None:
        is_there = still_active.any(-1)
        next_values = next_values.where(is_there, 0.0)
        if returns_after_leaving:
            td_lambda = td_lambda.where(is_there, 1.0)
        else:
            ended = ended | ~is_there
    return lambda_returns(rewards=rewards, next_values=next_values, ended=ended, gamma=gamma, td_lambda=td_lambda)


def build(config: PQNConfig, task: Task) -> tuple[PQN, LambdaReturns]:
    """Build the algorithm and its source of experience."""
    model = task.new_model(config)
    algorithm = PQN(config, model, adam(model))
    if config.mixing == "none":
        compile_q_update(algorithm, task, huber=False)
    else:
        algorithm.not_compiled = f"mixing: {config.mixing}"
    return algorithm, LambdaReturns(task.tag, algorithm, task.sharding, task.device)
