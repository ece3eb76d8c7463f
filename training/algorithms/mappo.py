"""PPO with a centralised critic (MAPPO: Yu et al. 2022, arXiv:2103.01955): values are estimated from what all agents of
a replica see, while each acts by what it sees itself.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from warpdrive.observations import Observations
from warpdrive.rollout import Rollout
from warpdrive.training.algorithms.base import Stateful
from warpdrive.training.algorithms.ppo import PPO
from warpdrive.training.batch import Batch
from warpdrive.training.joint_observations import JointObservations
from warpdrive.training.models.base import ActorCritic
from warpdrive.training.models.central_critic import CentralCritic
from warpdrive.training.models.distributions import Distribution
from warpdrive.training.sections import PPOConfig
from warpdrive.training.sequences import Replayed, logits_of


class MAPPO(PPO):
    """Trains a model, whose own value estimate is not used, and a critic. See ``PPO``.

    Args:
        config: the policy's section of the run configuration.
        model: the policy.
        critic: estimates values from what ``joint`` makes of observations.
        joint: puts side by side what all agents see.
        distribution: of the actions, given what the model makes of an observation.
        optimizer: holds the parameters of model and critic.
    """

    def __init__(
        self,
        config: PPOConfig,
        model: ActorCritic,
        critic: CentralCritic,
        joint: JointObservations,
        distribution: Distribution,
        optimizer: torch.optim.Optimizer,
    ) -> None:
        super().__init__(config, model, distribution, optimizer)
        self.critic, self.joint = critic, joint
        self.trained = nn.ModuleList([model, critic])

    def parts(self) -> dict[str, Stateful]:
        """See ``Algorithm``."""
        return {**super().parts(), "critic": self.critic}

    def values(self, observations: Observations) -> Tensor:
        """``[rows, size]`` of what ``joint`` makes -> ``[rows]`` float32: estimates of returns."""
        assert isinstance(observations, Tensor)
        return self.in_units_of_returns(self.critic.values(observations))

    def replayed(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """See ``OnPolicy``: the values are the critic's."""
        assert batch.states is not None
        logits = logits_of(self.model, batch.observations, batch.sequences)
        probabilities = self.distribution.log_prob_and_entropy(logits, batch.actions, batch.action_mask)
        return *probabilities, self.critic.values(batch.states)

    def update(self, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """See ``PPO``."""
        metrics = super().update(batch, generator)
        assert batch.states is not None
        self.critic.observe(batch.states, batch.weight)
        return metrics

    def replay(self, rollout: Rollout, tag: str) -> Replayed:
        """See ``OnPolicy``."""
        found = super().replay(rollout, tag)
        values = self.values(self.joint.of(rollout, "observations"))[: found.values.numel()]
        return found._replace(values=values.view(found.values.shape))
