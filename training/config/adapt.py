"""Adaptation of environments to the options of policies: agent ids, team rewards, parameter sharing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from warpdrive.adapted import Adaptation, AdaptedEnvironment, adaptation_of, original_of
from warpdrive.environment import Environment
from warpdrive.errors import ConfigError

if TYPE_CHECKING:
    from warpdrive.env_wrapper import EnvWrapper


def adapted(environment: Environment, policies: Mapping[str, Any]) -> Environment:
    """Return an environment as policies are trained in it, itself if none has an option that concerns it.

    Args:
        environment: The environment, or the result of an earlier call.
        policies: Sections of the policies, or dictionaries that may be invalid, by policy tag.

    Raises:
        DefinitionError: If an option is impossible for the spaces of the environment.
    """
    original = original_of(environment)
    separate = [
        tag
        for tag, agents in original.policy_tags.items()
        if tag not in policies and all(name in policies for name in names_of_agents(tag, len(agents)))
    ]
    options = {tag: policies.get(f"{tag}_0" if tag in separate else tag) for tag in original.policy_tags}
    rewards = {tag: _option(section, "team_reward") for tag, section in options.items()}
    adaptation = Adaptation(
        agent_ids=tuple(tag for tag, section in options.items() if _option(section, "agent_ids") is True),
        team_rewards={tag: kind for tag, kind in rewards.items() if kind in ("sum", "mean")},
        separate=tuple(separate),
    )
    return original if adaptation == Adaptation() else AdaptedEnvironment(original, adaptation)


def adapted_replicas(env: EnvWrapper, policies: Mapping[str, Any]) -> EnvWrapper:
    """Return replicas of the :func:`adapted` environment: ``env`` itself, if it is one.

    Raises:
        ConfigError: If the environment is of another library.
    """
    wanted = adapted(env.env, policies)
    if adaptation_of(wanted) == adaptation_of(env.env):
        return env
    if env.steps_on_host:
        raise ConfigError(
            "policy: found agent_ids, team_reward or parameter_sharing: false, expected none of them for an "
            "environment of another library"
        )
    return env.like(env.num_envs, env.seed, env=wanted, first_env=env.first_env)


def names_of_agents(tag: str, count: int) -> list[str]:
    """Return the policy tags of agents that do not share parameters."""
    return [f"{tag}_{number}" for number in range(count)]


def _option(section: Any, name: str) -> Any:
    return section.get(name) if isinstance(section, Mapping) else getattr(section, name, None)
