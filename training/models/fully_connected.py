"""The standard model: one multi-layer perceptron for the policy and one for the value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from gymnasium import Space
from gymnasium.spaces import Box
from torch import Tensor, nn

from warpdrive.errors import DefinitionError
from warpdrive.training.models.base import ActorCritic

_ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU}


class FullyConnected(ActorCritic):
    """Policy and value as separate perceptrons, so that neither loss moves the other's parameters.

    Initialised orthogonally (Saxe et al. 2014, arXiv:1312.6120) with gain sqrt(2) in the hidden layers, 0.01 in the
    last layer of the policy, which starts nearly uniform, and 1 in the last layer of the value.

    Args:
        observation_space: of one agent; observations are flattened.
        num_outputs: what the policy makes of an observation.
        hidden: width of each hidden layer.
        activation: ``"tanh"`` or ``"relu"``.
        num_log_stds: logarithms of standard deviations, which do not depend on the observation; they begin at 0.
        scale_observations: whether numbers that the observation space bounds are first scaled from there to [-1, 1].
    """

    offset: Tensor | None
    scale: Tensor | None

    def __init__(
        self,
        observation_space: Space[Any],
        num_outputs: int,
        hidden: Sequence[int],
        activation: str,
        num_log_stds: int = 0,
        scale_observations: bool = False,
    ) -> None:
        super().__init__()
        assert observation_space.shape is not None
        self.observation_dims = len(observation_space.shape)
        size = math.prod(observation_space.shape)
        offset, scale = _bounds_to_one(observation_space) if scale_observations else (None, None)
        self.register_buffer("offset", offset, persistent=False)
        self.register_buffer("scale", scale, persistent=False)
        self.policy = _perceptron([size, *hidden, num_outputs], activation, last_gain=0.01)
        self.value = _perceptron([size, *hidden, 1], activation, last_gain=1.0)
        self.log_std = nn.Parameter(torch.zeros(num_log_stds)) if num_log_stds else None

    def logits(self, observations: Tensor) -> Tensor:
        """See ``ActorCritic``."""
        outputs: Tensor = self.policy(self._flat(observations))
        if self.log_std is None:
            return outputs
        return torch.cat([outputs, self.log_std.expand(*outputs.shape[:-1], -1)], dim=-1)

    def values(self, observations: Tensor) -> Tensor:
        """See ``ActorCritic``."""
        outputs: Tensor = self.value(self._flat(observations))
        return outputs.squeeze(-1)

    def _flat(self, observations: Tensor) -> Tensor:
        leading = observations.shape[: observations.dim() - self.observation_dims]
        flat = observations.reshape(*leading, -1).float()
        return flat if self.offset is None or self.scale is None else (flat - self.offset) * self.scale


def _bounds_to_one(space: Space[Any]) -> tuple[Tensor, Tensor]:
    """Return what is to be subtracted from flat observations and what they are then multiplied by."""
    if not isinstance(space, Box):
        raise DefinitionError(f"model.scale_observations: found the observation space {space}, expected a Box")
    low, high = (torch.from_numpy(bound.reshape(-1).astype("float32")) for bound in (space.low, space.high))
    bounded = torch.isfinite(low) & torch.isfinite(high) & (low < high)
    offset = torch.where(bounded, 0.5 * (low + high), 0.0)
    return offset, torch.where(bounded, 2.0 / (high - low), 1.0)


def _perceptron(sizes: Sequence[int], activation: str, last_gain: float) -> nn.Sequential:
    layers: list[nn.Module] = []
    for depth, (inputs, outputs) in enumerate(pairwise(sizes)):
        is_last = depth == len(sizes) - 2
        linear = nn.Linear(inputs, outputs)
        nn.init.orthogonal_(linear.weight, last_gain if is_last else 2**0.5)
        nn.init.zeros_(linear.bias)
        layers += [linear] if is_last else [linear, _ACTIVATIONS[activation]()]
    return nn.Sequential(*layers)
