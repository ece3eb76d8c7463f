"""Conversions for optional libraries, which are imported when the function is called."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from warpdrive.env_wrapper import EnvWrapper
from warpdrive.environment import Environment
from warpdrive.errors import WarpDriveError
from warpdrive.interop.gymnasium import to_gymnasium
from warpdrive.interop.replicas import replicas_of

if TYPE_CHECKING:
    from torchrl.envs.utils import MarlGroupMapType

    from warpdrive.interop.pettingzoo import PettingZooEnv
    from warpdrive.interop.rsl_rl import RslRlVecEnv
    from warpdrive.interop.skrl import SkrlEnv
    from warpdrive.interop.stable_baselines3 import StableBaselines3VecEnv
    from warpdrive.interop.torchrl import TorchRLEnv


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

    ```python
    env = wd.to_pettingzoo("simple_tag")
    observations, infos = env.reset(seed=1)
    results = env.step({agent: env.action_space(agent).sample() for agent in env.agents})
    ```

    Args:
        env: An EnvWrapper, an environment, or a registered name.
        replica: The index of the replica. Other replicas of an EnvWrapper are neither stepped nor reset, but a seed
            applies to all.
        render_mode: ``"rgb_array"`` or ``"human"`` to enable ``render()``.
        max_cycles: The number of steps after which an episode is truncated, if less than ``episode_length``.
        options: Further arguments of :class:`warpdrive.EnvWrapper`: ``env_backend``, ``seed``, ``env_config``, ...

    Returns:
        The environment.

    Raises:
        DefinitionError: If the environment or an argument is invalid.
        WarpDriveError: If PettingZoo is not installed.
    """
    with _imports("pettingzoo"):
        from warpdrive.interop.pettingzoo import PettingZooEnv
    replicas = replicas_of(env, None, options)
    first_seed = None if isinstance(env, EnvWrapper) else options.get("seed", secrets.randbits(64))
    return PettingZooEnv(replicas, replica, render_mode, max_cycles, first_seed)


def to_stable_baselines3(
    env: EnvWrapper | Environment | str, num_envs: int | None = None, **options: Any
) -> StableBaselines3VecEnv:
    """Return a ``VecEnv`` of Stable-Baselines3.

    ```python
    model = stable_baselines3.PPO("MlpPolicy", wd.to_stable_baselines3("cartpole", num_envs=64))
    model.learn(100_000)
    ```

    Args:
        env: An EnvWrapper, an environment, or a registered name.
        num_envs: The number of replicas; None for 1, or those of the EnvWrapper.
        options: Further arguments of :func:`warpdrive.to_gymnasium`: ``tag``, ``agent``, ``others``, ``render_mode``,
            and of :class:`warpdrive.EnvWrapper`.

    Returns:
        The environment, with NumPy outputs.

    Raises:
        DefinitionError: If the environment or an argument is invalid.
        WarpDriveError: If Stable-Baselines3 is not installed.
    """
    with _imports("stable-baselines3"):
        from warpdrive.interop.stable_baselines3 import StableBaselines3VecEnv
    return StableBaselines3VecEnv(to_gymnasium(env, num_envs, output="numpy", **options))


def to_rsl_rl(env: EnvWrapper | Environment | str, num_envs: int | None = None, **options: Any) -> RslRlVecEnv:
    """Return a ``VecEnv`` of rsl_rl.

    Args:
        env: An EnvWrapper, an environment, or a registered name.
        num_envs: The number of replicas; None for 1, or those of the EnvWrapper.
        options: Further arguments of :func:`warpdrive.to_gymnasium`: ``tag``, ``agent``, ``others``, ``render_mode``,
            and of :class:`warpdrive.EnvWrapper`.

    Returns:
        The environment, with tensors on the device. A Discrete action is the argmax over one output per choice.

    Raises:
        DefinitionError: If the environment or an argument is invalid.
        WarpDriveError: If rsl_rl is not installed.
    """
    with _imports("rsl-rl"):
        from warpdrive.interop.rsl_rl import RslRlVecEnv
    return RslRlVecEnv(to_gymnasium(env, num_envs, output="torch", **options))


def to_skrl(env: EnvWrapper | Environment | str, num_envs: int | None = None, **options: Any) -> SkrlEnv:
    """Return an environment of skrl.

    Args:
        env: An EnvWrapper, an environment, or a registered name.
        num_envs: The number of replicas; None for 1, or those of the EnvWrapper.
        options: Further arguments of :func:`warpdrive.to_gymnasium`: ``tag``, ``agent``, ``others``, ``render_mode``,
            and of :class:`warpdrive.EnvWrapper`.

    Returns:
        The environment, with tensors on the device.

    Raises:
        DefinitionError: If the environment or an argument is invalid.
        WarpDriveError: If skrl is not installed.
    """
    with _imports("skrl"):
        from warpdrive.interop.skrl import SkrlEnv
    return SkrlEnv(to_gymnasium(env, num_envs, output="torch", **options))


def to_torchrl(
    env: EnvWrapper | Environment | str,
    num_envs: int | None = None,
    *,
    group_map: MarlGroupMapType | Mapping[str, list[str]] | None = None,
    categorical_actions: bool = True,
    flatten_actions: bool = False,
    from_pixels: bool = False,
    **options: Any,
) -> TorchRLEnv:
    """Return a ``torchrl.envs.EnvBase`` of batch size ``[num_envs]``.

    ```python
    rollout = wd.to_torchrl("simple_spread", num_envs=64).rollout(max_steps=100)
    ```

    Args:
        env: An EnvWrapper, an environment, or a registered name.
        num_envs: The number of replicas; None for 1, or those of the EnvWrapper.
        group_map: The groups of agents: a ``MarlGroupMapType``, or lists of agents by group. If None, there is a group
            per policy tag, and a single agent's entries are at the root. Agents are called ``<tag>_<index>``.
        categorical_actions: If False, discrete actions are one-hot.
        flatten_actions: If True, a MultiDiscrete action is one choice among all combinations of its components.
        from_pixels: If True, there is an entry ``pixels``, ``[num_envs, height, width, 3]`` uint8.
        options: Further arguments of :class:`warpdrive.EnvWrapper`: ``env_backend``, ``seed``, ``env_config``, ...

    Returns:
        The environment, with tensors on the device of the replicas.

    Raises:
        DefinitionError: If the environment or an argument is invalid.
        WarpDriveError: If TorchRL is not installed.
    """
    with _imports("torchrl"):
        from warpdrive.interop.torchrl import TorchRLEnv
    replicas = replicas_of(env, num_envs, options)
    first_seed = None if isinstance(env, EnvWrapper) else options.get("seed", secrets.randbits(64))
    return TorchRLEnv(replicas, group_map, categorical_actions, flatten_actions, from_pixels, first_seed)


@contextmanager
def _imports(extra: str) -> Iterator[None]:
    """Turn the ImportError of a missing library into a WarpDriveError that names the extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "warpdrive":
            raise
        raise WarpDriveError(f"{package} is not installed: pip install 'warpdrive[{extra}]'") from None
