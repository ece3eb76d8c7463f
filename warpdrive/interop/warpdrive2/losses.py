"""Losses of actor-critics and of deterministic policies, over batches ``[steps, num_envs, agents]``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Categorical

from warpdrive.interop.warpdrive2.schedules import ParamScheduler

Metrics = dict[str, float]
_EPSILON = 1e-10


class _Loss:
    def __init__(
        self, discount_factor_gamma: float = 1.0, normalize_advantage: bool = False, normalize_return: bool = False
    ) -> None:
        assert 0 <= discount_factor_gamma <= 1, f"gamma is {discount_factor_gamma}, expected 0 to 1"
        self.discount_factor_gamma = discount_factor_gamma
        self.normalize_advantage, self.normalize_return = normalize_advantage, normalize_return


class A2C(_Loss):
    """Advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783).

    Args:
        discount_factor_gamma: Discount per step.
        normalize_advantage: If True, advantages are normalised over the agents of each step.
        normalize_return: If True, returns are normalised over the agents of each step.
        vf_loss_coeff: Coefficient of the value loss, or its schedule.
        entropy_coeff: Coefficient of the entropy, or its schedule.
    """

    def __init__(
        self,
        discount_factor_gamma: float = 1.0,
        normalize_advantage: bool = False,
        normalize_return: bool = False,
        vf_loss_coeff: Any = 0.01,
        entropy_coeff: Any = 0.01,
    ) -> None:
        super().__init__(discount_factor_gamma, normalize_advantage, normalize_return)
        self.vf_loss_coeff_schedule = ParamScheduler(vf_loss_coeff)
        self.entropy_coeff_schedule = ParamScheduler(entropy_coeff)

    def compute_loss_and_metrics(
        self,
        timestep: int,
        actions_batch: Tensor,
        rewards_batch: Tensor,
        done_flags_batch: Tensor,
        action_probabilities_batch: Sequence[Tensor],
        value_functions_batch: Tensor,
        perform_logging: bool = False,
        negative_positive_ratio: float = -1,
    ) -> tuple[Tensor, Metrics]:
        """Return the loss of a batch.

        Args:
            timestep: Environment steps so far, for schedules.
            actions_batch: ``[steps, num_envs, agents, components]`` int32.
            rewards_batch: ``[steps, num_envs, agents]`` float32.
            done_flags_batch: ``[steps, num_envs]`` int32: 0, or more where the episode ends.
            action_probabilities_batch: For each component, ``[steps, num_envs, agents, choices]``.
            value_functions_batch: ``[steps, num_envs, agents]`` float32.
            perform_logging: If True, metrics are computed.
            negative_positive_ratio: Replicas without an episode that ended with 2, for each with one; -1: all.

        Returns:
            The loss, and metrics by name.
        """
        actions, rewards, done = actions_batch, rewards_batch, done_flags_batch
        probabilities, values = action_probabilities_batch, value_functions_batch
        counts: Metrics = {}
        if negative_positive_ratio > 0:
            chosen, counts = _balanced(done, negative_positive_ratio)
            actions, rewards, done, values = (batch[:, chosen] for batch in (actions, rewards, done, values))
            probabilities = [component[:, chosen] for component in probabilities]
        returns = self._returns(rewards, (done > 0).unsqueeze(-1), values.detach())
        normalized_returns = _normalized(returns) if self.normalize_return else returns
        advantages = normalized_returns - values.detach()
        normalized_advantages = _normalized(advantages) if self.normalize_advantage else advantages
        distributions = [Categorical(component) for component in probabilities]
        log_prob = sum(d.log_prob(actions[..., index]) for index, d in enumerate(distributions))
        entropy = sum(d.entropy().mean() for d in distributions)
        value_loss = torch.nn.functional.mse_loss(values, normalized_returns)
        policy_loss = self._policy_loss(log_prob, normalized_advantages)
        of_values = self.vf_loss_coeff_schedule.get_param_value(timestep)
        of_entropy = self.entropy_coeff_schedule.get_param_value(timestep)
        loss = policy_loss + of_values * value_loss - of_entropy * entropy
        if not perform_logging:
            return loss, {}
        metrics = {
            "VF loss coefficient": of_values,
            "Entropy coefficient": of_entropy,
            "Total loss": loss,
            "Policy loss": policy_loss,
            "Value function loss": value_loss,
            "Mean entropy": entropy,
            **_of_batch(actions, rewards, values, returns, normalized_returns, advantages, normalized_advantages),
            **counts,
        }
        return loss, _floats(metrics)

    def _returns(self, rewards: Tensor, done: Tensor, values: Tensor) -> Tensor:
        """Return the discounted returns; the last step is bootstrapped with its own value estimate."""
        returns = torch.empty_like(rewards)
        returns[-1] = following = torch.where(done[-1], rewards[-1], values[-1])
        for step in range(len(rewards) - 2, -1, -1):
            following = rewards[step] + self.discount_factor_gamma * following.masked_fill(done[step], 0.0)
            returns[step] = following
        return returns

    def _policy_loss(self, log_prob: Tensor, advantages: Tensor) -> Tensor:
        return -(log_prob * advantages).mean()


class PPO(A2C):
    """Clipped surrogate objective (Schulman et al. 2017, arXiv:1707.06347), with one step per batch.

    Args:
        discount_factor_gamma: Discount per step.
        clip_param: Maximum distance of the importance ratio from 1.
        normalize_advantage: If True, advantages are normalised over the agents of each step.
        normalize_return: If True, returns are normalised over the agents of each step.
        vf_loss_coeff: Coefficient of the value loss, or its schedule.
        entropy_coeff: Coefficient of the entropy, or its schedule.
    """

    def __init__(
        self,
        discount_factor_gamma: float = 1.0,
        clip_param: float = 0.1,
        normalize_advantage: bool = False,
        normalize_return: bool = False,
        vf_loss_coeff: Any = 0.01,
        entropy_coeff: Any = 0.01,
    ) -> None:
        super().__init__(discount_factor_gamma, normalize_advantage, normalize_return, vf_loss_coeff, entropy_coeff)
        self.clip_param = clip_param

    def _policy_loss(self, log_prob: Tensor, advantages: Tensor) -> Tensor:
        ratio = (log_prob - log_prob.detach()).exp()
        clipped = ratio.clamp(1.0 - self.clip_param, 1.0 + self.clip_param)
        return -torch.minimum(ratio * advantages, clipped * advantages).mean()


class DDPG(_Loss):
    """Deterministic policy gradient (Lillicrap et al. 2015, arXiv:1509.02971), with n-step returns.

    Args:
        discount_factor_gamma: Discount per step.
        normalize_advantage: If True, logged advantages are normalised over the agents of each step.
        normalize_return: If True, returns are normalised over the agents of each step.
        n_step: Steps of a return.
    """

    def __init__(
        self,
        discount_factor_gamma: float = 1.0,
        normalize_advantage: bool = False,
        normalize_return: bool = False,
        n_step: int = 1,
    ) -> None:
        super().__init__(discount_factor_gamma, normalize_advantage, normalize_return)
        assert n_step >= 1, f"n_step is {n_step}, expected 1 or more"
        self.n_step = n_step

    def compute_loss_and_metrics(
        self,
        timestep: int,
        actions_batch: Tensor,
        rewards_batch: Tensor,
        done_flags_batch: Tensor,
        value_functions_batch: Tensor,
        next_value_functions_batch: Tensor,
        j_functions_batch: Tensor,
        perform_logging: bool = False,
    ) -> tuple[Tensor, Tensor, Metrics]:
        """Return the losses of a batch.

        Args:
            timestep: Environment steps so far.
            actions_batch: ``[steps, num_envs, agents, components]`` float32.
            rewards_batch: ``[steps, num_envs, agents]`` float32.
            done_flags_batch: ``[steps, num_envs]`` int32: 0, or more where the episode ends.
            value_functions_batch: Values of the actions, ``[steps, num_envs, agents]``.
            next_value_functions_batch: Values of the target policy in the next step, ``[steps - 1, num_envs, agents]``.
            j_functions_batch: Values of the policy's actions, ``[steps, num_envs, agents]``.
            perform_logging: If True, metrics are computed.

        Returns:
            The losses of the actor and of the critic, and metrics by name.
        """
        next_values = next_value_functions_batch.detach()
        returns = self._returns(rewards_batch, (done_flags_batch > 0).unsqueeze(-1), next_values)
        normalized_returns = _normalized(returns) if self.normalize_return else returns
        values, objective = value_functions_batch[: len(returns)], j_functions_batch[: len(returns)]
        critic_loss = torch.nn.functional.mse_loss(values, normalized_returns)
        actor_loss = -(_normalized(objective) if self.normalize_return else objective).mean()
        if not perform_logging:
            return actor_loss, critic_loss, {}
        advantages = (normalized_returns - values).detach()
        normalized_advantages = _normalized(advantages) if self.normalize_advantage else advantages
        metrics = {
            "Total loss": actor_loss + critic_loss,
            "Actor loss": actor_loss,
            "Critic loss": critic_loss,
            "Mean J function": objective.mean(),
            **_of_batch(
                actions_batch, rewards_batch, values, returns, normalized_returns, advantages, normalized_advantages
            ),
        }
        return actor_loss, critic_loss, _floats(metrics)

    def _returns(self, rewards: Tensor, done: Tensor, next_values: Tensor) -> Tensor:
        """Return the returns over ``n_step`` steps; the last is bootstrapped with the last known value."""
        gamma, steps = self.discount_factor_gamma, len(rewards)
        last = torch.where(done[-1:], rewards[-1:], next_values[-1:])
        following = rewards[:-1] + gamma * next_values.masked_fill(done[:-1], 0.0)
        returns = torch.cat([following, last])[self.n_step - 1 :]
        for step in range(1, self.n_step):
            window = slice(self.n_step - 1 - step, steps - step)
            returns = rewards[window] + gamma * returns.masked_fill(done[window], 0.0)
        return returns


def _balanced(done: Tensor, ratio: float) -> tuple[Tensor, Metrics]:
    """Return the indices of replicas with an episode that ended with 2, and of some other replicas."""
    reached = (done == 2).any(dim=0)
    positive, negative = reached.nonzero().flatten(), (~reached).nonzero().flatten()
    if len(positive):
        negative = negative[torch.randperm(len(negative), device=done.device)[: int(len(positive) * ratio)]]
    counts = {
        "Num of Positive Sampled Envs": float(len(positive)),
        "Num of Negative Sampled Envs": float(len(negative)),
    }
    return torch.cat([positive, negative]), counts


def _normalized(values: Tensor) -> Tensor:
    mean, deviation = values.mean(dim=(1, 2), keepdim=True), values.std(dim=(1, 2), keepdim=True)
    return (values - mean) / (deviation + _EPSILON)


def _of_batch(
    actions: Tensor,
    rewards: Tensor,
    values: Tensor,
    returns: Tensor,
    normalized_returns: Tensor,
    advantages: Tensor,
    normalized_advantages: Tensor,
) -> dict[str, Any]:
    unexplained = normalized_advantages.var() / (normalized_returns.var() + _EPSILON)
    spread = {
        f"Std. of action_{index} over {axis}": actions[..., index].float().std(dim=dim, correction=0).mean()
        for index in range(actions.shape[-1])
        for axis, dim in (("agents", 2), ("envs", 1), ("time", 0))
    }
    return {
        "Mean rewards": rewards.mean(),
        "Max. rewards": rewards.max(),
        "Min. rewards": rewards.min(),
        "Mean value function": values.mean(),
        "Mean advantages": advantages.mean(),
        "Mean (norm.) advantages": normalized_advantages.mean(),
        "Mean (discounted) returns": returns.mean(),
        "Mean normalized returns": normalized_returns.mean(),
        "Variance explained by the value function": (1.0 - unexplained).clamp(min=-1.0),
        **spread,
    }


def _floats(metrics: dict[str, Any]) -> Metrics:
    return {name: float(torch.as_tensor(value).detach()) for name, value in metrics.items()}
