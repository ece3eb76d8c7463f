"""Algorithms by the name that a run configuration gives them. An algorithm owns its loss and its update."""

from __future__ import annotations

import torch

from warpdrive.training.algorithms.a2c import A2C
from warpdrive.training.algorithms.ppo import PPO
from warpdrive.training.models.base import ActorCritic
from warpdrive.training.models.distributions import Distribution
from warpdrive.training.sections import A2CConfig, PPOConfig

Algorithm = A2C | PPO


def build_algorithm(
    config: A2CConfig | PPOConfig,
    model: ActorCritic,
    distribution: Distribution,
    optimizer: torch.optim.Optimizer,
) -> Algorithm:
    """The algorithm that ``config`` describes, training ``model`` through ``optimizer``."""
    if isinstance(config, PPOConfig):
        return PPO(config, model, distribution, optimizer)
    return A2C(config, model, distribution, optimizer)
