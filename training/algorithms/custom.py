"""Policy trained by a user-defined update function, by gradients or in any other way.

The parameters are not views of one vector, so that any optimizer of the user's can be used.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Annotated, Any, Literal

import torch
from gymnasium import Space
from pydantic import ConfigDict, Field
from torch import Tensor

from warpdrive.environment import Environment
from warpdrive.errors import ConfigError, DefinitionError, TrainingError
from warpdrive.importing import place_of
from warpdrive.rollout import Rollout
from warpdrive.training.algorithms.base import Algorithm, LearningConfig, Stateful, UpdateSize
from warpdrive.training.algorithms.task import Task
from warpdrive.training.config.messages import Problem
from warpdrive.training.config.signature import parameter_problems, takes
from warpdrive.training.config.values import Count, UserFunction, load_function
from warpdrive.training.experience.sequences import Replayed, replay_of
from warpdrive.training.models import build_actor_critic
from warpdrive.training.models.base import ActorCritic
from warpdrive.training.models.distributions import Distribution
from warpdrive.training.models.options import FullyConnectedConfig, ModelConfig
from warpdrive.training.models.population import Population, PopulationInReplicas
from warpdrive.training.models.registry import is_recurrent

if TYPE_CHECKING:
    from warpdrive.training.policy import Policy


class CustomConfig(LearningConfig):
    """User-defined update function; additional keys are its parameters."""

    model_config = ConfigDict(extra="allow")

    algorithm: Literal["custom"] = "custom"
    function: UserFunction
    """Update function ``function(policy, rollout, **parameters)``, or a class whose instance takes each rollout."""
    model: ModelConfig = FullyConnectedConfig()
    """Model of the policy and the value function."""
    population: Annotated[Count, Field(le=65536)] | None = None
    """Size of the population; each member has its own parameters and an equal share of the replicas; None: one."""

    def build_model(self, observation_space: Space[Any], action_space: Space[Any]) -> ActorCritic:
        """See ``LearningConfig``: one model, or a population of them."""
        if self.population is None:
            return build_actor_critic(self.model, observation_space, action_space)
        return Population(
            [build_actor_critic(self.model, observation_space, action_space) for _ in range(self.population)]
        )

    def problems(self, size: UpdateSize, env: Environment) -> list[Problem]:
        """See ``LearningConfig``: problems of the function, of its parameters and of the population."""
        return self._function_problems() + self._population_problems(size.num_envs)

    def _function_problems(self) -> list[Problem]:
        try:
            definition = self.loaded()
            signature = inspect.signature(definition)
        except (DefinitionError, TypeError, ValueError) as error:  # the last two: of built-in classes
            return [("function", str(error))]
        is_class = inspect.isclass(definition)
        wanted = "(policy, rollout, ...)"
        fits = not is_class and takes(definition, 2)
        if inspect.isclass(definition):
            wanted = "(policy, ...), and __call__(self, rollout)"
            called = [vars(base)["__call__"] for base in inspect.getmro(definition) if "__call__" in vars(base)]
            fits = takes(definition, 1) and bool(called) and takes(called[0], 2)
        if not fits:
            found = f"{place_of(definition)} takes {signature}"
            return [("function", f"{found}, expected {wanted}: see docs/guides/own_algorithm.md")]
        if hasattr(definition, "state_dict") != hasattr(definition, "load_state_dict"):
            text = f"{place_of(definition)} has one of state_dict and load_state_dict, expected both or none"
            return [("function", text)]
        return parameter_problems("function", definition, self.parameters, given=1 if is_class else 2)

    def _population_problems(self, num_envs: int) -> list[Problem]:
        size = self.population
        if size is not None and num_envs % size:
            near = min((n for n in range(1, num_envs + 1) if num_envs % n == 0), key=lambda n: abs(n - size))
            text = f"found {size}, expected a divisor of trainer.num_envs ({num_envs}), such as {near}"
            return [("population", text)]
        if size is not None and is_recurrent(self.model):
            text = f"found '{self.model.type}' in a population, expected a model that is not recurrent"
            return [("model.type", text)]
        return []

    @property
    def parameters(self) -> dict[str, Any]:
        """Arguments of the function besides the policy and the rollout."""
        return dict(self.model_extra or {})

    def loaded(self) -> Callable[..., Any]:
        """Return the function, or the class of a callable object.

        Raises:
            DefinitionError: If it cannot be found.
        """
        return load_function(self.function)


class Custom(Algorithm[Rollout]):
    """User-defined update function, or instance of a class, as an algorithm: see docs/guides/own_algorithm.md.

    Args:
        config: Section of the policy in the run configuration.
        model: Model to train; its parameters are separate tensors.
        distribution: Action distribution for the model's logits.
        num_envs: Number of training replicas.
        num_agents: Number of agents per replica that the policy acts for.
    """

    config: CustomConfig
    model: ActorCritic
    actor: ActorCritic

    def __init__(
        self, config: CustomConfig, model: ActorCritic, distribution: Distribution, num_envs: int, num_agents: int
    ) -> None:
        self.config, self.model, self.distribution = config, model, distribution
        self.actor = PopulationInReplicas(model, num_envs, num_agents) if isinstance(model, Population) else model
        self._learner: Any
        self._learn: Callable[[Rollout], Any]

    @property
    def learns_from_global_state(self) -> bool:
        """See ``Algorithm``: the function may use it."""
        return True

    @property
    def value_function(self) -> ActorCritic:
        """See ``Algorithm``: the members of a population for their replicas."""
        return self.actor

    def bind(self, policy: Policy) -> None:
        """See ``Algorithm``: the function is given the policy."""
        self._tag, self._learner = policy.tag, self.config.loaded()
        if isinstance(self._learner, type):
            self._learner = self._learn = self._learner(policy, **self.config.parameters)
        else:
            self._learn = partial(self._learner, policy, **self.config.parameters)

    def update(self, experience: Rollout, generator: torch.Generator) -> dict[str, Tensor]:
        """Call the function to update the model. Returns its metrics and ``parameter_norm``: scalars on the device.

        Raises:
            TrainingError: If the function returned something other than scalars by name.
        """
        metrics = self._as_metrics(self._learn(experience))
        parameters = [parameter.detach().flatten() for parameter in self.model.parameters()]
        return {"parameter_norm": torch.cat(parameters).norm(), **metrics}  # reveals non-finite parameters

    def parts(self) -> dict[str, Stateful]:
        """See ``Algorithm``: the user's object, if it has state."""
        return {"function": self._learner} if hasattr(self._learner, "load_state_dict") else {}

    def advice(self, tag: str) -> str:
        """See ``Algorithm``."""
        return f"Check {self._place}, and rewards and observations for NaN and infinity"

    def replay(self, rollout: Rollout, tag: str) -> Replayed:
        """See ``Algorithm``."""
        return replay_of(rollout, tag, self.actor, self.distribution)

    @property
    def _place(self) -> str:
        return place_of(self.config.loaded())

    def _as_metrics(self, returned: Any) -> dict[str, Tensor]:
        if not isinstance(returned, Mapping):
            raise self._error(f"returned {_described(returned)}, expected scalars by name: {{'loss': loss}}, or {{}}")
        for name in returned:
            if not isinstance(name, str) or not name or "/" in name:
                raise self._error(f"returned a metric named {name!r}, expected a name without '/'")
        return {name: self._as_scalar(name, value) for name, value in returned.items()}

    def _as_scalar(self, name: str, value: Any) -> Tensor:
        if isinstance(value, Tensor) and value.numel() == 1:
            return value.detach().reshape(())
        if isinstance(value, Real):
            return torch.tensor(float(value), device=next(self.model.parameters()).device)
        raise self._error(f"returned {_described(value)} as '{name}', expected a number or a tensor of one number")

    def _error(self, what: str) -> TrainingError:
        return TrainingError(f"policy '{self._tag}': {self._place} {what}")


class RolloutItself:
    """Source of a user-defined function's experience: each rollout, unchanged."""

    def of(self, rollout: Rollout) -> Rollout:
        """Return the rollout."""
        return rollout

    def state_dict(self) -> dict[str, Any]:
        """Return an empty dictionary."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Do nothing: there is no state to restore."""


def build(config: CustomConfig, task: Task) -> tuple[Custom, RolloutItself]:
    """Build the algorithm and its source of experience.

    Raises:
        ConfigError: If there are several processes with ``trainer.sync: gradients``.
    """
    processes = task.sharding.process_group.world_size
    if processes > 1:
        raise ConfigError(
            f"policy.{task.tag}.algorithm: found 'custom', but with trainer.sync=gradients each of the {processes} "
            "processes has only its own experience; use trainer.sync=rollouts"
        )
    model, distribution = task.new_model(config), config.acting_distribution(task.action_space).to(task.device)
    return Custom(config, model, distribution, task.num_envs, len(task.agent_ids)), RolloutItself()


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor {tuple(value.shape)} of {value.dtype}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
