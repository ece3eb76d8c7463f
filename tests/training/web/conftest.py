"""Games with policies whose parameters are random."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from warpdrive.env_wrapper import EnvWrapper
from warpdrive.training.algorithms.base import LearningConfig
from warpdrive.training.config.load import load_config
from warpdrive.training.inference.trained_policy import TrainedPolicy
from warpdrive.training.models.running_moments import RunningMoments
from warpdrive.training.trainer import make_env

Made = Callable[..., tuple[EnvWrapper, dict[str, TrainedPolicy]]]


def with_random_parameters(model: nn.Module) -> None:
    torch.manual_seed(5)
    for parameter in model.parameters():
        parameter.data.normal_(0.0, 0.4)
    for part in model.modules():
        if isinstance(part, RunningMoments):
            part.mean.normal_()
            part.variance.uniform_(0.3, 2.0)


def made(name: str, *overrides: str) -> tuple[EnvWrapper, dict[str, TrainedPolicy]]:
    """Return four replicas of the environment of a run configuration, and policies that nobody trained."""
    config = load_config(name, ["trainer.num_envs=4", "trainer.seed=11", "trainer.env_backend=cpu", *overrides])
    env = make_env(config)
    policies = {}
    for tag, settings in config.policy.items():
        assert isinstance(settings, LearningConfig)
        spaces = env.observation_spaces[tag], env.action_spaces[tag]
        model = settings.build_model(*spaces)
        with_random_parameters(model)
        policies[tag] = TrainedPolicy(tag, model, *spaces, settings.acting_distribution(spaces[1]))
    return env, policies


@pytest.fixture(scope="session")
def make() -> Made:
    """Give the function that makes replicas and policies."""
    return made
