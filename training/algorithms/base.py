"""Interface of training algorithms.

Trainable parameters are views of one vector (``models/parameters.py``), of which the optimizer takes one step;
``gradient_of`` and ``take_step`` are also the places at which gradients are measured and all-reduced. Every gradient
step of PyTorch is an ``optimizer_step``; ``Algorithm.optimizer_step`` may be replaced, as by ``training/lightning.py``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeVar

import torch
from gymnasium import Space
from pydantic import ValidationInfo, field_validator
from torch import Tensor, nn

from warpdrive.adapted import TeamReward
from warpdrive.environment import Environment
from warpdrive.errors import TrainingError
from warpdrive.training.config.messages import Problem
from warpdrive.training.config.section import Section
from warpdrive.training.config.values import FractionSchedule, PositiveSchedule
from warpdrive.training.distributed.process_group import SINGLE_PROCESS, ProcessGroup
from warpdrive.training.models import acting_distribution, build_actor_critic
from warpdrive.training.models.base import Actor, ActorCritic
from warpdrive.training.models.distributions import Distribution
from warpdrive.training.models.options import MODEL_CONFIGS
from warpdrive.training.models.parameters import trainable

if TYPE_CHECKING:
    from warpdrive.rollout import Rollout
    from warpdrive.training.algorithms.static_step import StaticStep
    from warpdrive.training.algorithms.task import Task
    from warpdrive.training.experience.sequences import Replayed, ValueFunction
    from warpdrive.training.models.critic_inputs import CriticInput
    from warpdrive.training.policy import Policy


@dataclass(frozen=True)
class UpdateSize:
    """Size of an update.

    Attributes:
        num_envs: Number of replicas.
        num_steps: Steps of each replica, the length of a rollout.
        num_agents: Number of agents per replica that a policy acts for.
    """

    num_envs: int
    num_steps: int
    num_agents: int

    @property
    def sequences(self) -> int:
        """Number of agents in all replicas."""
        return self.num_envs * self.num_agents

    @property
    def samples(self) -> int:
        """Number of steps of all agents."""
        return self.num_steps * self.sequences


class LearningConfig(Section):
    """Keys common to all training algorithms. Every coefficient may follow a schedule."""

    actions: ClassVar[Literal["any", "Discrete", "bounded Box"]] = "any"
    """Action spaces that the algorithm supports."""
    model_sections: ClassVar[Mapping[str, type[Section]]] = MODEL_CONFIGS
    """Sections of ``model``, by their ``type``."""

    if TYPE_CHECKING:  # of every algorithm, each with its own types
        algorithm: str
        model: Any
        max_grad_norm: Any

    @property
    def off_policy(self) -> bool:
        """True if an update uses more than the last rollout."""
        return False

    to_train: bool = True
    """If False, the policy acts with constant weights and without exploration."""
    load: str | None = None
    """Run or checkpoint from which the actor is initialised, without critics and optimizer state."""
    load_tag: str | None = None
    """Policy tag in ``load``; None: the policy's own tag."""
    lr: PositiveSchedule = 3e-4
    """Learning rate of the optimizer, Adam."""
    gamma: FractionSchedule = 0.99
    """Discount factor per environment step."""
    agent_ids: bool = False
    """If True, a one-hot index of the agent among those of its policy tag is appended to its observations."""
    team_reward: TeamReward = "own"
    """Rewards in training: those of each agent, or the sum or mean over the agents of the policy tag.

    Logged returns are those of the environment's rewards.
    """
    parameter_sharing: bool = True
    """If False, each agent has a separate policy, ``<tag>_0``, ``<tag>_1``, ..., configured by this section."""

    @field_validator("load_tag")
    @classmethod
    def _loads(cls, tag: str | None, info: ValidationInfo) -> str | None:
        if tag is not None and info.data.get("load") is None:
            raise ValueError("load as well, a run or checkpoint with this policy tag")
        return tag

    def problems(self, size: UpdateSize, env: Environment) -> list[Problem]:
        """Return the problems of the keys with respect to each other, an update and the environment.

        Args:
            size: Size of an update.
            env: The environment.

        Returns:
            Keys relative to the section, each with the value found and what is expected.
        """
        return []

    def acting_distribution(self, action_space: Space[Any]) -> Distribution:
        """Return the action distribution of the model."""
        return acting_distribution(self.model, action_space)

    def build_model(self, observation_space: Space[Any], action_space: Space[Any]) -> Any:
        """Build the actor that the algorithm trains, on the CPU; by default an actor-critic model of ``model``."""
        return build_actor_critic(self.model, observation_space, action_space)

    @property
    def schedules(self) -> dict[str, Any]:
        """Coefficients that change during training, by name."""
        ours = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: value for name, value in ours.items() if isinstance(value, list | dict)}


