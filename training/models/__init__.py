"""Models by their ``type`` in run configurations, and by the kind of actor an algorithm needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from gymnasium import Space, spaces

from warpdrive.training.config.schema import (
    A2CConfig,
    ConvolutionalConfig,
    ConvolutionsConfig,
    CustomConfig,
    CustomModelConfig,
    DDPGConfig,
    DQNConfig,
    FullyConnectedConfig,
    GaussianConfig,
    GRUConfig,
    LearningConfig,
    LSTMConfig,
    OffPolicyConfig,
    PerceptronConfig,
    PPOConfig,
    RecurrentConfig,
    ReinforceConfig,
    SACConfig,
    TD3Config,
)
from warpdrive.training.models.base import Actor, ActorCritic
from warpdrive.training.models.central_critic import CentralCritic, RecurrentCritic
from warpdrive.training.models.check_device import CheckDevice
from warpdrive.training.models.continuous import Critic, DeterministicActor, SquashedActor
from warpdrive.training.models.convolutional import Convolutional
from warpdrive.training.models.convolutions import Convolutions
from warpdrive.training.models.distributions import Distribution, distribution_of
from warpdrive.training.models.fully_connected import FullyConnected
from warpdrive.training.models.population import Population
from warpdrive.training.models.q_network import QNetwork
from warpdrive.training.models.recurrent import Recurrent
from warpdrive.training.models.registry import model_class
from warpdrive.training.models.two_headed import LogStd

_CRITIC_SEED = 500_000_003  # added to the policy's seed, for a different initialization of the critic


def _log_std(config: GaussianConfig, distribution: Distribution) -> LogStd:
    return LogStd(distribution.num_log_stds, config.initial_log_std, config.state_dependent_std)


def _fully_connected(
    config: FullyConnectedConfig, observation_space: Space[Any], distribution: Distribution
) -> ActorCritic:
    return FullyConnected(
        observation_space,
        distribution.num_outputs,
        config.hidden,
        config.activation,
        _log_std(config, distribution),
        config.scale_observations,
        config.normalize_observations,
        config.initialization,
        config.trunk,
    )


def _convolutional(
    config: ConvolutionalConfig, observation_space: Space[Any], distribution: Distribution
) -> ActorCritic:
    return Convolutional(
        observation_space,
        distribution.num_outputs,
        config.filters,
        config.kernel_size,
        config.stride,
        config.hidden,
        config.activation,
        _log_std(config, distribution),
        config.scale_observations,
        config.normalize_observations,
        config.initialization,
        config.trunk,
    )


def _recurrent(
    config: GRUConfig | LSTMConfig, observation_space: Space[Any], distribution: Distribution
) -> ActorCritic:
    return Recurrent(
        config.type,
        observation_space,
        distribution.num_outputs,
        config.hidden,
        config.units,
        config.activation,
        _log_std(config, distribution),
        config.scale_observations,
        config.normalize_observations,
        config.initialization,
        config.trunk,
    )


MODELS: dict[str, Callable[[Any, Space[Any], Distribution], ActorCritic]] = {
    "fully_connected": _fully_connected,
    "convolutional": _convolutional,
    "gru": _recurrent,
    "lstm": _recurrent,
}


def _actor_critic(
    config: ReinforceConfig | A2CConfig | PPOConfig | CustomConfig,
    observation_space: Space[Any],
    action_space: Space[Any],
) -> ActorCritic:
    if isinstance(config, CustomConfig) and config.population is not None:
        alone = config.model_copy(update={"population": None})
        return Population([_actor_critic(alone, observation_space, action_space) for _ in range(config.population)])
    distribution = acting_distribution(config, action_space)
    if isinstance(config.model, CustomModelConfig):
        return _custom(config.model, observation_space, action_space, distribution)
    model = MODELS[config.model.type](config.model, observation_space, distribution)
    model.action_units = distribution.action_units
    return model


def _custom(
    config: CustomModelConfig, observation_space: Space[Any], action_space: Space[Any], distribution: Distribution
) -> ActorCritic:
    num_logits = distribution.num_outputs + distribution.num_log_stds
    model: ActorCritic = model_class(config.type)(observation_space, num_logits, **config.parameters)
    model.action_units = distribution.action_units
    return CheckDevice(model, observation_space, action_space) if config.check_device else model


def _convolutions(model: PerceptronConfig | ConvolutionsConfig) -> Convolutions | None:
    if isinstance(model, PerceptronConfig):
        return None
    return Convolutions(model.filters, model.kernel_size, model.stride)


def _continuous(config: OffPolicyConfig, observation_space: Space[Any], action_space: Space[Any]) -> Actor:
    assert isinstance(action_space, spaces.Box), "the configuration is checked for this"
    kind, model = SquashedActor if isinstance(config, SACConfig) else DeterministicActor, config.model
    return kind(
        observation_space,
        action_space,
        model.hidden,
        model.activation,
        model.scale_observations,
        model.normalize_observations,
        model.initialization,
        _convolutions(model),
    )


def _action_values(config: DQNConfig, observation_space: Space[Any], action_space: Space[Any]) -> Actor:
    assert isinstance(action_space, spaces.Discrete), "the configuration is checked for this"
    model = config.model
    return QNetwork(
        observation_space,
        int(action_space.n),
        model.hidden,
        model.activation,
        model.scale_observations,
        model.normalize_observations,
        model.initialization,
        _convolutions(model),
    )


_ACTORS: dict[type[LearningConfig], Callable[[Any, Space[Any], Space[Any]], Actor]] = {
    A2CConfig: _actor_critic,
    PPOConfig: _actor_critic,
    ReinforceConfig: _actor_critic,
    CustomConfig: _actor_critic,
    DQNConfig: _action_values,
    DDPGConfig: _continuous,
    TD3Config: _continuous,
    SACConfig: _continuous,
}


def acting_distribution(config: LearningConfig, action_space: Space[Any]) -> Distribution:
    """Return the action distribution of the models that ``build_model`` creates."""
    if isinstance(config, OffPolicyConfig):
        return distribution_of(action_space, squash=isinstance(config, SACConfig))
    model = config.model  # type: ignore[attr-defined]
    return distribution_of(action_space, normalize=model.normalize_actions, squash=model.squash_actions)


def build_model(config: LearningConfig, observation_space: Space[Any], action_space: Space[Any], seed: int) -> Any:
    """Build the actor that an algorithm trains, on the CPU.

    It is initialised from ``seed`` without touching PyTorch's global random state.

    Args:
        config: section of the policy in the run configuration.
        observation_space: observation space of one agent.
        action_space: action space of one agent.
        seed: seed of the initial parameters.

    Returns:
        The model.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _ACTORS[type(config)](config, observation_space, action_space)


