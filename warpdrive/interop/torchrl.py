"""Replicas as a batched environment of TorchRL, with tensors on the device."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase
from torchrl.data import (
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    OneHot,
    StackedComposite,
    TensorSpec,
    Unbounded,
)
from torchrl.envs import EnvBase
from torchrl.envs.utils import MarlGroupMapType, check_marl_grouping

from warpdrive.env_wrapper import EnvWrapper, _index
from warpdrive.errors import DefinitionError, shown
from warpdrive.figures import Frame
from warpdrive.interop.tensordicts import new_tensordict
from warpdrive.rollout import of_agents
from warpdrive.scene.artist import Artist
from warpdrive.spaces import SpaceArray, nested

_DONE_KEYS = ("done", "terminated", "truncated")
_LARGEST_BOUNDED = 1 << 24
"""Elements of the largest observation spec that has bounds, of which TorchRL stores a copy per replica."""


class TorchRLEnv(EnvBase):
    """All replicas as one ``EnvBase`` of batch size ``[num_envs]``; see :func:`warpdrive.to_torchrl`.

    Attributes:
        replicas: The EnvWrapper.
        group_map: The names of the agents, ``<tag>_<index>``, by group; empty if the entries of the only agent are at
            the root.
    """

    def __init__(
        self,
        replicas: EnvWrapper,
        group_map: MarlGroupMapType | Mapping[str, list[str]] | None = None,
        categorical_actions: bool = True,
        flatten_actions: bool = False,
        from_pixels: bool = False,
        first_seed: int | None = None,
    ) -> None:
        super().__init__(
            device=replicas.device, batch_size=[replicas.num_envs], allow_done_after_reset="active" in replicas.ctx
        )
        self.replicas, self.is_closed, self._next_seed, self._pixels = replicas, False, first_seed, from_pixels
        ids = {f"{tag}_{index}": agent for tag, own in replicas.policy_tags.items() for index, agent in enumerate(own)}
        self.group_map = _checked_groups(group_map, replicas, sorted(ids, key=ids.__getitem__))
        self._groups: dict[str, list[_Agents]] = {}
        encoding = (categorical_actions, flatten_actions)
        for group, names in self.group_map.items():
            members = [ids[name] for name in names]
            share = _share_arrays(replicas, members)
            batches = [members] if share else [[agent] for agent in members]
            self._groups[group] = [_Agents(replicas, batch, share, *encoding) for batch in batches]
            if len({agents.kinds for agents in self._groups[group]}) > 1:
                raise DefinitionError(f"group_map: '{group}' has agents whose spaces cannot be stacked: separate them")
        self._flags = [replicas.ctx[name].unsqueeze(-1) for name in ("terminated", "truncated")]
        self._only = None if self.group_map else _Agents(replicas, [0], False, *encoding)
        self._make_specs()

    def render(self, env_index: int = 0, mode: str = "rgb_array") -> Frame:
        """Return the image of a replica, ``[height, width, 3]`` uint8.

        Args:
            env_index: The index of the replica.
            mode: ``"rgb_array"``, the only one.

        Returns:
            The image.

        Raises:
            DefinitionError: If the replica or the mode does not exist.
        """
        if mode != "rgb_array":
            raise DefinitionError(f"mode is {shown(mode)}: expected 'rgb_array'")
        return Artist(self.replicas.env).picture(self.replicas.state(env_index))

    def to(self, device: torch.device | str | int) -> TorchRLEnv:
        """Return this environment. Raises :class:`DefinitionError` if the device is not that of the replicas."""
        wanted = torch.device(device)
        if wanted.type != self.device.type or wanted.index not in (None, self.device.index):
            raise DefinitionError(
                f"the replicas are on {self.device}, not on {wanted}: choose env_backend=..., or append a "
                "DeviceCastTransform"
            )
        return self

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Free the device's memory."""
        super().close(raise_if_closed=raise_if_closed)
        self.replicas.close()

    def __repr__(self) -> str:
        env, agents = self.replicas, {group: len(names) for group, names in self.group_map.items()} or 1
        return f"TorchRLEnv({env.env_name}, num_envs={env.num_envs}, agents={agents}, device={env.device})"

    def __del__(self) -> None:
        """Keep the replicas, which may be in use elsewhere."""

    def _set_seed(self, seed: int | None) -> None:
        self._next_seed = seed

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDict:
        where = None if tensordict is None else tensordict.get("_reset", None)
        seed, self._next_seed = kwargs.get("seed", self._next_seed), None
        self.replicas.reset(seed, None if where is None else where.view(-1))
        return self._read(rewards=False)

    def _step(self, tensordict: TensorDictBase) -> TensorDict:
        replicas, actions = self.replicas, self._actions(tensordict)
        selected = tensordict.get("_step", None)
        if selected is None:
            replicas._step_running(actions, auto_reset=False)
        else:  # the running step passes over replicas whose flags are set
            for group in self._groups:  # TorchRL's rollouts with break_when_all_done leave this over
                tensordict.get(group).pop("_neg_step", None)
            others = ~selected.view_as(self._flags[0])
            before = [flag.clone() for flag in self._flags]
            self._flags[0].logical_or_(others)
            replicas._step_running(actions, auto_reset=False)
            for flag, former in zip(self._flags, before, strict=True):
                torch.where(others, former, flag, out=flag)
        return self._read(rewards=True)

    def _actions(self, tensordict: TensorDictBase) -> Any:
        """Return the actions of all agents for the EnvWrapper."""
        replicas = self.replicas
        given: dict[str, torch.Tensor] = {}
        for agents, entries in self._parts(tensordict):
            array, actions = agents.action_array, agents.actions(entries)
            if agents.are_all:
                given[array.name] = actions
                continue
            if array.name not in given:
                given[array.name] = torch.empty(
                    (replicas.num_envs, *array.shape),
                    dtype=torch.int32 if array.choices else torch.float32,
                    device=replicas.device,
                )
            given[array.name][:, agents.places] = actions.to(given[array.name].dtype)
        return nested(replicas._action_arrays, lambda array: given[array.name])

    def _parts(self, tensordict: TensorDictBase) -> list[tuple[_Agents, TensorDictBase]]:
        """Return the agents with their entries of a TensorDict."""
        parts = [(self._only, tensordict)] if self._only else []
        for group, members in self._groups.items():
            entries = tensordict.get(group)
            parts += zip(members, [entries] if members[0].axis else entries.unbind(1), strict=True)
        return parts

    def _read(self, rewards: bool) -> TensorDict:
        """Return the current observations and flags, and optionally the rewards of the last step."""
        terminated, truncated = self._flags
        dones = [terminated | truncated, terminated.clone(), truncated.clone()]
        entries: dict[str, Any] = dict(zip(_DONE_KEYS, dones, strict=True))
        if self._only:
            entries.update(self._only.entries(rewards))
        for group, members in self._groups.items():
            parts = [agents.read(dones, rewards) for agents in members]
            entries[group] = parts[0] if members[0].axis else LazyStackedTensorDict.lazy_stack(parts, 1)
        if self.replicas.env.global_state:
            entries["state"] = self._state()
        if self._pixels:
            entries["pixels"] = self._frames()
        return new_tensordict(entries, batch_size=self.batch_size, device=self.device)

    def _state(self) -> torch.Tensor:
        """Return the global state of each replica as a vector, ``[num_envs, n]`` float32."""
        arrays = [self.replicas.ctx[name] for name in self.replicas.env.global_state]
        return torch.cat([array.reshape(len(array), -1).float() for array in arrays], dim=-1)

    def _frames(self) -> torch.Tensor:
        """Return the images of all replicas, ``[num_envs, height, width, 3]`` uint8."""
        frames = [self.render(index) for index in range(self.replicas.num_envs)]
        return torch.from_numpy(np.stack(frames)).to(self.device)

    def _make_specs(self) -> None:
        specs = [Composite(shape=self.batch_size, device=self.device) for _ in range(3)]
        dones = _done_spec(self.batch_size, self.device)
        if self._only:
            for spec, own in zip(specs, self._only.specs(), strict=True):
                spec.update(own)
        for group, members in self._groups.items():
            stacked = not members[0].axis
            parts = zip(*(agents.specs(bounded=not stacked) for agents in members), strict=True)
            for spec, part in zip(specs, parts, strict=True):
                spec[group] = StackedComposite(*part, dim=1) if stacked else part[0]
            if "active" in self.replicas.ctx:
                dones[group] = _done_spec(torch.Size([*self.batch_size, len(self.group_map[group])]), self.device)
        if self.replicas.env.global_state:
            specs[0]["state"] = Unbounded(self._state().shape, device=self.device)
        if self._pixels:
            specs[0]["pixels"] = Bounded(0, 255, self._frames().shape, dtype=torch.uint8, device=self.device)
        self.observation_spec, self.action_spec, self.reward_spec = specs
        self.done_spec = dones


