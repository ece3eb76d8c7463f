"""Base classes of on-policy algorithms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import torch
from torch import Tensor, nn

from warpdrive.errors import DefinitionError
from warpdrive.observations import Observations
from warpdrive.training.algorithms.base import Algorithm, ReturnsConfig, Stateful
from warpdrive.training.algorithms.common import at, set_learning_rate
from warpdrive.training.algorithms.kl_stop import TOLERANCE
from warpdrive.training.algorithms.task import Task
from warpdrive.training.config.schedule import value_at
from warpdrive.training.config.values import (
    FractionSchedule,
    NonNegativeSchedule,
    OptionalUserFunction,
    PositiveSchedule,
    load_function,
)
from warpdrive.training.experience.batch import Batch, RolloutBatcher
from warpdrive.training.experience.sequences import Replayed, ValueFunction, outputs, replay_of
from warpdrive.training.models.base import ActorCritic
from warpdrive.training.models.critic_inputs import CriticInput, CriticRows
from warpdrive.training.models.distributions import Distribution, Gaussian
from warpdrive.training.models.fully_connected import FullyConnected
from warpdrive.training.models.options import FullyConnectedConfig, ModelConfig
from warpdrive.training.models.recurrent import Recurrent
from warpdrive.training.models.running_moments import RunningMoments

if TYPE_CHECKING:
    from warpdrive.rollout import Rollout
    from warpdrive.training.compiled.learn import CompiledUpdate

Class = TypeVar("Class")


class OnPolicyConfig(ReturnsConfig):
    """Keys of the on-policy algorithms."""

    model: ModelConfig = FullyConnectedConfig()
    """Model of the policy and the value function."""
    gae_lambda: FractionSchedule = 0.95
    """Lambda of generalised advantage estimation: 0 for one-step temporal differences, 1 for full returns."""
    entropy_coef: NonNegativeSchedule = 0.01
    """Coefficient of the entropy bonus in the loss."""
    value_coef: NonNegativeSchedule = 0.5
    """Coefficient of the value loss in the loss."""
    max_grad_norm: PositiveSchedule = 0.5
    """Maximum norm of a gradient; larger gradients are scaled down to it."""
    normalize_advantage: bool = True
    """If True, the advantages of each rollout are standardised."""
    normalize_returns: bool = False
    """If True, values are estimated in units of the running mean and standard deviation of returns."""
    value_loss: Literal["mse", "huber"] = "mse"
    """Value loss: ``mse``: half the squared error; ``huber``: the same, but linear beyond ``huber_delta``."""
    huber_delta: PositiveSchedule = 10.0
    """Threshold of the Huber loss, in units of the value network's outputs."""
    function: OptionalUserFunction = None
    """Class derived from the algorithm's (``wd.PPO``, ``wd.MAPPO``, ``wd.A2C``) that replaces it; None: no other."""

    def derived_from(self, base: type[Class]) -> type[Class]:
        """Return the class of the algorithm: ``base``, or the user's.

        Raises:
            DefinitionError: If there is no such class, or it is not derived from ``base``.
        """
        if self.function is None:
            return base
        found = load_function(self.function)
        if not (isinstance(found, type) and issubclass(found, base)):
            raise DefinitionError(f"'{self.function}' is {found!r}, expected a class derived from wd.{base.__name__}")
        return found


Config = TypeVar("Config", bound=ReturnsConfig)


