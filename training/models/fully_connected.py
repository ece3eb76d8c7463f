"""The standard model: one multi-layer perceptron for the policy and one for the value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from gymnasium import Space
from torch import Tensor, nn

from warpdrive.observations import Observations
from warpdrive.training.models.base import ActorCritic
from warpdrive.training.models.flatten import Flatten
from warpdrive.training.models.perceptron import perceptron


class FullyConnected(ActorCritic):
    """Policy and value as separate perceptrons, so that neither loss moves the other's parameters.

    The gain of the last layer is 0.01 for the policy, which starts nearly uniform, and 1 for the value.

    Args:
        observation_space: of one agent; observations are flattened, and what keys of a Dict hold put side by side.
        num_outputs: what the policy makes of an observation.
        hidden: width of each hidden layer.
        activation: ``"tanh"`` or ``"relu"``.
        num_log_stds: logarithms of standard deviations, which do not depend on the observation; they begin at 0.
        scale_observations: whether numbers that the observation space bounds are first scaled from there to [-1, 1].
        normalize_observations: whether numbers are then standardised by their running mean and variance.
    """

    def __init__(
        self,
        observation_space: Space[Any],
        num_outputs: int,
        hidden: Sequence[int],
        activation: str,
        num_log_stds: int = 0,
        scale_observations: bool = False,
        normalize_observations: bool = False,
    ) -> None:
        super().__init__()
        self.flatten = Flatten(observation_space, scale_observations, normalize_observations)
        self.policy = perceptron([self.flatten.size, *hidden, num_outputs], activation, last_gain=0.01)
        self.value = perceptron([self.flatten.size, *hidden, 1], activation, last_gain=1.0)
        self.log_std = nn.Parameter(torch.zeros(num_log_stds)) if num_log_stds else None

    def logits(self, observations: Observations) -> Tensor:
        """See ``ActorCritic``."""
        outputs: Tensor = self.policy(self.flatten(observations))
        if self.log_std is None:
            return outputs
        return torch.cat([outputs, self.log_std.expand(*outputs.shape[:-1], -1)], dim=-1)

    def values(self, observations: Observations) -> Tensor:
        """See ``ActorCritic``."""
        outputs: Tensor = self.value(self.flatten(observations))
        return outputs.squeeze(-1)
