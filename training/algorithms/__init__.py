"""Training algorithms by their names in run configurations, and their sources of experience."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import torch
from gymnasium import Space
from torch import Tensor, nn

from warpdrive.backends.interface import Backend
from warpdrive.errors import ConfigError
from warpdrive.rollout import Rollout
from warpdrive.training.algorithms.a2c import A2C
from warpdrive.training.algorithms.base import Algorithm, Stateful, as_vector, optimizer_step
from warpdrive.training.algorithms.custom import Custom, RolloutItself
from warpdrive.training.algorithms.ddpg import DDPG
from warpdrive.training.algorithms.dqn import DQN
from warpdrive.training.algorithms.mappo import MAPPO
from warpdrive.training.algorithms.off_policy import OffPolicy
from warpdrive.training.algorithms.ppo import PPO
from warpdrive.training.algorithms.reinforce import Reinforce
from warpdrive.training.algorithms.sac import SAC, Temperature
from warpdrive.training.algorithms.td3 import TD3
from warpdrive.training.algorithms.vtrace import StaggeredGroups
from warpdrive.training.config.schema import (
    A2CConfig,
    CustomConfig,
    DDPGConfig,
    DQNConfig,
    LearningConfig,
    OffPolicyConfig,
    OnPolicyConfig,
    OrnsteinUhlenbeckConfig,
    PPOConfig,
    ReinforceConfig,
    SACConfig,
    TD3Config,
)
from warpdrive.training.distributed.team import ALONE, UNSHARDED, Sharding, Team
from warpdrive.training.experience.batch import EpisodeBatcher, RolloutBatcher
from warpdrive.training.experience.n_step import NStep, StepsUntilBack
from warpdrive.training.experience.replay_buffer import ReplayBuffer
from warpdrive.training.inference.pretrained import begin_as_loaded
from warpdrive.training.models import acting_distribution, build_central_critic, build_critic, build_model
from warpdrive.training.models.critic_inputs import CriticInput, GlobalState, JointObservations
from warpdrive.training.models.running_moments import RunningMoments
from warpdrive.training.rollout.exploration import GaussianNoise, NoisyActor, OrnsteinUhlenbeckNoise


class Source(Stateful, Protocol):
    """Converts rollouts to an algorithm's experience."""

    def of(self, rollout: Rollout) -> Any:
        """Return the experience to train on, after adding ``rollout``."""


