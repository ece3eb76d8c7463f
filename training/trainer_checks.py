"""Consistency checks of a trainer's arguments: configuration, replicas, devices, policy tags."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from warpdrive.env_wrapper import EnvWrapper
from warpdrive.environment import Environment
from warpdrive.errors import ConfigError, shown
from warpdrive.training.algorithms.custom import CustomConfig
from warpdrive.training.algorithms.reinforce import ReinforceConfig
from warpdrive.training.config.load import RunConfig, load_config, plain
from warpdrive.training.distributed.process_group import ProcessGroup, Share
from warpdrive.training.run.callbacks import Callback


def fitted(config: RunConfig | Mapping[str, Any] | None, env: EnvWrapper, share: Share) -> RunConfig:
    """Complete ``config`` from ``env`` and validate it against it.

    Args:
        config: Run configuration or dictionary.
        env: Replicas of this process.
        share: Range of these replicas among all.

    Returns:
        The validated configuration.

    Raises:
        ConfigError: If the configuration is invalid, or does not fit the environment.
    """
    if not isinstance(config, (RunConfig, Mapping)):
        raise ConfigError(
            f"Trainer: found the configuration {shown(config)}, expected a dictionary or the result of load_config"
        )
    raw = config.model_dump() if isinstance(config, RunConfig) else plain(config)
    raw.setdefault("env", None)
    raw.setdefault("name", env.env.name)
    if isinstance(raw.get("trainer"), dict):
        raw["trainer"].setdefault("num_envs", share.total)
    fitted = load_config(raw, environment=env.env)
    if fitted.trainer.num_envs != share.total:
        raise ConfigError(
            f"run configuration: trainer.num_envs: found {fitted.trainer.num_envs}, "
            f"expected {share.total}, the replicas of the environment given"
            + (f" in all processes together ({share})" if share.total > share.count else "")
        )
    return fitted


def has_dedicated_learner(config: RunConfig | Mapping[str, Any] | None) -> bool:
    """Return True if ``config``, which may be invalid, requests a dedicated learner."""
    if isinstance(config, RunConfig):
        return config.trainer.dedicated_learner
    trainer = config.get("trainer") if isinstance(config, Mapping) else None
    return isinstance(trainer, Mapping) and trainer.get("dedicated_learner") is True


def environment_of(env: object) -> Environment | None:
    """Return the environment of its replicas; None for None.

    Raises:
        ConfigError: If ``env`` is not an EnvWrapper.
    """
    return None if env is None else _replicas(env).env


def checked_environment(env: object) -> EnvWrapper:
    """Return ``env`` if it can be trained in.

    Raises:
        ConfigError: If it is not an EnvWrapper, or does not reset automatically.
    """
    replicas = _replicas(env)
    if not replicas.auto_reset:
        raise ConfigError("Trainer: the environment has auto_reset=False, expected True: episodes follow one another")
    return replicas


def _replicas(env: object) -> EnvWrapper:
    if not isinstance(env, EnvWrapper):
        raise ConfigError(f"Trainer: found {shown(env)}, expected the replicas of an environment (an EnvWrapper)")
    return env


def check_devices(env: EnvWrapper, process_group: ProcessGroup, device_id: int | None, num_devices: int | None) -> None:
    """Check the number of processes and the device of the environment against the user's arguments.

    Args:
        env: Replicas of this process.
        process_group: Process group.
        device_id: Index of the GPU, or None.
        num_devices: Number of processes, or None.

    Raises:
        ConfigError: If they differ.
    """
    if num_devices is not None and num_devices != process_group.world_size:
        raise ConfigError(
            f"Trainer: found num_devices = {num_devices}, but there {_are(process_group.world_size)} in this job: "
            "processes are started by `warpdrive train -n N`, torchrun, or warpdrive.training.distributed.launch"
        )
    if env.device.type == "cuda" and device_id is not None and device_id != (env.device.index or 0):
        raise ConfigError(f"Trainer: found device_id = {device_id}, but the environment is on {env.device}")


def check_callbacks(on_update: object, callbacks: object) -> None:
    """Raise ``ConfigError``, before a run begins, if callbacks cannot be called."""
    if on_update is not None and not callable(on_update):
        raise ConfigError(f"train: found on_update = {shown(on_update)}, expected a function of a report")
    if not isinstance(callbacks, Collection):
        raise ConfigError(f"train: found callbacks = {shown(callbacks)}, expected a list of wd.Callback objects")
    for callback in callbacks:
        if not isinstance(callback, Callback):
            hint = ", or on_update=... for a function of a report" if callable(callback) else ""
            raise ConfigError(f"train: found {shown(callback)} in callbacks, expected a wd.Callback object{hint}")


def check_populations(config: RunConfig, process_group: ProcessGroup) -> None:
    """Raise ``ConfigError`` if the replicas of a population's members would be distributed over processes."""
    for tag, settings in config.policy.items():
        if isinstance(settings, CustomConfig) and settings.population is not None and process_group.world_size > 1:
            raise ConfigError(
                f"policy.{tag}.population: found {settings.population}, but there {_are(process_group.world_size)}, "
                "and a population trains in one"
            )


def warn_of_long_episodes(config: RunConfig, env: EnvWrapper) -> None:
    """Warn if no whole episode may fit into a rollout of REINFORCE."""
    steps, longest = config.trainer.rollout_length, int(env.env.episode_length)
    for tag, settings in config.policy.items():
        if isinstance(settings, ReinforceConfig) and settings.to_train and steps < longest:
            warnings.warn(
                f"policy.{tag}: reinforce learns only from steps whose episode ends within the rollout; a rollout "
                f"has {steps} steps, but episodes have up to {longest}. With trainer.train_batch_size: "
                f"{config.trainer.num_envs * longest} or more, every episode ends within a rollout",
                RuntimeWarning,
                stacklevel=3,
            )


def _are(processes: int) -> str:
    return "is 1 process" if processes == 1 else f"are {processes} processes"


def check_tags(env: EnvWrapper, given: Mapping[str, Sequence[int]] | None) -> None:
    """Raise ``ConfigError`` if policy tags are given that differ from the environment's."""
    if given is None:
        return
    if not isinstance(given, Mapping):
        raise ConfigError(f"Trainer: found policy_tag_to_agent_id_map = {shown(given)}, expected a dict")
    try:
        found = {tag: sorted(ids) for tag, ids in given.items()}
    except TypeError:
        raise ConfigError(
            f"Trainer: found policy_tag_to_agent_id_map = {shown(given)}, expected lists of agent ids by policy tag"
        ) from None
    if found != {tag: sorted(ids) for tag, ids in env.policy_tags.items()}:
        raise ConfigError(
            f"Trainer: found policy_tag_to_agent_id_map = {found}, but the environment's policy_tags are "
            f"{dict(env.policy_tags)}; change policy_tags in the environment"
        )
