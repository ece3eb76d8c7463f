"""Models by the ``type`` that a run configuration gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from gymnasium import Space

from warpdrive.training.models.base import ActorCritic
from warpdrive.training.models.distributions import Distribution
from warpdrive.training.models.fully_connected import FullyConnected
from warpdrive.training.sections import FullyConnectedConfig


def _fully_connected(
    config: FullyConnectedConfig, observation_space: Space[Any], distribution: Distribution
) -> ActorCritic:
    return FullyConnected(
        observation_space,
        distribution.num_outputs,
        config.hidden,
        config.activation,
        distribution.num_log_stds,
        config.scale_observations,
    )


MODELS: dict[str, Callable[[FullyConnectedConfig, Space[Any], Distribution], ActorCritic]] = {
    "fully_connected": _fully_connected
}


def build_model(
    config: FullyConnectedConfig, observation_space: Space[Any], distribution: Distribution, seed: int
) -> ActorCritic:
    """A model on the CPU, initialised from ``seed`` without touching PyTorch's global random state."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MODELS[config.type](config, observation_space, distribution)