@dataclass(frozen=True)
class Task:
    """Properties of the agents and replicas that an algorithm trains a policy for.

    Attributes:
        tag: policy tag.
        agent_ids: ``[agents of the tag]`` int32, on the device.
        observation_space: observation space of one agent.
        action_space: action space of one agent.
        num_envs: number of training replicas.
        backend: backend on whose device models live.
        seed: seed of the initial parameters.
        sharding: distribution of the experience over processes.
        all_observation_spaces: observation space of one agent, for every policy tag.
        num_agents: number of agents, for every policy tag.
        global_state: number of elements of each global state array of the environment in a replica, by name.
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


def build_algorithm(config: LearningConfig, task: Task) -> tuple[Algorithm[Any], Source]:
    """Build the algorithm that ``config`` describes, with a new model, and its source of experience."""
    algorithm, source = _build(config, task)
    if task.sharding.team.size > 1:
        algorithm.optimizer_step = partial(optimizer_step, team=task.sharding.team)
        parts = [part for part in algorithm.parts().values() if isinstance(part, nn.Module)]
        _share_moments(nn.ModuleList(parts), task.sharding.team)
        # the model observes rollouts, which every process may have completely
        _share_moments(algorithm.model, ALONE if config.learns_from_the_past else task.sharding.team)
    return algorithm, source


def _share_moments(module: nn.Module, team: Team) -> None:
    """Let running moments include the rows of all processes of a team."""
    for part in module.modules():
        if isinstance(part, RunningMoments):
            part.team = team


def _build(config: LearningConfig, task: Task) -> tuple[Algorithm[Any], Source]:
    model = build_model(config, task.observation_space, task.action_space, task.seed)
    begin_as_loaded(model, config, task.tag)
    model = model.to(task.backend.device)
    if isinstance(config, OffPolicyConfig):
        learner = _off_policy(config, task, model)
        gamma = lambda: learner.config.gamma  # noqa: E731
        n_step = NStep(config.n_step, gamma) if config.n_step > 1 else None
        until_back = StepsUntilBack(config.n_step, gamma) if config.returns_after_leaving else None
        team = task.sharding.team
        if config.batch_size < team.size:
            text = f"found {config.batch_size}, expected at least {team.size}, a row for each process"
            raise ConfigError(f"policy.{task.tag}.batch_size: {text}; or trainer.sync: rollouts")
        return learner, ReplayBuffer(task.tag, config.buffer_size, task.backend.device, n_step, team, until_back)
    distribution = acting_distribution(config, task.action_space).to(task.backend.device)
    if isinstance(config, CustomConfig):
        if task.sharding.team.size > 1:
            raise ConfigError(
                f"policy.{task.tag}.algorithm: found 'custom', but with trainer.sync=gradients each of the "
                f"{task.sharding.team.size} processes has only its own experience; use trainer.sync=rollouts"
            )
        return Custom(config, model, distribution, task.num_envs, len(task.agent_ids)), RolloutItself()
    critic = critic_input = None
    if isinstance(config, PPOConfig) and config.centralized_critic:
        critic_input = _critic_input(config, task).to(task.backend.device)
        critic = build_central_critic(config, critic_input.size, task.seed).to(task.backend.device)
    critic_optimizer = None
    trained = model
    if critic is not None and isinstance(config, PPOConfig) and config.critic_learns_apart:
        critic_optimizer = torch.optim.Adam([as_vector(critic)], eps=1e-5, fused=True)
    elif critic is not None:
        trained = nn.ModuleList([model, critic])
    optimizer = torch.optim.Adam([as_vector(trained)], eps=1e-5, fused=True)
    if isinstance(config, ReinforceConfig):
        reinforce = Reinforce(config, model, distribution, optimizer)
        return reinforce, EpisodeBatcher(
            task.tag, task.backend, task.agent_ids, lambda: reinforce.config, task.sharding
        )
    algorithm: PPO | A2C
    if isinstance(config, PPOConfig) and critic is not None and critic_input is not None:
        mappo = config.derived_from(MAPPO)
        algorithm = mappo(config, model, critic, critic_input, distribution, optimizer, critic_optimizer)
    elif isinstance(config, PPOConfig):
        algorithm = config.derived_from(PPO)(config, model, distribution, optimizer)
    else:
        assert isinstance(config, A2CConfig)
        algorithm = a2c = config.derived_from(A2C)(config, model, distribution, optimizer)
        if config.steps_per_update is not None:
            return a2c, StaggeredGroups(task.tag, a2c, config.steps_per_update, task.backend.device, task.sharding.team)
    return algorithm, RolloutBatcher(
        task.tag, algorithm, task.backend, task.agent_ids, lambda: algorithm.config, task.sharding, critic_input
    )


def _critic_input(config: PPOConfig, task: Task) -> CriticInput:
    if config.critic_input != "observations" and task.global_state:
        return GlobalState(len(task.agent_ids), task.global_state)
    return JointObservations(task.tag, task.all_observation_spaces, task.num_agents)


def algorithm_class(config: OnPolicyConfig) -> type[PPO] | type[A2C]:
    """Return the class of an actor-critic algorithm; a replacement must be derived from it."""
    if isinstance(config, PPOConfig):
        return MAPPO if config.centralized_critic else PPO
    return A2C


def _off_policy(config: OffPolicyConfig, task: Task, model: Any) -> OffPolicy[Any]:
    device = task.backend.device
    if isinstance(config, DQNConfig):
        return DQN(config, model, _adam(model))
    critic = build_critic(config, model, task.observation_space, task.seed).to(device)
    optimizers = _adam(model), _adam(critic)
    if isinstance(config, SACConfig):
        temperature = Temperature(config.initial_temperature).to(device)
        return SAC(config, model, critic, temperature, *optimizers, _adam(temperature))
    assert isinstance(config, DDPGConfig | TD3Config)
    if isinstance(config.noise, OrnsteinUhlenbeckConfig):
        shape = (task.num_envs, len(task.agent_ids), model.components)
        noise: GaussianNoise | OrnsteinUhlenbeckNoise = OrnsteinUhlenbeckNoise(config.noise, shape)
    else:
        noise = GaussianNoise(config.noise)
    actor = NoisyActor(model, noise).to(device)
    if isinstance(config, TD3Config):
        return TD3(config, model, critic, actor, *optimizers)
    return DDPG(config, model, critic, actor, *optimizers)


def _adam(module: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam([as_vector(module)], fused=True)
