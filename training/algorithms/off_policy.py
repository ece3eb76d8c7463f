"""Base class of off-policy algorithms."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Generic, TypeVar

import torch
from gymnasium import Space, spaces
from pydantic import BeforeValidator, Field
from torch import Tensor

from warpdrive.environment import Environment
from warpdrive.training.algorithms.base import Algorithm, ReturnsConfig, UpdateSize
from warpdrive.training.algorithms.common import at, means, set_learning_rate
from warpdrive.training.algorithms.task import Task
from warpdrive.training.config.messages import Problem
from warpdrive.training.config.values import Count, FractionSchedule, PositiveSchedule, whole_number
from warpdrive.training.experience.n_step import NStep, StepsUntilBack
from warpdrive.training.experience.replay_buffer import ReplayBuffer
from warpdrive.training.experience.transitions import Transitions, normal_samples
from warpdrive.training.models.continuous import Critic, DeterministicActor, SquashedActor
from warpdrive.training.models.options import ACTION_VALUE_CONFIGS, OffPolicyModelConfig, PerceptronConfig

_STEPS_AT_ONCE, _FLOATS_AT_ONCE = 64, 2**22  # of gradient steps whose rows are gathered together


class OffPolicyConfig(ReturnsConfig):
    """Keys of the off-policy algorithms, which learn from a replay buffer."""

    model_sections = ACTION_VALUE_CONFIGS
    model: OffPolicyModelConfig = PerceptronConfig()
    """Model of each network."""
    buffer_size: Count = 100_000
    """Capacity of the replay buffer, in steps of single agents."""
    learning_starts: Annotated[int, BeforeValidator(whole_number), Field(ge=0, lt=2**63)] = 1000
    """Environment steps before the first gradient step. Until then actions are random (``dqn``: by ``epsilon``)."""
    batch_size: Count = 128
    """Transitions per gradient step, sampled uniformly from the replay buffer."""
    gradient_steps: Count = 1
    """Gradient steps per update, that is, per rollout of ``trainer.train_batch_size`` environment steps."""
    n_step: Annotated[Count, Field(le=10_000)] = 1
    """Number of rewards summed before bootstrapping; fewer if the episode ends earlier."""
    max_grad_norm: PositiveSchedule = 10.0
    """Maximum norm of a gradient; larger gradients are scaled down to it."""

    @property
    def off_policy(self) -> bool:
        """See ``LearningConfig``."""
        return True

    def problems(self, size: UpdateSize, env: Environment) -> list[Problem]:
        """See ``LearningConfig``."""
        found = []
        if self.batch_size > self.buffer_size:
            text = f"found {self.batch_size}, expected at most buffer_size ({self.buffer_size})"
            found.append(("batch_size", text))
        if self.buffer_size < size.samples:
            text = f"found {self.buffer_size}, expected at least {size.samples}, the samples of one update"
            found.append(("buffer_size", text))
        return found


class ContinuousConfig(OffPolicyConfig):
    """Keys of the off-policy algorithms for actions in a Box."""

    actions = "bounded Box"
    tau: FractionSchedule = 0.005
    """Interpolation factor of target network updates (Polyak averaging): 1 copies the networks."""

    def build_model(self, observation_space: Space[Any], action_space: Space[Any]) -> DeterministicActor:
        """See ``LearningConfig``."""
        assert isinstance(action_space, spaces.Box), "the configuration is checked for this"
        return DeterministicActor(observation_space, action_space, self.model)

    def new_critic(self, model: DeterministicActor | SquashedActor, task: Task, count: int) -> Critic:
        """Return a new critic of ``count`` estimates, which shares the policy's statistics of observations.

        Args:
            model: The policy.
            task: Policy to train.
            count: Number of independent estimates.

        Returns:
            The critic, on the device of the task.
        """
        critic: Critic = task.new_critic(
            lambda: Critic(model.flatten, task.observation_space, model.components, self.model, count)
        )
        return critic


Config = TypeVar("Config", bound=OffPolicyConfig)


class OffPolicy(Algorithm[ReplayBuffer], Generic[Config]):
    """Algorithm that takes gradient steps on minibatches of a replay buffer.

    Args:
        config: Section of the policy in the run configuration.

    Attributes:
        config: The section with the current value in place of each schedule.
    """

    config: Config

    def __init__(self, config: Config) -> None:
        self.schedules = config
        self.config = at(config, env_steps=0)

    def begin(self, env_steps: int) -> None:
        """See ``Algorithm``."""
        self.config = at(self.schedules, env_steps)
        for part in self.parts().values():
            if isinstance(part, torch.optim.Optimizer):
                set_learning_rate(part, self.config.lr)

    def update(self, experience: ReplayBuffer, generator: torch.Generator) -> dict[str, Tensor]:
        """Take gradient steps on transitions sampled with ``generator``, after ``learning_starts``.

        Returns scalars on the device: means over the gradient steps.
        """
        if experience.env_steps < self.config.learning_starts or experience.is_empty:
            return {}
        return self.take_steps(experience, generator)

    def take_steps(self, experience: ReplayBuffer, generator: torch.Generator) -> dict[str, Tensor]:
        """Take the gradient steps of an update. Returns means over them, scalars on the device."""
        history = []
        for _ in range(self.config.gradient_steps):
            history.append(self.step(experience.sample(self.config.batch_size, generator), generator))
        return means(history)

    @abstractmethod
    def step(self, batch: Transitions, generator: torch.Generator) -> dict[str, Tensor]:
        """Take one gradient step on ``batch``, with noise of ``generator``. Returns scalars on the device."""


Continuous = TypeVar("Continuous", bound=ContinuousConfig)


class ContinuousControl(OffPolicy[Continuous], Generic[Continuous]):
    """Off-policy algorithm with a policy and critics for actions in a Box.

    Attributes:
        num_samples: Number of standard normal samples per component of an action and gradient step.
    """

    model: DeterministicActor | SquashedActor
    num_samples: ClassVar[int] = 0

    def take_steps(self, experience: ReplayBuffer, generator: torch.Generator) -> dict[str, Tensor]:
        """See ``OffPolicy``. Native code takes many steps at once, on rows that are gathered together."""
        if not self.is_compiled:
            return super().take_steps(experience, generator)
        count, history = self.config.gradient_steps, []
        floats = self.config.batch_size * 2 * self.model.flatten.size
        at_once = max(1, min(_STEPS_AT_ONCE, _FLOATS_AT_ONCE // floats))
        for first in range(0, count, at_once):
            history.append(self._native_steps(experience, min(at_once, count - first), generator))
        names = dict.fromkeys(name for metrics in history for name in metrics)
        return {name: torch.cat([found[name] for found in history if name in found]).mean() for name in names}

    def _native_steps(self, experience: ReplayBuffer, count: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Take ``count`` gradient steps as native code. Returns metrics of the steps that have them, by name."""
        size, samples = self.config.batch_size, self.num_samples
        rows, noise = [], []
        for _ in range(count):  # in the order in which ``step`` draws
            rows.append(experience.draw(size, generator))
            shape = samples, size, self.model.components
            noise.append(normal_samples(shape, generator, experience.device, experience.process_group))
        batch, parts = experience.rows(torch.cat(rows), size), torch.arange(count * len(rows[0])).split(len(rows[0]))
        return self.native_steps(batch, torch.cat(noise, 1), parts)

    @abstractmethod
    def native_steps(self, batch: Transitions, noise: Tensor, parts: Sequence[Tensor]) -> dict[str, Tensor]:
        """Take a gradient step on each minibatch as native code, see ``CompiledActorCritic.steps``."""


def replay_buffer(algorithm: OffPolicy[Any], task: Task) -> ReplayBuffer:
    """Return the replay buffer of ``algorithm``."""
    config = algorithm.schedules
    task.check_batch_size(config.batch_size)
    gamma = lambda: algorithm.config.gamma  # noqa: E731  (schedules change it)
    n_step = NStep(config.n_step, gamma) if config.n_step > 1 else None
    until_back = StepsUntilBack(config.n_step, gamma) if config.returns_after_leaving else None
    return ReplayBuffer(task.tag, config.buffer_size, task.device, n_step, task.sharding.process_group, until_back)
