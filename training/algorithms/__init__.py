"""Algorithms by the name that a run configuration gives them, and what they learn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from gymnasium import Space
from torch import Tensor, nn

from warpdrive.backends.interface import Backend
from warpdrive.rollout import Rollout
from warpdrive.training.algorithms.a2c import A2C
from warpdrive.training.algorithms.base import Algorithm, Stateful
from warpdrive.training.algorithms.dqn import DQN
from warpdrive.training.algorithms.ppo import PPO
from warpdrive.training.batch import RolloutRows
from warpdrive.training.models import build_model
from warpdrive.training.models.distributions import distribution_of
from warpdrive.training.replay_buffer import ReplayBuffer
from warpdrive.training.sections import A2CConfig, DQNConfig, LearningConfig, PPOConfig


class Source(Stateful, Protocol):
    """Turns rollouts into what an algorithm learns from."""

    def of(self, rollout: Rollout) -> Any:
        """What there is to learn from, once ``rollout`` is there, too."""


@dataclass(frozen=True)
class Task:
    """Whom an algorithm trains a policy for.

    Attributes:
        tag: the policy tag.
        agent_ids: ``[agents of the tag]`` int32, on the device.
        observation_space: of one agent.
        action_space: of one agent.
        backend: on whose device models live.
        seed: of their initial parameters.
    """

    tag: str
    agent_ids: Tensor
    observation_space: Space[Any]
    action_space: Space[Any]
    backend: Backend
    seed: int


def build_algorithm(config: LearningConfig, task: Task) -> tuple[Algorithm[Any], Source]:
    """The algorithm that ``config`` describes, with a new model, and what it learns from."""
    model = build_model(config, task.observation_space, task.action_space, task.seed).to(task.backend.device)
    if isinstance(config, DQNConfig):
        algorithm: Algorithm[Any] = DQN(config, model, _adam(model, config.lr))
    else:
        assert isinstance(config, A2CConfig | PPOConfig)
        optimizer = torch.optim.Adam(model.parameters(), eps=1e-5, fused=True)
        distribution = distribution_of(task.action_space)
        if isinstance(config, PPOConfig):
            on_policy: PPO | A2C = PPO(config, model, distribution, optimizer)
        else:
            on_policy = A2C(config, model, distribution, optimizer)
        return on_policy, RolloutRows(task.tag, model, task.backend, task.agent_ids, lambda: on_policy.config)
    return algorithm, ReplayBuffer(task.tag, config.buffer_size, task.backend.device)


def _adam(model: nn.Module, lr: float) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=lr, fused=True)
