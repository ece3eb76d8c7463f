"""Environments as tasks of BenchMARL."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from gymnasium import spaces

try:
    from benchmarl.environments import Task, TaskClass
    from benchmarl.utils import _read_yaml_config
    from torchrl.data import Composite
    from torchrl.envs import EnvBase
    from torchrl.envs.utils import MarlGroupMapType
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"{error}: pip install 'warpdrive[benchmarl]'", name=error.name) from None

from warpdrive import registry
from warpdrive.environment import Environment, spaces_by_tag
from warpdrive.interop.conversions import to_torchrl


class WarpDriveClass(TaskClass):
    """Task of an environment: ``WarpDriveClass("simple_spread", {"num_agents": 5})``.

    Groups are policy tags; a single agent is the group ``agents``.

    Args:
        name: The name in the registry, in any case.
        config: The constructor parameters of the environment.
    """

    @cached_property
    def _environment(self) -> Environment:
        return registry.make(_registered(self.name), **self.config)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state that experiments save."""
        return {"name": self.name, "config": self.config}

    def get_env_fun(
        self, num_envs: int, continuous_actions: bool, seed: int | None, device: torch.device | str | int
    ) -> Callable[[], EnvBase]:
        """Return a function that creates the replicas.

        Args:
            num_envs: The number of replicas.
            continuous_actions: Ignored: environments have either kind of actions.
            seed: The seed of the replicas.
            device: The device: the CPU, or the GPU of the best backend.

        Returns:
            The function.
        """
        options: dict[str, Any] = {"env_backend": "cpu" if torch.device(device).type == "cpu" else "auto"}
        options["flatten_actions"] = True
        if self._environment.num_agents == 1:
            options["group_map"] = MarlGroupMapType.ALL_IN_ONE_GROUP
        if seed is not None:
            options["seed"] = seed
        name, config = _registered(self.name), dict(self.config)
        return lambda: to_torchrl(name, num_envs, env_config=config, **options)

    def supports_continuous_actions(self) -> bool:
        """Return True if the actions of all agents are continuous."""
        return self._acts(spaces.Box)

    def supports_discrete_actions(self) -> bool:
        """Return True if the actions of all agents are discrete; combinations of several choices are one."""
        return self._acts((spaces.Discrete, spaces.MultiDiscrete))

    def _acts(self, kind: Any) -> bool:
        found = spaces_by_tag(self._environment, self._environment.action_space).values()
        return all(isinstance(space, kind) for space in found)

    def max_steps(self, env: EnvBase) -> int:
        """Return the number of steps of an episode."""
        return int(self._environment.episode_length)

    def has_render(self, env: EnvBase) -> bool:
        """Return True if the environment can be drawn."""
        return bool(self._environment.can_render)

    def group_map(self, env: EnvBase) -> dict[str, list[str]]:
        """Return the names of the agents by group."""
        groups: dict[str, list[str]] = env.group_map
        return groups

    def observation_spec(self, env: EnvBase) -> Composite:
        """Return the spec of ``observation`` by group."""
        return self._spec(env, "observation")

    def action_spec(self, env: EnvBase) -> Composite:
        """Return the spec of ``action`` by group."""
        return env.full_action_spec_unbatched

    def action_mask_spec(self, env: EnvBase) -> Composite | None:
        """Return the spec of ``action_mask`` by group, or None if the environment has no masks."""
        return self._spec(env, "action_mask")

    def state_spec(self, env: EnvBase) -> Composite | None:
        """Return the spec of ``state``, or None if the environment has no global state."""
        found = env.full_observation_spec_unbatched
        return Composite(state=found["state"].clone()) if "state" in found.keys() else None  # noqa: SIM118

    def info_spec(self, env: EnvBase) -> None:
        """Return None: there are no infos."""

    @staticmethod
    def env_name() -> str:
        """Return the name of the library."""
        return "warpdrive"

    def _spec(self, env: EnvBase, key: str) -> Composite | None:
        """Return the spec of one entry of all groups that have it."""
        found = env.full_observation_spec_unbatched
        groups = {group: found[group] for group in env.group_map}
        parts = {
            group: Composite({key: spec[key].clone()}, shape=spec.shape)
            for group, spec in groups.items()
            if key in spec.keys()  # noqa: SIM118
        }
        return Composite(parts) if parts else None


class _Tasks(Task):
    """Base of the enumeration, whose tasks need no configuration files."""

    @staticmethod
    def associated_class() -> type[TaskClass]:
        return WarpDriveClass

    def get_from_yaml(self, path: str | None = None) -> TaskClass:
        """Return the task with the parameters in a YAML file, or with the environment's defaults."""
        return self.get_task({} if path is None else _read_yaml_config(path))


WarpDriveTask = _Tasks("WarpDriveTask", {name.upper(): None for name in registry.registered_names()}, module=__name__)
"""Enumeration of the environments that were registered when this module was imported."""


def _registered(name: str) -> str:
    """Return the name in the registry of a task."""
    return next((known for known in registry.registered_names() if known.upper() == name.upper()), name)
