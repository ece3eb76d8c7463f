"""Environments of WarpDrive 2: all replicas are stepped by their Numba kernel, on the CPU or on a GPU."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from warpdrive.errors import DefinitionError, shown
from warpdrive.importing import load_attribute
from warpdrive.interop.host.source import NEXT, Array, HostReplicas, HostSource
from warpdrive.interop.host.space_conversion import ACTION_MASK, ActionConversion, ObservationConversion
from warpdrive.interop.warpdrive2.installation import install
from warpdrive.user_code import user_code

_UNBOUNDED = 1e19


class WarpDrive2Source(HostSource):
    """An environment class of WarpDrive 2.

    Args:
        make: ``"package.module:Class"``, the class, or an environment, which is copied.
        kernels: The module of its Numba kernels; None if its registrar or the library has it.
        policy_tags: Ids of agents by policy tag, or the name of the environment's attribute that holds them; None for
            one tag, ``"shared"``.
        create_separate_placeholders_for_each_policy: True if the kernel has arrays for each policy tag.
        obs_dim_corresponding_to_num_agents: Position of the agents in the observations: ``"first"`` or ``"last"``.
        kwargs: The arguments of the class.

    Raises:
        DefinitionError: If there is no such environment, or it cannot be used.
    """

    def __init__(
        self,
        make: str | Callable[..., Any] | Any,
        kernels: str | None,
        policy_tags: Mapping[str, Sequence[int] | str] | None,
        create_separate_placeholders_for_each_policy: bool,
        obs_dim_corresponding_to_num_agents: str,
        kwargs: Mapping[str, Any],
    ) -> None:
        install()
        self.title = f"WarpDrive 2 environment {shown(make) if isinstance(make, str) else getattr(make, 'name', make)}"
        self.given, self.kernels, self.kwargs = make, kernels, dict(kwargs)
        self.separate = create_separate_placeholders_for_each_policy
        self.position = obs_dim_corresponding_to_num_agents
        env = self.wrapper(1, "cpu").env
        self.name, self.episode_length = str(env.name), int(env.episode_length)
        self.agents = [str(agent) for agent in range(env.num_agents)]
        given = {"shared": range(env.num_agents)} if policy_tags is None else policy_tags
        self.policy_tags = {tag: self._ids(env, ids) for tag, ids in given.items()}
        of_tag = {tag: ids[0] for tag, ids in self.policy_tags.items()}
        self.observations = {
            tag: ObservationConversion(_unbounded(env.observation_space[agent]), self.title)
            for tag, agent in of_tag.items()
        }
        self.actions = {tag: ActionConversion(env.action_space[agent], self.title) for tag, agent in of_tag.items()}
        self.has_action_mask = any(conversion.has_action_mask for conversion in self.observations.values())

    def _ids(self, env: Any, given: Sequence[int] | str) -> list[int]:
        if isinstance(given, str):
            if not hasattr(env, given):
                raise DefinitionError(
                    f"{self.title}: policy_tags names the attribute '{given}', which it does not have"
                )
            given = list(getattr(env, given))
        ids = [int(agent) for agent in given]
        if not ids or not all(0 <= agent < env.num_agents for agent in ids):
            raise DefinitionError(f"{self.title}: policy_tags has agents {ids}, expected some of {env.num_agents}")
        return ids

    def wrapper(self, num_envs: int, env_backend: str = "numba") -> Any:
        """Return replicas with the interface of WarpDrive 2."""
        from warpdrive.interop.warpdrive2.env_wrapper import EnvWrapper
        from warpdrive.interop.warpdrive2.environments import EnvironmentRegistrar

        make = load_attribute(self.given, self.title) if isinstance(self.given, str) else self.given
        registrar = EnvironmentRegistrar()
        with user_code(self.title):
            env: Any = make(**self.kwargs) if isinstance(make, type) else copy.deepcopy(make)
            if self.kernels is not None:
                registrar.add_cuda_env_src_path(env.name, self.kernels, env_backend="numba")
            return EnvWrapper(env_obj=env, num_envs=num_envs, env_backend=env_backend, env_registrar=registrar)

    def open(self, arrays: Mapping[str, Array], num_envs: int) -> HostReplicas:
        """See ``HostSource``."""
        return WarpDrive2Replicas(self, arrays, num_envs)


class WarpDrive2Replicas(HostReplicas):
    """Replicas of an environment of WarpDrive 2, stepped together.

    An episode that ends with its last step is truncated, unless its flag is 2; another one has terminated.

    Args:
        source: The description of the environment.
        arrays: The arrays, see :class:`HostReplicas`.
        num_envs: The number of replicas.
    """

    def __init__(self, source: WarpDrive2Source, arrays: Mapping[str, Array], num_envs: int) -> None:
        from warpdrive.interop.warpdrive2.placeholders import create_and_push_data_placeholders

        self.source, self.arrays, self.num_envs = source, arrays, num_envs
        self.wrapper = source.wrapper(num_envs)
        with user_code(f"{source.title}: reset"):
            self.wrapper.reset_all_envs()
            create_and_push_data_placeholders(
                self.wrapper, None, source.policy_tags, source.separate, source.position, None, False
            )
        self.data = self.wrapper.cuda_data_manager
        self.wrapper.init_reset_pool(0)

    def reset(self, seeds: Sequence[int] | None = None, where: Array | None = None) -> None:
        """See ``HostReplicas``. The first seed is that of all draws from reset pools."""
        if seeds is not None:
            self.wrapper.init_reset_pool(int(seeds[0]))
        if where is None:
            self.wrapper.reset_all_envs()
        else:
            self.data.tensor("_done_").copy_(torch.from_numpy(where))
            self.wrapper.reset_only_done_envs()
        self._read_observations(NEXT)

    def step(self) -> Iterator[slice]:
        """See ``HostReplicas``."""
        for tag in self.source.policy_tags:
            acted, (suffix, rows) = self.source.acted(tag, self.arrays), self._place(tag)
            chosen = torch.from_numpy(acted)[:, self.source.rows(tag)[1]]
            target = self.data.tensor(f"sampled_actions{suffix}")
            target[:, rows] = chosen.reshape(self.num_envs, len(rows), -1).to(target)
        with user_code(f"{self.source.title}: step"):
            self.wrapper.step_all_envs()
        done, timestep = (self.data.pull_data_from_device(name) for name in ("_done_", "_timestep_"))
        self.arrays["truncated"][:] = (done == 1) & (timestep >= self.wrapper.episode_length)
        self.arrays["terminated"][:] = (done > 0) & ~self.arrays["truncated"]
        for tag, ids in self.source.policy_tags.items():
            suffix, rows = self._place(tag)
            self.arrays["rewards"][:, ids] = self.data.pull_data_from_device(f"rewards{suffix}")[:, rows]
        self._read_observations("")
        if done.any():
            self.wrapper.reset_only_done_envs()
            self._read_observations(NEXT)
        yield slice(0, self.num_envs)

    def close(self) -> None:
        """See ``HostReplicas``."""

    def _place(self, tag: str) -> tuple[str, Sequence[int]]:
        """Return the suffix of the names of a tag's arrays, and the rows of its agents in them."""
        ids = self.source.policy_tags[tag]
        return (f"_{tag}", range(len(ids))) if self.source.separate else ("", ids)

    def _read_observations(self, prefix: str) -> None:
        for tag, ids in self.source.policy_tags.items():
            suffix, rows = self._place(tag)
            conversion = self.source.observations[tag]
            keys = self.wrapper.env.observation_space[ids[0]]
            parts = list(keys.spaces) if isinstance(keys, spaces.Dict) else [None]
            seen = {key: self._observed(suffix, key)[:, rows] for key in parts}
            value = seen[None] if parts == [None] else seen
            targets, own = self.source.observed(tag, self.arrays, prefix), self.source.rows(tag)[0]
            conversion.write(value, targets, (slice(None), list(own)))
            if self.source.has_action_mask:
                mask = seen.get(ACTION_MASK)
                target = self.arrays[prefix + ACTION_MASK]
                target[:, ids] = True
                if mask is not None:
                    target[:, ids, : mask.shape[-1]] = mask != 0

    def _observed(self, suffix: str, key: str | None) -> Array:
        """Return an array of observations, ``[num_envs, agents, *shape]``."""
        found: Array = self.data.pull_data_from_device(f"observations{suffix}" + ("" if key is None else f"_{key}"))
        return np.moveaxis(found, -1, 1) if self.source.position == "last" and found.ndim > 2 else found


def _unbounded(space: Any) -> Any:
    """Return a space without the bounds that represent unbounded spaces."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict({key: _unbounded(part) for key, part in space.spaces.items()})
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating) and space.high.max() > _UNBOUNDED:
        return spaces.Box(-np.inf, np.inf, space.shape, np.float32)
    return space
