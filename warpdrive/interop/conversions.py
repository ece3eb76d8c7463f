"""Environments for libraries that are optional: each is imported when its function is called."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from warpdrive.env_wrapper import EnvWrapper
from warpdrive.environment import Environment
from warpdrive.errors import WarpDriveError
from warpdrive.interop.replicas import replicas_of

if TYPE_CHECKING:
    from warpdrive.interop.pettingzoo import PettingZooEnv


def to_pettingzoo(
    env: EnvWrapper | Environment | str,
    replica: int = 0,
    *,
    render_mode: str | None = None,
    max_cycles: int | None = None,
    **options: Any,
) -> PettingZooEnv:
    """Return a ``pettingzoo.ParallelEnv`` of one replica.

    ``pettingzoo.utils.parallel_to_aec`` makes an ``AECEnv`` of it.

    Args:
        env: An EnvWrapper, an environment, or a registered name.
        replica: The index of the replica. Other replicas of an EnvWrapper are neither stepped nor reset, but a seed
            applies to all.
        render_mode: ``"rgb_array"`` or ``"human"`` to enable ``render()``.
        max_cycles: The number of steps after which an episode is truncated, if before its own limit.
        options: Further arguments of :class:`warpdrive.EnvWrapper`: ``env_backend``, ``seed``, ``env_config``, ...

    Returns:
        The environment.

    Raises:
        DefinitionError: If the environment or an argument is invalid.
        WarpDriveError: If PettingZoo is not installed.
    """
    with _imports("pettingzoo", "pettingzoo"):
        from warpdrive.interop.pettingzoo import PettingZooEnv
    replicas = replicas_of(env, None, options)
    first_seed = None if isinstance(env, EnvWrapper) else options.get("seed", secrets.randbits(64))
    return PettingZooEnv(replicas, replica, render_mode, max_cycles, first_seed)


@contextmanager
def _imports(module: str, extra: str) -> Iterator[None]:
    """Turn the ImportError of a missing library into a WarpDriveError that names the extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "warpdrive":
            raise
        raise WarpDriveError(f"{error.name} is not installed: pip install 'warpdrive[{extra}]'") from None
