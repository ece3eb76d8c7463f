"""What the agents of one policy tag share: a model, and what trains it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from gymnasium import Space
from torch import Tensor

from warpdrive.backends.interface import Backend
from warpdrive.host_transfers import host_transfers_allowed
from warpdrive.rollout import Rollout
from warpdrive.training.advantages import AdvantageEstimator
from warpdrive.training.algorithms import build_algorithm
from warpdrive.training.batch import batch_of
from warpdrive.training.models import build_model
from warpdrive.training.models.distributions import distribution_of
from warpdrive.training.sections import PolicyConfig, RandomConfig


class Policy:
    """A model that acts for the agents of a tag, and its optimizer and algorithm.

    Args:
        tag: the policy tag.
        agent_ids: the agents it acts for.
        config: the policy's section of the run configuration, of a learning algorithm.
        observation_space: of one agent.
        action_space: of one agent.
        backend: on whose device the model lives.
        seed: of the initial parameters and of the order of minibatches.
    """

    def __init__(
        self,
        tag: str,
        agent_ids: Sequence[int],
        config: PolicyConfig,
        observation_space: Space[Any],
        action_space: Space[Any],
        backend: Backend,
        seed: int,
    ) -> None:
        assert not isinstance(config, RandomConfig), "agents that act at random need no policy"
        self.tag, self.config, self.backend = tag, config, backend
        device = backend.device
        self.agent_ids = torch.tensor(list(agent_ids), dtype=torch.int32, device=device)
        distribution = distribution_of(action_space)
        self.model = build_model(config.model, observation_space, distribution, seed).to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=config.lr, eps=1e-5, fused=True)
        self.algorithm = build_algorithm(config, self.model, distribution, self.optimizer)
        self.generator = torch.Generator(device).manual_seed(seed)
        self._estimator: tuple[Rollout, AdvantageEstimator] | None = None

    def update(self, rollout: Rollout) -> dict[str, Tensor]:
        """Train on a full rollout, unless the configuration says otherwise. Returns scalars on the device."""
        if not self.config.to_train:
            return {}
        batch = batch_of(rollout, self.tag, self.model, self.estimator(rollout))
        return self.algorithm.update(batch, self.generator)

    def estimator(self, rollout: Rollout) -> AdvantageEstimator:
        """Return what estimates the advantages in a rollout: made once, as policies that only play need none."""
        if self._estimator is None or self._estimator[0] is not rollout:
            config = self.config
            with host_transfers_allowed():
                made = AdvantageEstimator.of(rollout, self.backend, self.agent_ids, config.gamma, config.gae_lambda)
            self._estimator = rollout, made
        return self._estimator[1]
