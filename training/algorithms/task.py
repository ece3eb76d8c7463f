"""Description of a policy to train, passed to algorithms, and parts of training that several of them share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
from gymnasium import Space
from torch import Tensor, nn

from warpdrive.errors import ConfigError, DefinitionError, ModelError
from warpdrive.step_graph import StepGraphs
from warpdrive.training.algorithms.base import LearningConfig, Stateful
from warpdrive.training.distributed.process_group import UNSHARDED, Sharding
from warpdrive.training.models import seeded
from warpdrive.training.models.base import Actor, ActorCritic
from warpdrive.training.models.check_device import check_outputs
from warpdrive.training.models.critic_inputs import GlobalState, JointObservations, SharedInput
from warpdrive.training.models.options import CustomModelConfig
from warpdrive.training.models.parameters import as_vector
from warpdrive.training.models.perceptron import Perceptron
from warpdrive.training.models.recurrent import Cell
from warpdrive.training.runtime.eager_optimizer import eager

if TYPE_CHECKING:
    from warpdrive.backends.interface import Backend
    from warpdrive.rollout import Rollout

UpdateKind = Literal["auto", "torch", "compiled"]
"""Execution of gradient steps."""

CRITIC_SEED = 500_000_003
"""Number added to the policy's seed for the initialisation of critics."""


class ExperienceSource(Stateful, Protocol):
    """Converts rollouts to an algorithm's experience."""

    def of(self, rollout: Rollout) -> Any:
        """Return the experience to train on, after adding ``rollout``."""


@dataclass(frozen=True)
class Task:
    """Properties of the agents and replicas that an algorithm trains a policy for.

    Attributes:
        tag: Policy tag.
        agent_ids: ``[agents of the tag]`` int32, on the device.
        observation_space: Observation space of one agent.
        action_space: Action space of one agent.
        num_envs: Number of training replicas.
        backend: Backend on whose device models are.
        seed: Seed of the initial parameters.
        sharding: Distribution of the experience over processes.
        all_observation_spaces: Observation space of one agent, for every policy tag.
        num_agents: Number of agents, for every policy tag.
        global_state: Number of elements of each global state array of the environment in a replica, by name.
        load: Loads the pretrained parameters that the configuration names into a new model.
        update: ``trainer.update`` of the run configuration.
        graphs: Captures gradient steps as CUDA graphs; None: they are not captured.
    """

    tag: str
    agent_ids: Tensor
    observation_space: Space[Any]
    action_space: Space[Any]
    num_envs: int
    backend: Backend
    seed: int
    sharding: Sharding = UNSHARDED
    all_observation_spaces: Mapping[str, Space[Any]] = field(default_factory=dict)
    num_agents: Mapping[str, int] = field(default_factory=dict)
    global_state: Mapping[str, int] = field(default_factory=dict)
    load: Callable[[Actor], object] = lambda model: None
    update: UpdateKind = "auto"
    graphs: StepGraphs | None = None

    @property
    def device(self) -> torch.device:
        """Device of models and experience."""
        return self.backend.device

    def new_model(self, config: LearningConfig) -> Any:
        """Return a new model of ``config`` on the device, with the parameters of ``load`` if given.

        Raises:
            ConfigError: If a user-defined model cannot be built, or called with the observations of all replicas.
        """
        try:
            with seeded(self.seed):
                model = config.build_model(self.observation_space, self.action_space)
        except DefinitionError as error:
            raise ConfigError(f"policy.{self.tag}.{error}") from error
        self.load(model)
        model = model.to(self.device)
        if isinstance(config.model, CustomModelConfig) and isinstance(model, ActorCritic):
            leading = (self.num_envs, len(self.agent_ids))
            try:
                check_outputs(model, self.observation_space, self.action_space, leading)
            except (DefinitionError, ModelError) as error:
                raise ConfigError(f"policy.{self.tag}.model.type: {error}") from error
        return self._native(model)

    def new_critic(self, build: Callable[[], Any]) -> Any:
        """Return a new critic on the device, initialised with another seed than the policy."""
        with seeded(self.seed + CRITIC_SEED):
            critic = build()
        return self._native(critic.to(self.device))

    def shared_input(self, source: str) -> SharedInput:
        """Return the features common to all agents, for a critic or a mixer.

        Args:
            source: ``"observations"`` for those of all agents, which are also used if the environment has no global
                state; otherwise the global state.
        """
        if source != "observations" and self.global_state:
            return GlobalState(len(self.agent_ids), self.global_state).to(self.device)
        return JointObservations(self.tag, self.all_observation_spaces, self.num_agents).to(self.device)

    def _native(self, module: nn.Module) -> nn.Module:
        """Run perceptrons and recurrent units as native code on the CPU, unless ``update`` is ``"torch"``."""
        if self.update != "torch" and self.device.type == "cpu":
            from warpdrive.training.compiled.plan import native_perceptron, native_recurrence  # loads LLVM

            for part in module.modules():
                if isinstance(part, Perceptron):
                    part.native = native_perceptron(part)
                elif isinstance(part, Cell):
                    part.native = native_recurrence(part)
        return module

    def check_batch_size(self, batch_size: int) -> None:
        """Check that each process gets a row of each minibatch.

        Raises:
            ConfigError: If there are more processes than rows.
        """
        processes = self.sharding.process_group.world_size
        if batch_size < processes:
            text = f"found {batch_size}, expected at least {processes}, a row for each process"
            raise ConfigError(f"policy.{self.tag}.batch_size: {text}; or trainer.sync: rollouts")


def adam(module: nn.Module, **options: Any) -> torch.optim.Optimizer:
    """Return a fused Adam optimizer of the parameters of a module, as one vector."""
    return eager(lambda: torch.optim.Adam([as_vector(module)], fused=True, **options))