class ReturnsConfig(LearningConfig):
    """Keys of the algorithms that learn from returns."""

    returns_after_leaving: bool = True
    """If True, returns of an agent that leaves the episode include its rewards until the end of the episode.

    Otherwise they end when the agent leaves.
    """


Experience = TypeVar("Experience")


class Stateful(Protocol):
    """Object whose state can be stored in a checkpoint and restored."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state: tensors, numbers and strings, and lists and dictionaries of these."""

    def load_state_dict(self, state_dict: dict[str, Any], /) -> object:
        """Restore the state returned by ``state_dict()``."""


BeforeStep = Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]]


class OptimizerStep(Protocol):
    """Function that takes one optimizer step on a loss.

    With several processes, each has its part of the loss and its terms (``Rows.masked_mean``); the gradients and the
    returned terms are summed over processes.
    """

    def __call__(
        self,
        loss: Tensor,
        terms: Mapping[str, Tensor],
        optimizer: torch.optim.Optimizer,
        module: nn.Module,
        max_grad_norm: float = math.inf,
        before: BeforeStep | None = None,
    ) -> dict[str, Tensor]:
        """Update the parameters of ``module``, which ``optimizer`` holds ``as_vector``.

        Args:
            loss: Scalar.
            terms: Scalars without gradient to report with the loss.
            optimizer: Optimizer of the parameters.
            module: Module to train.
            max_grad_norm: Norm to which the gradient is clipped.
            before: Called with the terms before the optimizer step; returns additional terms.

        Returns:
            The terms, and ``"grad_norm"``, the norm of the gradient before clipping: scalars on the device.
        """


def gradient_of(loss: Tensor, module: nn.Module) -> Tensor:
    """Return the gradient of a scalar with respect to all trainable parameters of a module, as one vector."""
    gradients = torch.autograd.grad(loss, trainable(module), materialize_grads=True)
    return torch.cat([gradient.flatten() for gradient in gradients])


def take_step(optimizer: torch.optim.Optimizer, gradient: Tensor, max_grad_norm: float = math.inf) -> Tensor:
    """Clip the gradient in place and take an optimizer step on its vector.

    Args:
        optimizer: Optimizer of one vector, see ``as_vector``.
        gradient: ``[parameters]``, clipped in place.
        max_grad_norm: Norm to which the gradient is clipped.

    Returns:
        The norm of the gradient before clipping, a scalar on the device.
    """
    norm: Tensor = gradient.norm()
    gradient.mul_((max_grad_norm / (norm + 1e-6)).clamp(max=1.0))
    (vector,) = optimizer.param_groups[0]["params"]
    vector.grad = gradient
    optimizer.step()
    return norm


def optimizer_step(
    loss: Tensor,
    terms: Mapping[str, Tensor],
    optimizer: torch.optim.Optimizer,
    module: nn.Module,
    max_grad_norm: float = math.inf,
    before: BeforeStep | None = None,
    process_group: ProcessGroup = SINGLE_PROCESS,
) -> dict[str, Tensor]:
    """Take an optimizer step on the loss summed over all processes of a group; see ``OptimizerStep``.

    Args:
        loss: Scalar, this process's part of the loss.
        terms: Scalars without gradient to report with the loss.
        optimizer: Optimizer of the parameters.
        module: Module to train.
        max_grad_norm: Norm to which the gradient is clipped.
        before: Called with the summed terms before the optimizer step; returns additional terms.
        process_group: Processes over which gradient and terms are summed.

    Returns:
        The terms, and ``"grad_norm"``, the norm of the gradient before clipping: scalars on the device.
    """
    gradient, summed = process_group.all_reduce_gradient(gradient_of(loss, module), terms)
    more = before(summed) if before else {}
    return {**summed, **more, "grad_norm": take_step(optimizer, gradient, max_grad_norm)}


