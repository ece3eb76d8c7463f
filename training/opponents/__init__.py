"""Opponents: policy tags that are not trained, controlled by past versions of a policy or a user-defined function."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from warpdrive.env_wrapper import EnvWrapper
from warpdrive.training.config.schema import FunctionConfig, RunConfig, SelfPlayConfig
from warpdrive.training.distributed.process_group import Share
from warpdrive.training.opponents.base import Opponent
from warpdrive.training.opponents.function import FunctionOpponent
from warpdrive.training.opponents.self_play import SelfPlay
from warpdrive.training.policy import Policy

__all__ = ["Opponent", "SelfPlay", "build_opponents"]

_SEED = 700_000_001  # added to the run's: opponents and policies have different random numbers


def build_opponents(
    config: RunConfig, env: EnvWrapper, policies: Mapping[str, Policy], share: Share
) -> dict[str, Opponent]:
    """Build the actors of the tags that are neither trained nor random.

    Args:
        config: Run configuration, validated against the environment.
        env: Replicas of the rollouts.
        policies: Learning policies, by policy tag.
        share: Range of the replicas of ``env`` among all.

    Returns:
        Opponents by policy tag.
    """
    opponents: dict[str, Opponent] = {}
    for index, (tag, agent_ids) in enumerate(env.policy_tags.items()):
        settings = config.policy[tag]
        if isinstance(settings, SelfPlayConfig):
            learner = policies[settings.of].model
            generator = torch.Generator(next(learner.parameters()).device)
            generator.manual_seed(config.trainer.seed + _SEED + index)
            opponents[tag] = SelfPlay(settings, learner, share, len(agent_ids), generator)
        elif isinstance(settings, FunctionConfig):
            opponents[tag] = FunctionOpponent(settings.loaded())
    return opponents
