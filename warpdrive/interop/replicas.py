"""Replicas for other libraries, created from whatever describes an environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warpdrive.env_wrapper import EnvWrapper
from warpdrive.environment import Environment
from warpdrive.errors import DefinitionError


def replicas_of(env: EnvWrapper | Environment | str, num_envs: int | None, options: Mapping[str, Any]) -> EnvWrapper:
    """Return an EnvWrapper for an environment.

    Args:
        env: An EnvWrapper, an environment, or a registered name.
        num_envs: The number of replicas; None for one, or those of the EnvWrapper.
        options: Keyword arguments of :class:`warpdrive.EnvWrapper`.

    Returns:
        ``env`` itself if it is an EnvWrapper, otherwise a new one. Its start states are drawn from a pool of default
        size, as by the trainer.

    Raises:
        DefinitionError: If the environment or an argument is invalid, or ``env`` is an EnvWrapper and comes with
            arguments.
    """
    if isinstance(env, EnvWrapper):
        given = [*options, *(["num_envs"] if num_envs not in (None, env.num_envs) else [])]
        if given:
            raise DefinitionError(
                f"found {', '.join(given)} with an EnvWrapper, which is complete: pass an Environment"
            )
        return env
    kind: dict[str, Any] = {"env_name": env} if isinstance(env, str) else {"env": env}
    return EnvWrapper(**{"reset_pool_size": None, **kind, **options, "num_envs": num_envs or 1})
