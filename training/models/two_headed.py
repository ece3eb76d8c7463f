"""Models with a policy head and a value head."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from warpdrive.observations import Observations
from warpdrive.training.models.base import ActorCritic
from warpdrive.training.models.flatten import Flatten
from warpdrive.training.models.options import GaussianConfig

MIN_LOG_STD, MAX_LOG_STD = -20.0, 2.0  # as in the authors' code of soft actor-critic


class TwoHeaded(ActorCritic):
    """Policy and value function, with separate parameters or after a shared trunk.

    Args:
        flatten: Flattens observations to vectors.
        trunk: Shared layers; None: none, so that neither loss changes the other's parameters.
        policy: Maps the trunk's outputs, or the vector, to the parameters of the action distribution.
        value: Maps the same to one value estimate.
        log_std: Parametrisation of the standard deviations of actions in a Box.
    """

    def __init__(
        self, flatten: Flatten, trunk: nn.Module | None, policy: nn.Module, value: nn.Module, log_std: LogStd
    ) -> None:
        super().__init__()
        self.flatten = flatten
        self.trunk = trunk or nn.Identity()
        self.policy, self.value = policy, value
        self.log_std, self._num_means = log_std.parameter(), log_std.count
        self._depends_on_state = log_std.depends_on_state and log_std.count > 0

    @property
    def std_is_constant(self) -> bool:
        """True if standard deviations do not depend on observations, or there are none."""
        return not self._depends_on_state

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
    """Logarithms of the standard deviations of actions in a Box.

    Attributes:
        count: Number of standard deviations.
        initial: Initial value.
        depends_on_state: If True, the policy outputs differences from the parameters for each observation.
    """

    count: int = 0
    initial: float = 0.0
    depends_on_state: bool = False

    @staticmethod
    def of(options: GaussianConfig, count: int) -> LogStd:
        """Return the parametrisation of ``count`` standard deviations."""
        return LogStd(count, options.initial_log_std, options.state_dependent_std)

    @property
    def num_outputs(self) -> int:
        """Number of additional policy outputs."""
        return self.count if self.depends_on_state else 0

    def parameter(self) -> nn.Parameter | None:
        """Return state-independent parameters ``[count]``; None if there are none."""
        return nn.Parameter(torch.full((self.count,), self.initial)) if self.count else None


def with_log_std(outputs: Tensor, log_std: Tensor | None, num_means: int) -> Tensor:
    """Append ``log_std [m]``, if there is one, to each row of ``outputs [..., num_means]``.

    The last elements of ``outputs [..., num_means + m]`` are added to it; the sum is clipped, as in the SAC authors'
    code.

    Args:
        outputs: Policy outputs.
        log_std: State-independent logarithms of standard deviations, or None.
        num_means: Number of means.

    Returns:
        Means and logarithms of standard deviations, ``[..., num_means + m]``.
    """
    if log_std is None:
        return outputs
    means, differences = outputs[..., :num_means], outputs[..., num_means:]
    if differences.shape[-1] == 0:
        return torch.cat([means, log_std.expand(*outputs.shape[:-1], -1)], dim=-1)
    return torch.cat([means, (log_std + differences).clamp(MIN_LOG_STD, MAX_LOG_STD)], dim=-1)
