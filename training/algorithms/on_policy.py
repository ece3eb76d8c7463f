"""What the algorithms share that learn from each rollout once."""

from __future__ import annotations

from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from warpdrive.observations import Observations
from warpdrive.rollout import Rollout
from warpdrive.training.algorithms.base import Algorithm, Stateful
from warpdrive.training.algorithms.common import at, set_learning_rate
from warpdrive.training.batch import Batch
from warpdrive.training.models.base import ActorCritic
from warpdrive.training.models.distributions import Distribution
from warpdrive.training.models.running_moments import RunningMoments
from warpdrive.training.sections import OnPolicyConfig, ReinforceConfig
from warpdrive.training.sequences import Replayed, outputs, replay_of

Config = TypeVar("Config", bound=OnPolicyConfig | ReinforceConfig)


class OnPolicy(Algorithm[Batch], Generic[Config]):
    """Trains one model with one optimizer.

    Args:
        config: the policy's section of the run configuration.
        model: what is trained.
        distribution: of the actions, given what the model makes of an observation.
        optimizer: holds the model's parameters.

    Attributes:
        config: the section with the present value in place of each schedule.
        trained: what the optimizer holds the parameters of.
    """

    model: ActorCritic
    trained: nn.Module
    config: Config

    def __init__(
        self, config: Config, model: ActorCritic, distribution: Distribution, optimizer: torch.optim.Optimizer
    ) -> None:
        self.model, self.distribution, self.optimizer = model, distribution, optimizer
        self.actor = self.trained = model
        self.schedules = config
        self.begin(env_steps=0)

    def begin(self, env_steps: int) -> None:
        """See ``Algorithm``. The update is never captured as a graph, so its coefficients can be the host's numbers."""
        self.config = at(self.schedules, env_steps)
        set_learning_rate(self.optimizer, self.config.lr)

    def parts(self) -> dict[str, Stateful]:
        """See ``Algorithm``."""
        return {"optimizer": self.optimizer}

    def replayed(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probabilities of the actions, entropies and the model's own values, ``[rows]`` with gradient."""
        logits, values = outputs(self.model, batch.observations, batch.sequences)
        return *self.distribution.log_prob_and_entropy(logits, batch.actions, batch.action_mask), values

    def log_probabilities(self, observations: Observations, actions: Tensor, action_mask: Tensor | None) -> Tensor:
        """``[rows]``: of actions, by a model without a state as it is now."""
        logits = self.model.logits(observations)
        return self.distribution.log_prob_and_entropy(logits, actions, action_mask)[0]

    def replay(self, rollout: Rollout, tag: str) -> Replayed:
        """What the model, as it is now, makes of a full rollout of the agents of ``tag``."""
        return replay_of(rollout, tag, self.model, self.distribution)


Estimating = TypeVar("Estimating", bound=OnPolicyConfig)


class ActorCriticAlgorithm(OnPolicy[Estimating]):
    """Estimates values, too: in units of the returns' running mean and standard deviation, if ``normalize_returns``.

    Attributes:
        returns: that mean and deviation.
    """

    def __init__(
        self, config: Estimating, model: ActorCritic, distribution: Distribution, optimizer: torch.optim.Optimizer
    ) -> None:
        super().__init__(config, model, distribution, optimizer)
        self.returns = RunningMoments().to(next(model.parameters()).device)

    def parts(self) -> dict[str, Stateful]:
        """See ``Algorithm``."""
        return {**super().parts(), "returns": self.returns}

    @property
    def state_size(self) -> int:
        """How many numbers are kept for an agent from one step of an episode to the next."""
        return self.actor.state_size

    def values(self, observations: Observations) -> Tensor:
        """``[rows, *observation_shape]`` of any dtype -> ``[rows]`` float32: estimates of returns."""
        return self.in_units_of_returns(self.model.values(observations))

    def through(self, observations: Observations, state: Tensor, begins: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The same of sequences, see ``ActorCritic.through``."""
        logits, values, states = self.model.through(observations, state, begins)
        return logits, self.in_units_of_returns(values), states

    def replay(self, rollout: Rollout, tag: str) -> Replayed:
        """See ``OnPolicy``."""
        found = super().replay(rollout, tag)
        return found._replace(values=self.in_units_of_returns(found.values))

    def observe_returns(self, batch: Batch) -> None:
        """Let the running mean and standard deviation take in a batch that is about to be learned from."""
        if self.config.normalize_returns:
            self.returns.observe(batch.returns, batch.weight)

    def in_units_of_returns(self, values: Tensor) -> Tensor:
        """What the model estimates as returns."""
        return self.returns.restored(values) if self.config.normalize_returns else values

    def in_model_units(self, returns: Tensor) -> Tensor:
        """Returns as the model is to estimate them."""
        return self.returns(returns) if self.config.normalize_returns else returns
