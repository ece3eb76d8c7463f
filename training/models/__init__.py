"""Models by their ``type`` in run configurations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from gymnasium import Space

from warpdrive.training.config.section import Section
from warpdrive.training.models.base import ActorCritic
from warpdrive.training.models.central_critic import CentralCritic, RecurrentCritic
from warpdrive.training.models.check_device import CheckDevice
from warpdrive.training.models.convolutional import Convolutional
from warpdrive.training.models.distributions import Distribution, distribution_of
from warpdrive.training.models.fully_connected import FullyConnected
from warpdrive.training.models.options import (
    ActionsConfig,
    CustomModelConfig,
    FullyConnectedConfig,
    GRUConfig,
    ModelConfig,
    RecurrentConfig,
)
from warpdrive.training.models.recurrent import Recurrent
from warpdrive.training.models.registry import model_class
from warpdrive.user_code import user_code

MODELS: dict[str, Callable[..., ActorCritic]] = {
    "fully_connected": FullyConnected,
    "convolutional": Convolutional,
    "gru": Recurrent,
    "lstm": Recurrent,
    "mingru": Recurrent,
}
"""Constructors of the built-in models, which take the observation space, sizes and the whole section."""


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Initialise models that are built on the CPU within the block from ``seed``; PyTorch's generator is unchanged."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def acting_distribution(options: Section, action_space: Space[Any]) -> Distribution:
    """Return the distribution of the actions of a model, whose section may have no keys of actions in a Box."""
    if not isinstance(options, ActionsConfig):
        return distribution_of(action_space)
    return distribution_of(action_space, normalize=options.normalize_actions, squash=options.squash_actions)


def build_actor_critic(options: ModelConfig, observation_space: Space[Any], action_space: Space[Any]) -> ActorCritic:
    """Build the model that a section describes, on the CPU.

    Args:
        options: Section of the model in the run configuration.
        observation_space: Observation space of one agent.
        action_space: Action space of one agent.

    Returns:
        The model; a user-defined one is checked in every call if ``check_device`` is set.
    """
    distribution = acting_distribution(options, action_space)
    model: ActorCritic
    if isinstance(options, CustomModelConfig):
        num_logits = distribution.num_outputs + distribution.num_log_stds
        with user_code(f"model.type: {options.type}"):
            model = model_class(options.type)(observation_space, num_logits, **options.parameters)
    else:
        model = MODELS[options.type](observation_space, distribution.num_outputs, options, distribution.num_log_stds)
    model.action_units = distribution.action_units
    is_checked = isinstance(options, CustomModelConfig) and options.check_device
    return CheckDevice(model, observation_space, action_space) if is_checked else model


def build_central_critic(options: ModelConfig, size: int, is_recurrent: bool) -> CentralCritic:
    """Build a centralised critic, on the CPU.

    Its layers have the widths of the model's, or default widths for a user-defined model.

    Args:
        options: Section of the policy's model in the run configuration.
        size: Number of inputs.
        is_recurrent: If True, the critic is recurrent: with the model's units, or those of a GRU if it has none.

    Returns:
        The critic.
    """
    model = FullyConnectedConfig() if isinstance(options, CustomModelConfig) else options
    if not is_recurrent:
        return CentralCritic(size, model)
    return RecurrentCritic(size, model, model if isinstance(model, RecurrentConfig) else GRUConfig())