class OnPolicy(Algorithm[Batch], Generic[Config]):
    """Base class of algorithms that train a model with one optimizer on the current rollout.

    Args:
        config: Section of the policy in the run configuration.
        model: Model to train.
        distribution: Action distribution for the model's logits.
        optimizer: Optimizer of the model.

    Attributes:
        config: The section with the current value in place of each schedule.
    """

    model: ActorCritic
    config: Config

    def __init__(
        self, config: Config, model: ActorCritic, distribution: Distribution, optimizer: torch.optim.Optimizer
    ) -> None:
        self.model, self.distribution, self.optimizer = model, distribution, optimizer
        self.actor = self.trained = model
        self.schedules = config
        self.begin(env_steps=0)

    def begin(self, env_steps: int) -> None:
        """See ``Algorithm``."""
        self.config = at(self.schedules, env_steps)
        set_learning_rate(self.optimizer, self.config.lr)

    def parts(self) -> dict[str, Stateful]:
        """See ``Algorithm``."""
        return {"optimizer": self.optimizer}

    def evaluate_actions(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Return the outputs of the current weights for recorded observations and actions, with gradient.

        Args:
            batch: Rows of experience.

        Returns:
            Log-probabilities of the actions, entropies, and the model's own values: ``[rows]`` float32 each.
        """
        logits, values = outputs(self.model, batch.observations, batch.sequences)
        return *self.distribution.log_prob_and_entropy(logits, batch.actions, batch.action_mask), values

    def replayed(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Return :meth:`evaluate_actions`, under its former name."""
        return self.evaluate_actions(batch)

    def log_probabilities(self, observations: Observations, actions: Tensor, action_mask: Tensor | None) -> Tensor:
        """Return the log-probabilities ``[rows]`` of actions by the current weights of a feed-forward model.

        Args:
            observations: ``[rows, *observation_shape]``.
            actions: Recorded actions, see ``Batch``.
            action_mask: ``[rows, choices]`` bool, or None.

        Returns:
            Log-probabilities ``[rows]`` float32, with gradient.
        """
        logits = self.model.logits(observations)
        return self.distribution.log_prob_and_entropy(logits, actions, action_mask)[0]

    def replay(self, rollout: Rollout, tag: str) -> Replayed:
        """See ``Algorithm``."""
        return replay_of(rollout, tag, self.model, self.distribution)


Estimating = TypeVar("Estimating", bound=OnPolicyConfig)


class ActorCriticAlgorithm(OnPolicy[Estimating]):
    """On-policy algorithm with a value function, in normalised units with ``normalize_returns``.

    Attributes:
        returns: Running mean and standard deviation of the returns.
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
    def value_function(self) -> ValueFunction:
        """See ``Algorithm``: this algorithm, whose values are in units of the returns."""
        return self

    @property
    def state_size(self) -> int:
        """Number of elements of the recurrent state per agent."""
        return self.actor.state_size

    def values(self, observations: Observations) -> Tensor:
        """Return the estimated returns ``[rows]`` float32 of ``[rows, *observation_shape]`` of any dtype."""
        return self.denormalized(self.model.values(observations))

    def forward_sequence(
        self, observations: Observations, state: Tensor, begins: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return outputs, estimated returns and states of sequences, see ``ActorCritic.forward_sequence``.

        Args:
            observations: ``[T, n, *observation_shape]``, in time order.
            state: ``[n, state_size]``, recurrent state before the first step.
            begins: ``[T, n]`` bool, True where the state is reset to zero.

        Returns:
            Logits ``[T, n, num_logits]``, values ``[T, n]``, and states ``[T, n, state_size]`` after each step.
        """
        logits, values, states = self.model.forward_sequence(observations, state, begins)
        return logits, self.denormalized(values), states

    def replay(self, rollout: Rollout, tag: str) -> Replayed:
        """See ``OnPolicy``."""
        found = super().replay(rollout, tag)
        return found._replace(values=self.denormalized(found.values))

    def compile_actor_critic(
        self,
        task: Task,
        own_class: type[ActorCriticAlgorithm[Any]],
        critic: tuple[nn.Module, int] | None = None,
        critic_optimizer: torch.optim.Optimizer | None = None,
    ) -> None:
        """Compile gradient steps to native code, if supported.

        Args:
            task: Policy to train.
            own_class: Class whose loss is compiled; a user's class that derives from it has its own.
            critic: Layers of a centralised critic and the number of its inputs, or None.
            critic_optimizer: Separate optimizer of the critic, or None.
        """
        from warpdrive.training.compiled.learn import CompiledUpdate  # loads LLVM
        from warpdrive.training.compiled.plan import NoPlanError, critic_plan_of, policy_plan_of

        def build() -> list[CompiledUpdate]:
            if type(self) is not own_class:
                raise NoPlanError(f"the algorithm is {type(self).__name__}, a class of its own")
            given = self.schedules
            of_values = {
                "value_clip": getattr(given, "value_clip", None) is not None,
                "huber": given.value_loss == "huber",
            }
            plan = policy_plan_of(
                given.algorithm,
                self.model,
                self.distribution,
                self.optimizer,
                critic,
                critic_optimizer is not None,
                early_stopping=getattr(given, "target_kl", None) is not None,
                **of_values,
            )
            updates = [CompiledUpdate(plan, self.optimizer)]
            if critic is not None and critic_optimizer is not None:
                updates.append(CompiledUpdate(critic_plan_of(critic, critic_optimizer, **of_values), critic_optimizer))
            return updates

        self.compile_update(task, build)

    def compiled_steps(self, batch: Batch, epochs: Sequence[Sequence[Tensor]]) -> dict[str, Tensor]:
        """Take a gradient step on each minibatch of each epoch as native code.

        Args:
            batch: Rows, with values and advantages in the units of the loss.
            epochs: Indices of the rows, or sequences, of each minibatch.

        Returns:
            Means of the terms over the steps, by name.
        """
        from warpdrive.training.compiled.learn import Minibatches

        assert isinstance(self.model, FullyConnected | Recurrent)
        config, mask = self.config, batch.action_mask
        actions = batch.actions
        if isinstance(self.distribution, Gaussian) and self.distribution.box is not None:
            actions = self.distribution.box.of(actions.flatten(1))
        kl = getattr(config, "target_kl", None)
        coefficients = {
            "clip": getattr(config, "clip", 0.0),
            "value_clip": getattr(config, "value_clip", None) or 0.0,
            "value_coef": config.value_coef,
            "entropy_coef": config.entropy_coef,
            "huber_delta": config.huber_delta,
            "max_grad_norm": config.max_grad_norm,
            "max_kl": math.inf if kl is None else TOLERANCE * kl,
        }
        with torch.no_grad():
            arrays = {
                "observations": self.model.flatten(batch.observations),
                "actions": actions,
                "log_probabilities": batch.log_probabilities,
                "advantages": batch.advantages,
                "returns": self.normalized(batch.returns),
                "values": batch.values,
                **({} if mask is None else {"mask": mask}),
            }
            critic_rows = self.critic_inputs(batch)
        numbers = {name: float(value_at(c, 0)) for name, c in coefficients.items()}
        minibatches = Minibatches.of(batch, [batch.rows_of(part) for parts in epochs for part in parts])
        experience: dict[str, Any] = {} if mask is None else {"mask": mask.shape[1]}
        layout: dict[str, Any] = {}
        if critic_rows is not None:
            arrays |= {"own": critic_rows.own, "common": critic_rows.common, "which": critic_rows.which}
            layout["states"] = critic_rows.layout
        if (sequences := batch.sequences) is not None:
            arrays |= {"start": sequences.start, "begins": sequences.begins}
            experience["steps"] = len(sequences.begins)
        update: CompiledUpdate
        update, *of_critic = self.compiled
        found = update.steps(minibatches, arrays, numbers, **experience, **({} if of_critic else layout)).taken()
        for update in of_critic:
            limit = {"max_grad_norm": float(value_at(self.critic_limit, 0))}
            critic = update.steps(minibatches, arrays, {**numbers, **limit}, **layout).taken()
            losses = {"policy_loss": found["policy_loss"], "value_loss": critic["value_loss"]}
            found = {**losses, **found, "critic_grad_norm": critic["grad_norm"]}
        return found

    @property
    def critic_limit(self) -> PositiveSchedule:
        """Maximum gradient norm of a critic with a separate optimizer."""
        return self.config.max_grad_norm

    def critic_inputs(self, batch: Batch) -> CriticRows | None:
        """Return the inputs of a centralised critic; None without one."""
        return None

    def observe_returns(self, batch: Batch) -> None:
        """Update the running mean and standard deviation of returns with a batch before training on it."""
        if self.config.normalize_returns:
            self.returns.observe(batch.returns, batch.weight)

    def denormalized(self, values: Tensor) -> Tensor:
        """Convert the model's value estimates to returns."""
        return self.returns.restored(values) if self.config.normalize_returns else values

    def normalized(self, returns: Tensor) -> Tensor:
        """Convert returns to the units of the model's value estimates."""
        return self.returns(returns) if self.config.normalize_returns else returns


def rollout_batcher(
    algorithm: ActorCriticAlgorithm[Any], task: Task, critic_input: CriticInput | None = None
) -> RolloutBatcher:
    """Return the source of batches with value estimates of ``algorithm``; see ``RolloutBatcher``.

    Args:
        algorithm: The algorithm, whose configuration is read at each update.
        task: Policy to train.
        critic_input: Input of a centralised critic; None: the observations.

    Returns:
        The source of batches.
    """
    current = lambda: algorithm.config  # noqa: E731  (schedules change it)
    return RolloutBatcher(task.tag, algorithm, task.backend, task.agent_ids, current, task.sharding, critic_input)
