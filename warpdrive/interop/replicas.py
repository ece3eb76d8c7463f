"""Replicas, created from whatever describes an environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warpdrive.env_wrapper import EnvWrapper
from warpdrive.environment import Environment
from warpdrive.errors import DefinitionError
from warpdrive.registry import HOST_LIBRARIES


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
        DefinitionError: If the environment or an argument is invalid, or arguments are given with an EnvWrapper.
    """
    if isinstance(env, EnvWrapper):
        given = [*options, *(["num_envs"] if num_envs not in (None, env.num_envs) else [])]
        if given:
            raise DefinitionError(
                f"found {', '.join(given)} with an EnvWrapper, which is complete: pass an Environment"
            )
        return env
    options = {"reset_pool_size": None, **options, "num_envs": num_envs or 1}
    if isinstance(env, str):
        return make_replicas(env, options.pop("env_config", None) or {}, **options)
    return EnvWrapper(env, **options)


def make_replicas(name: str, parameters: Mapping[str, Any], **options: Any) -> EnvWrapper:
    """Return the replicas of a named environment, as in the section ``env`` of a run configuration.

    Args:
        name: A registered name, or ``"gymnasium"``, ``"pettingzoo"`` or ``"envpool"``.
        parameters: The parameters of the environment; for those libraries with its ``id``.
        options: Keyword arguments of :class:`warpdrive.EnvWrapper`.

    Returns:
        An EnvWrapper, which is a :class:`warpdrive.HostEnv` for environments of these libraries.

    Raises:
        DefinitionError: If the environment or an argument is invalid.
    """
    if name not in HOST_LIBRARIES or "id" not in parameters:
        return EnvWrapper(env_name=name, env_config=parameters, **options)
    from warpdrive.interop.host.host_env import HostEnv  # imports the libraries

    given = {key: value for key, value in parameters.items() if key != "id"}
    return HostEnv(**{name: parameters["id"]}, **options, **given)