def build_central_critic(config: PPOConfig, size: int, seed: int) -> CentralCritic:
    """Build a centralised critic of ``size`` inputs, initialised from ``seed`` likewise.

    Its layers are as wide as the model's, or have default widths beside a user-defined model.

    Args:
        config: section of the policy in the run configuration.
        size: number of inputs.
        seed: seed of the initial parameters.

    Returns:
        The critic, on the CPU.
    """
    model = FullyConnectedConfig() if isinstance(config.model, CustomModelConfig) else config.model
    sizes = (size, model.hidden, model.activation, model.normalize_observations, model.initialization)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed + _CRITIC_SEED)
        if not config.recurrent_critic:
            return CentralCritic(*sizes)
        units = model if isinstance(model, RecurrentConfig) else GRUConfig(type="gru")
        return RecurrentCritic(*sizes, units.type, units.units)


def build_critic(
    config: OffPolicyConfig, policy: DeterministicActor | SquashedActor, space: Space[Any], seed: int
) -> Critic:
    """Build the critic of a continuous policy, initialised from ``seed`` likewise.

    Args:
        config: section of the policy in the run configuration.
        policy: the policy, whose observation statistics are shared.
        space: observation space of one agent.
        seed: seed of the initial parameters.

    Returns:
        A critic with two estimates, or one for DDPG, on the CPU.
    """
    model, count = config.model, 1 if isinstance(config, DDPGConfig) else 2
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed + _CRITIC_SEED)
        return Critic(
            policy.flatten,
            space,
            policy.components,
            model.hidden,
            model.activation,
            count,
            model.initialization,
            _convolutions(model),
        )
