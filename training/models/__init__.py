"""Models by the ``type`` that a run configuration gives them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from warpdrive.training.models.base import ActorCritic
from warpdrive.training.models.distributions import Distribution
from warpdrive.training.models.fully_connected import FullyConnected
from warpdrive.training.sections import FullyConnectedConfig


def _fully_connected(
    config: FullyConnectedConfig, observation_shape: Sequence[int], distribution: Distribution
) -> ActorCritic:
    return FullyConnected(
        observation_shape, distribution.num_outputs, config.hidden, config.activation, distribution.num_log_stds
    )


MODELS: dict[str, Callable[[FullyConnectedConfig, Sequence[int], Distribution], ActorCritic]] = {
    "fully_connected": _fully_connected
}


def build_model(
    config: FullyConnectedConfig, observation_shape: Sequence[int], distribution: Distribution, seed: int
) -> ActorCritic:
    """A model on the CPU, initialised from ``seed`` without touching PyTorch's global random state."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MODELS[config.type](config, observation_shape, distribution)
