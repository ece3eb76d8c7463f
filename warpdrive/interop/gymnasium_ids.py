"""Ids of environments in Gymnasium's registry: ``warpdrive/<class>-v1``, as in ``warpdrive/CartPole-v1``.

Gymnasium imports the module when it is imported itself; it must not import heavy modules, or Gymnasium's at the top.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from warpdrive.offered import at_registration, offered_environments

if TYPE_CHECKING:
    from warpdrive.interop.gymnasium import GymnasiumEnv, GymnasiumVectorEnv

NAMESPACE, VERSION = "warpdrive", 1
_EXPLICIT = {"seed", "env_backend", "reset_pool_size", "first_env", "process_id", "env_config"}
_OF_BATCH = {"tag", "agent", "output", "copy", "others", "autoreset_mode", "render_mode"}


def register_environments() -> None:
    """Register the environments of installed packages with Gymnasium, and from now on those of ``wd.register``."""
    for name, target in offered_environments().items():
        _register(name, target.rpartition(":")[2])
    if _register not in at_registration:
        at_registration.append(_register)


def _register(name: str, class_name: str) -> None:
    """Register an environment; existing ids are not replaced."""
    from gymnasium.envs.registration import register, registry

    env_id = f"{NAMESPACE}/{class_name}-v{VERSION}"
    if env_id in registry and registry[env_id].kwargs["env_name"] != name:
        env_id = f"{NAMESPACE}/{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}-v{VERSION}"
    if env_id not in registry:
        register(
            env_id, entry_point=f"{__name__}:make", vector_entry_point=f"{__name__}:make_vec", kwargs={"env_name": name}
        )


def make(env_name: str, **options: Any) -> GymnasiumEnv:
    """Return a single environment for ``gymnasium.make``.

    Args:
        env_name: The registered name.
        options: Arguments of :func:`warpdrive.to_gymnasium`, and parameters of the environment.

    Returns:
        One agent of one replica.

    Raises:
        DefinitionError: If an option is invalid.
    """
    from warpdrive.interop.gymnasium import GymnasiumEnv

    return GymnasiumEnv(env_name, **_sorted_out(options))


def make_vec(env_name: str, num_envs: int = 1, **options: Any) -> GymnasiumVectorEnv:
    """Return a vector environment for ``gymnasium.make_vec``.

    Args:
        env_name: The registered name.
        num_envs: The number of replicas.
        options: Arguments of :func:`warpdrive.to_gymnasium`, and parameters of the environment.

    Returns:
        The vector environment.

    Raises:
        DefinitionError: If an option is invalid.
    """
    from warpdrive.interop.gymnasium import to_gymnasium

    return to_gymnasium(env_name, num_envs, **_sorted_out(options))


def _sorted_out(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options with parameters of the environment under ``env_config``."""
    known = {name: value for name, value in options.items() if name in _EXPLICIT | _OF_BATCH}
    parameters = {name: value for name, value in options.items() if name not in known}
    return {**known, "env_config": {**known.get("env_config", {}), **parameters}}
