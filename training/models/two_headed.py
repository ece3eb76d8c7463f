"""Models that make of one vector of numbers what a policy and a value estimate need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from warpdrive.observations import Observations
from warpdrive.training.models.base import ActorCritic
from warpdrive.training.models.flatten import Flatten

Trunk = Literal["separate", "shared"]

LEAST_LOG_STD, MOST_LOG_STD = -20.0, 2.0  # as in the authors' code of soft actor-critic


class TwoHeaded(ActorCritic):
    """A policy and a value, separate, so that neither loss moves the other's parameters, or after a common trunk.

    Args:
        flatten: makes a vector of an observation.
        trunk: what both share; None: nothing.
        policy: makes of the trunk's outputs, or of the vector, what the distribution of actions depends on.
        value: makes of the same one number.
        log_std: how standard deviations of actions in a Box come about.
    """

    def __init__(
        self, flatten: Flatten, trunk: nn.Module | None, policy: nn.Module, value: nn.Module, log_std: LogStd
    ) -> None:
        super().__init__()
        self.flatten = flatten
        self.trunk = trunk or nn.Identity()
        self.policy, self.value = policy, value
        self.log_std, self._num_means = log_std.parameter(), log_std.count

    def logits(self, observations: Observations) -> Tensor:
        """See ``ActorCritic``."""
        return with_log_std(self.policy(self._features(observations)), self.log_std, self._num_means)

    def values(self, observations: Observations) -> Tensor:
        """See ``ActorCritic``."""
        outputs: Tensor = self.value(self._features(observations))
        return outputs.squeeze(-1)

    def forward(self, observations: Observations) -> tuple[Tensor, Tensor]:
        """See ``ActorCritic``."""
        features = self._features(observations)
        return with_log_std(self.policy(features), self.log_std, self._num_means), self.value(features).squeeze(-1)

    def _features(self, observations: Observations) -> Tensor:
        features: Tensor = self.trunk(self.flatten(observations))
        return features


@dataclass(frozen=True)
class LogStd:
    """The logarithms of the standard deviations of actions in a Box.

    Attributes:
        count: how many there are.
        initial: what they begin at.
        depends_on_state: whether the policy makes of an observation by how much they differ from parameters.
    """

    count: int = 0
    initial: float = 0.0
    depends_on_state: bool = False

    @property
    def num_outputs(self) -> int:
        """What the policy makes of an observation for them."""
        return self.count if self.depends_on_state else 0

    def parameter(self) -> nn.Parameter | None:
        """Parameters that are the same for every observation, ``[count]``."""
        return nn.Parameter(torch.full((self.count,), self.initial)) if self.count else None


NO_LOG_STD = LogStd()


def with_log_std(outputs: Tensor, log_std: Tensor | None, num_means: int) -> Tensor:
    """``outputs [..., num_means]`` with the same ``log_std [m]`` after each row, if there is one.

    Of ``outputs [..., num_means + m]`` the last ones are added to it; that is clipped, as in SAC's authors' code.
    """
    if log_std is None:
        return outputs
    means, differences = outputs[..., :num_means], outputs[..., num_means:]
    if differences.shape[-1] == 0:
        return torch.cat([means, log_std.expand(*outputs.shape[:-1], -1)], dim=-1)
    return torch.cat([means, (log_std + differences).clamp(LEAST_LOG_STD, MOST_LOG_STD)], dim=-1)
