"""Models that make of one vector of numbers what a policy and a value estimate need."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from warpdrive.observations import Observations
from warpdrive.training.models.base import ActorCritic
from warpdrive.training.models.flatten import Flatten

Trunk = Literal["separate", "shared"]


class TwoHeaded(ActorCritic):
    """A policy and a value, separate, so that neither loss moves the other's parameters, or after a common trunk.

    Args:
        flatten: makes a vector of an observation.
        trunk: what both share; None: nothing.
        policy: makes of the trunk's outputs, or of the vector, what the distribution of actions depends on.
        value: makes of the same one number.
        num_log_stds: logarithms of standard deviations, which do not depend on the observation; they begin at 0.
    """

    def __init__(
        self, flatten: Flatten, trunk: nn.Module | None, policy: nn.Module, value: nn.Module, num_log_stds: int
    ) -> None:
        super().__init__()
        self.flatten = flatten
        self.trunk = trunk or nn.Identity()
        self.policy, self.value = policy, value
        self.log_std = nn.Parameter(torch.zeros(num_log_stds)) if num_log_stds else None

    def logits(self, observations: Observations) -> Tensor:
        """See ``ActorCritic``."""
        return with_log_std(self.policy(self._features(observations)), self.log_std)

    def values(self, observations: Observations) -> Tensor:
        """See ``ActorCritic``."""
        outputs: Tensor = self.value(self._features(observations))
        return outputs.squeeze(-1)

    def forward(self, observations: Observations) -> tuple[Tensor, Tensor]:
        """See ``ActorCritic``."""
        features = self._features(observations)
        return with_log_std(self.policy(features), self.log_std), self.value(features).squeeze(-1)

    def _features(self, observations: Observations) -> Tensor:
        features: Tensor = self.trunk(self.flatten(observations))
        return features


def with_log_std(outputs: Tensor, log_std: Tensor | None) -> Tensor:
    """``outputs [..., n]`` with the same ``log_std [m]`` after each row, if there is one."""
    if log_std is None:
        return outputs
    return torch.cat([outputs, log_std.expand(*outputs.shape[:-1], -1)], dim=-1)