class Algorithm(ABC, Generic[Experience]):
    """Algorithm that trains the model of one policy tag: defines its loss and its update.

    Attributes:
        config: Section of the policy in the run configuration.
        model: The policy, which acts in evaluations.
        actor: The actor of training rollouts: the model, possibly with exploration.
        trained: Module whose parameters ``optimizer`` holds.
        optimizer_step: Takes optimizer steps; may be replaced by one for several processes.
        compiled: Gradient steps as native code, an object of the algorithm's; None: PyTorch takes them.
        not_compiled: Reason why PyTorch takes the gradient steps; empty if native code does.
        static_step: Gradient step that a CUDA graph repeats; None: PyTorch's operators are called each time.
        not_captured: Reason why there is no ``static_step``.
        schedules: Section of the policy with its schedules, of which ``config`` has the current values.
        critic_input: Computes the inputs of ``value_function``; None if these are the observations.
        parts_observe_all: True if running statistics of :meth:`parts` observe the experience of all processes, False if
            they observe this process's part.
    """

    parts_observe_all: ClassVar[bool] = False
    config: LearningConfig
    schedules: Any
    model: Actor
    actor: Actor
    trained: nn.Module
    optimizer: torch.optim.Optimizer
    loss: Callable[..., tuple[Tensor, dict[str, Tensor]]]
    critic_input: CriticInput | None = None
    optimizer_step: OptimizerStep = staticmethod(optimizer_step)
    compiled: Any = None
    not_compiled: str = "native code computes its perceptrons only"
    static_step: StaticStep | None = None
    not_captured: str = ""

    @abstractmethod
    def update(self, experience: Experience, generator: torch.Generator) -> dict[str, Tensor]:
        """Train on experience.

        Args:
            experience: Experience to learn from: a batch, or a replay buffer.
            generator: Random number generator on the device, which is part of checkpoints.

        Returns:
            Metrics by name, as scalars on the device.
        """

    def gradient_step(self, *inputs: Any) -> dict[str, Tensor]:
        """Take a gradient step of PyTorch on ``inputs``: rows, tensors, and constants of the host.

        On the host it depends on ``config`` only, so that it can be captured as a CUDA graph. Returns metrics as
        scalars on the device.

        By default, the gradient is that of ``loss(*inputs)``.
        """
        loss, terms = self.loss(*inputs)
        return self.optimizer_step(loss, terms, self.optimizer, self.trained, self.config.max_grad_norm)

    def take_gradient_step(self, *inputs: Any) -> dict[str, Tensor]:
        """Take a :meth:`gradient_step`, by replaying a CUDA graph where there is one."""
        step = self.static_step
        if step is None or not step.graphs.captures or not self.takes_own_steps:
            return self.gradient_step(*inputs)
        return step(*inputs)

    @abstractmethod
    def parts(self) -> Mapping[str, Stateful]:
        """Return the state besides the model's parameters that belongs in a checkpoint, by name."""

    @property
    def is_compiled(self) -> bool:
        """True if native code takes the gradient steps; False also if ``optimizer_step`` has been replaced."""
        return self.compiled is not None and self.takes_own_steps

    @property
    def takes_own_steps(self) -> bool:
        """True unless ``optimizer_step`` has been replaced, for example by Lightning's."""
        return getattr(self.optimizer_step, "func", self.optimizer_step) is optimizer_step

    def compile_update(self, task: Task, build: Callable[[], Any]) -> None:
        """Compile the gradient steps to native code, if ``trainer.update`` allows it and they are supported.

        Args:
            task: Policy to train.
            build: Returns the algorithm's ``compiled``, or raises ``NoPlanError``.
        """
        from warpdrive.training.compiled.plan import NoPlanError

        if task.update == "torch":
            self.not_compiled = "trainer.update: torch"
            return
        try:
            self.compiled, self.not_compiled = build(), ""
        except NoPlanError as reason:
            self.not_compiled = str(reason)

    @property
    def learns_from_global_state(self) -> bool:
        """True if rollouts must record the environment's global state."""
        return False

    @property
    def value_function(self) -> ValueFunction:
        """Value function of the observations of a rollout or, where there is one, of ``critic_input``.

        Raises:
            TrainingError: If the algorithm has none.
        """
        if not isinstance(self.model, ActorCritic):
            raise TrainingError(
                f"the model of '{self.config.algorithm}' estimates no values, expected a wd.ActorCritic"
            )
        return self.model

    def bind(self, policy: Policy) -> None:
        """Set the policy that the algorithm trains, before the first rollout."""

    def begin(self, env_steps: int) -> None:
        """Prepare for the rollout and the update that begin at ``env_steps``."""

    def replay(self, rollout: Rollout, tag: str) -> Replayed:
        """Recompute the current model's outputs for a full rollout of the agents of ``tag``.

        Raises:
            TrainingError: If the algorithm learns from a replay buffer: its actor has no log-probabilities, or is not
                the trained model.
        """
        raise TrainingError(
            f"policy '{tag}': found the algorithm '{self.config.algorithm}', expected one that learns from rollouts "
            "(reinforce, a2c, ppo, custom)"
        )

    def advice(self, tag: str) -> str:
        """Return advice for a non-finite loss of the policy of ``tag``."""
        return f"Try a smaller policy.{tag}.lr, and check rewards and observations for NaN and infinity"


class EveryN:
    """Counter that is True at every n-th call."""

    def __init__(self, n: int) -> None:
        self.n, self.calls = n, 0

    def __call__(self) -> bool:
        """Count a call and return True if it is an n-th one."""
        self.calls += 1
        return self.calls % self.n == 0

    def state_dict(self) -> dict[str, Any]:
        """See ``Stateful``."""
        return {"calls": self.calls}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """See ``Stateful``."""
        self.calls = state_dict["calls"]