class _Agents:
    """Agents that share arrays, and thus spaces, as entries of TensorDicts.

    Args:
        env: The replicas.
        ids: The ids of the agents.
        axis: If False, there is a single agent, and entries have no axis of agents.
        categorical: If False, discrete actions are one-hot.
        flatten: If True, the choices of MultiDiscrete actions are all combinations of those of the components.

    Attributes:
        batch_size: ``[num_envs, agents]`` or ``[num_envs]``.
        action_array: The array of the actions.
        places: The index of the agents in this array.
        are_all: True if the array has no other agents, in the same order.
    """

    def __init__(self, env: EnvWrapper, ids: list[int], axis: bool, categorical: bool, flatten: bool) -> None:
        self._env, self._ids, self.axis, self._categorical = env, ids, axis, categorical
        self.batch_size = torch.Size([env.num_envs, len(ids)] if axis else [env.num_envs])
        self.action_array = next(array for array in env._action_arrays if ids[0] in array.agents)
        self.are_all = list(self.action_array.agents) == ids
        self.places = _index([self.action_array.agents.index(agent) for agent in ids], env.device)
        self._choices = self.action_array.choices
        self._flat = flatten and isinstance(self.action_array.space, spaces.MultiDiscrete)
        if self._flat:
            self._choices = (math.prod(self._choices),)
        self._is_single = self._flat or isinstance(self.action_array.space, spaces.Discrete)
        seen = [array for array in env._observation_arrays if ids[0] in array.agents]
        skipped = 1 if isinstance(env.env.observation_space, dict) else 0
        self._observations = {
            array.path[skipped:]: (array, self._reader(env.ctx[array.name], array.agents)) for array in seen
        }
        everybody = range(env.num_agents)
        self._rewards = self._reader(env.ctx["rewards"].unsqueeze(-1), everybody)
        self._active = self._reader(env.ctx["active"], everybody) if "active" in env.ctx else None
        self._masks, self._mask = None, None
        if "action_mask" in env.ctx and self._choices:
            self._masks = self._reader(env.ctx["action_mask"][..., : self.action_array.num_logits], everybody)
            self._mask = self._allowed()

    @property
    def kinds(self) -> frozenset[Any]:
        """Description of the spaces, equal for agents whose entries can be stacked."""
        arrays = [(path, array) for path, (array, _) in self._observations.items()] + [("action", self.action_array)]
        return frozenset((path, type(array.space), len(array.shape), array.dtype) for path, array in arrays)

    def specs(self, bounded: bool = True) -> tuple[Composite, Composite, Composite]:
        """Return the specs of observations, with or without bounds, of actions and of rewards."""
        batch, device = self.batch_size, self._env.device
        observed = {
            path: _observation_spec(array, batch, device, bounded) for path, (array, _) in self._observations.items()
        }
        entries: dict[str, Any] = {"observation": observed.get(())}
        if () not in observed:
            entries["observation"] = Composite({path[0]: spec for path, spec in observed.items()}, shape=batch)
        if self._mask is not None:
            entries["action_mask"] = Categorical(2, shape=self._mask.shape, dtype=torch.bool, device=device)
        if self._active:
            entries["mask"] = Categorical(2, shape=batch, dtype=torch.bool, device=device)
        rewards = {"reward": Unbounded((*batch, 1), device=device)}
        return tuple(
            Composite(part, shape=batch, device=device) for part in (entries, {"action": self._action_spec()}, rewards)
        )

    def _action_spec(self) -> TensorSpec:
        """Return the spec of actions, whose mask is refreshed at every step: random actions are allowed ones."""
        space, batch, device = self.action_array.space, self.batch_size, self._env.device
        if isinstance(space, spaces.Box):
            shape = torch.Size([*batch, *space.shape])
            if not space.is_bounded("both"):
                return Unbounded(shape, device=device)  # actions are clipped
            bounds = (torch.as_tensor(np.array(end), device=device).expand(shape) for end in (space.low, space.high))
            return Bounded(*bounds, shape, device=device)
        given = {"dtype": torch.int64, "device": device, "mask": self._mask}
        if self._is_single:
            kind, axes = (Categorical, ()) if self._categorical else (OneHot, self._choices)
            return kind(self._choices[0], torch.Size([*batch, *axes]), **given)
        if self._categorical:
            return MultiCategorical(self._choices, torch.Size([*batch, len(self._choices)]), **given)
        return MultiOneHot(self._choices, torch.Size([*batch, sum(self._choices)]), **given)

    def actions(self, entries: TensorDictBase) -> torch.Tensor:
        """Return the actions ``[num_envs, agents, ...]``."""
        given: torch.Tensor = entries["action"]
        if self._choices and not self._categorical:
            parts = [part.argmax(dim=-1) for part in given.split(self._choices, dim=-1)]
            given = parts[0] if self._is_single else torch.stack(parts, dim=-1)
        if self._flat:
            given = self._combination(given)
        return given if self.axis else given.unsqueeze(1)

    def _combination(self, flat: torch.Tensor) -> torch.Tensor:
        """Return the components of flat choices; ``torch.unravel_index`` would synchronise with the device."""
        components = []
        for count in reversed(self.action_array.choices):
            components.append(flat % count)
            flat = flat // count
        return torch.stack(components[::-1], dim=-1)

    def entries(self, rewards: bool) -> dict[str, Any]:
        """Return new tensors of the observations, masks and, optionally, rewards."""
        seen = {path: read() for path, (_, read) in self._observations.items()}
        entries: dict[str, Any] = {"observation": seen.get(())}
        if () not in seen:
            parts = {path[0]: part for path, part in seen.items()}
            entries["observation"] = new_tensordict(parts, batch_size=self.batch_size, device=self._env.device)
        if self._mask is not None:
            entries["action_mask"] = self._mask.copy_(self._allowed()).clone()
        if self._active:
            entries["mask"] = self._active()
        if rewards:
            entries["reward"] = self._rewards()
        return entries

    def read(self, dones: list[torch.Tensor], rewards: bool) -> TensorDict:
        """Return the entries of a group; if agents can leave, with flags: those that left have terminated."""
        entries = self.entries(rewards)
        if self._active:
            flags = [flag.unsqueeze(1).expand(*self.batch_size, 1) for flag in dones] if self.axis else dones
            gone = ~entries["mask"].unsqueeze(-1)
            entries.update(zip(_DONE_KEYS, [flags[0] | gone, flags[1] | gone, flags[2]], strict=True))
        return new_tensordict(entries, batch_size=self.batch_size, device=self._env.device)

    def _allowed(self) -> torch.Tensor:
        """Return the action mask, with all choices of components for which the environment allows none."""
        assert self._masks is not None
        parts = self._masks().split(self.action_array.choices, dim=-1)
        parts = [part | ~part.any(dim=-1, keepdim=True) for part in parts]
        if not self._flat:
            return torch.cat(parts, dim=-1)
        allowed: torch.Tensor = reduce(lambda a, b: (a.unsqueeze(-1) & b.unsqueeze(-2)).flatten(-2), parts)
        return allowed

    def _reader(self, tensor: torch.Tensor, agents: Any) -> Callable[[], torch.Tensor]:
        """Return a function that copies the rows of these agents from an array ``[num_envs, agents, ...]``."""
        places = _index([list(agents).index(agent) for agent in self._ids], tensor.device)
        if not self.axis:
            return tensor.select(1, list(agents).index(self._ids[0])).clone
        if isinstance(places, slice):
            return of_agents(tensor, places, dim=1).clone
        return lambda: of_agents(tensor, places, dim=1)


def _observation_spec(array: SpaceArray, batch: torch.Size, device: torch.device, bounded: bool) -> TensorSpec:
    space, shape = array.space, torch.Size([*batch, *array.shape[1:]])
    dtype = torch.from_numpy(np.empty(0, array.dtype)).dtype
    if isinstance(space, spaces.Discrete):
        return Categorical(int(space.n), shape, dtype=dtype, device=device)
    if isinstance(space, spaces.Box):
        low, high = space.low, space.high
    else:
        assert isinstance(space, spaces.MultiDiscrete)
        low, high = np.zeros_like(space.nvec), space.nvec - 1
    if not bounded or np.all(np.isinf(low) & np.isinf(high)) or shape.numel() > _LARGEST_BOUNDED:
        return Unbounded(shape, dtype=dtype, device=device)
    bounds = (torch.as_tensor(np.array(bound), device=device).to(dtype).expand(shape) for bound in (low, high))
    return Bounded(*bounds, shape, dtype=dtype, device=device)


def _done_spec(batch: torch.Size, device: torch.device) -> Composite:
    flags = {key: Categorical(2, (*batch, 1), dtype=torch.bool, device=device) for key in _DONE_KEYS}
    return Composite(flags, shape=batch, device=device)


def _checked_groups(
    given: MarlGroupMapType | Mapping[str, list[str]] | None, env: EnvWrapper, names: list[str]
) -> dict[str, list[str]]:
    """Return the groups of the agents: by default one per tag, or none for a single agent."""
    if given is None:
        tags = env.policy_tags.items() if env.num_agents > 1 else ()
        return {tag: [f"{tag}_{index}" for index in range(len(ids))] for tag, ids in tags}
    if not isinstance(given, (MarlGroupMapType, Mapping)):
        raise DefinitionError(f"group_map is {shown(given)}: expected a MarlGroupMapType, a dict of lists, or None")
    groups = given.get_group_map(names) if isinstance(given, MarlGroupMapType) else dict(given)
    try:
        check_marl_grouping(groups, names)
    except ValueError as error:
        raise DefinitionError(f"group_map: {error}. The agents are {', '.join(names)}") from None
    return {group: list(members) for group, members in groups.items()}


def _share_arrays(env: EnvWrapper, agents: list[int]) -> bool:
    """Return True if the agents have the same arrays of observations and actions."""
    arrays = [*env._observation_arrays, *env._action_arrays]
    return all(len(set(agents) & set(array.agents)) in (0, len(agents)) for array in arrays)
