"""Agents of all replicas as one batch: row ``replica * agents + index`` is an agent of one replica."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces

from warpdrive.env_wrapper import EnvWrapper
from warpdrive.errors import ActionError, DefinitionError, nearest, shown
from warpdrive.spaces import SpaceArray, nested

Policy = Callable[[Any], Any]
"""Function from observations ``[num_envs * agents, *shape]`` to actions, such as ``wd.load_policy(run).act``."""
Reader = Callable[[], Any]


class AgentBatch:
    """Observations, rewards and flags of selected agents as rows of one batch, and the actions of all agents.

    Readers are bound to the arrays of the device context once; a read is one copy.

    Args:
        env: The replicas.
        tag: The policy tag whose agents are selected; None for all agents, which then must have the same spaces.
        agent: The id of the only agent selected; None for all of the tag.
        output: ``"numpy"`` for arrays on the host, ``"torch"`` for tensors on the device.
        copy: If False, results share memory with the device's arrays where their layout permits, and are overwritten by
            the next step.
        others: Policies by tag of agents that are not selected. Without one they act uniformly at random.

    Raises:
        DefinitionError: If an argument is invalid, or the selected agents have different spaces.
    """

    def __init__(
        self,
        env: EnvWrapper,
        tag: str | None = None,
        agent: int | None = None,
        output: str = "numpy",
        copy: bool = True,
        others: Mapping[str, Policy] | None = None,
    ) -> None:
        if output not in ("numpy", "torch"):
            raise DefinitionError(
                f"output is {shown(output)}: expected one of numpy, torch.{nearest(str(output), ('numpy', 'torch'))}"
            )
        self.env, self.output, self.copy = env, output, copy
        self.agents = _selected(env, tag, agent)
        self.num_rows = env.num_envs * len(self.agents)
        tags = [name for name, ids in env.policy_tags.items() if set(ids) & set(self.agents)]
        self.tag = tags[0]
        separate = isinstance(env.env.observation_space, dict) or isinstance(env.env.action_space, dict)
        if len(tags) > 1 and separate:
            raise DefinitionError(f"the agents of {', '.join(tags)} have separate spaces: select some with tag=...")
        self.observation_space, self.action_space = env.observation_spaces[self.tag], env.action_spaces[self.tag]
        self._action_arrays = env._action_arrays
        self._covers = [list(array.agents) for array in self._action_arrays] == [self.agents]
        self._others = dict(others or {})
        for name in self._others:
            env._check_tag(name)
        self._generator: torch.Generator | None = None
        seen = [array for array in env._observation_arrays if set(array.agents) & set(self.agents)]
        self.observations = self._observations(seen, "")
        self.final_observations = self._observations(seen, "final_", copy=output == "torch")
        self.rewards = self._rows("rewards")
        self.terminated, self.truncated = self._per_replica("terminated"), self._per_replica("truncated")
        self.episode_return = self._rows("episode.last_return")
        self.episode_length = self._per_replica("episode.last_length")
        self.active = self._rows("active") if "active" in env.ctx else None
        is_masked = "action_mask" in env.ctx and not isinstance(self.action_space, spaces.Box)
        self.action_mask = self._rows("action_mask", env.logits(self.tag).shape[-1]) if is_masked else None

    def actions(self, given: Any) -> Any:
        """Return the actions of all agents for :meth:`warpdrive.EnvWrapper.step`.

        Args:
            given: Actions of the batch ``[rows, ...]``: a tensor, or anything that NumPy converts to an array.

        Returns:
            A tensor, or a dict of tensors by tag if tags have separate action spaces.

        Raises:
            ActionError: If the shape is wrong.
        """
        if not isinstance(given, torch.Tensor):
            array = np.asarray(given)
            given = torch.from_numpy(array if array.flags.writeable else array.copy())
        space = self.action_space.shape or ()
        if given.shape != (self.num_rows, *space):
            raise ActionError(f"actions have the shape {tuple(given.shape)}, expected {(self.num_rows, *space)}")
        rows = given.view(self.env.num_envs, len(self.agents), *space)
        if self._covers:
            return nested(self._action_arrays, lambda array: rows)
        return nested(self._action_arrays, lambda array: self._all_actions(array, rows))

    def _all_actions(self, array: SpaceArray, rows: torch.Tensor) -> torch.Tensor:
        env = self.env
        full = torch.empty(
            (env.num_envs, *array.shape), dtype=torch.int32 if array.choices else torch.float32, device=env.device
        )
        place = {agent: index for index, agent in enumerate(array.agents)}
        for tag, ids in env.policy_tags.items():
            if set(ids) <= set(self.agents) or not set(ids) <= set(array.agents):
                continue
            full[:, [place[agent] for agent in ids]] = self._of_others(tag).to(full)
        mine = [index for index, agent in enumerate(self.agents) if agent in place]
        if mine:  # otherwise the batch is in another space
            full[:, [place[self.agents[index]] for index in mine]] = rows[:, mine].to(full)
        return full

    def _of_others(self, tag: str) -> torch.Tensor:
        """Return the actions of a tag's agents that are not selected, ``[num_envs, agents of the tag, ...]``."""
        env, space = self.env, self.env.action_spaces[tag]
        shape = (env.num_envs, len(env.policy_tags[tag]))
        if tag in self._others:
            seen = env.observations(tag)
            flat = (
                {key: part.flatten(0, 1) for key, part in seen.items()}
                if isinstance(seen, dict)
                else seen.flatten(0, 1)
            )
            return torch.as_tensor(self._others[tag](flat), device=env.device).view(*shape, *(space.shape or ()))
        if self._generator is None:
            self._generator = torch.Generator(env.device)
            self._generator.manual_seed(env.seed % (1 << 63))
        return _random_actions(space, shape, env.action_mask(tag), self._generator)

    def reseed(self) -> None:
        """Restart the random actions of agents that are not selected, with the seed of the replicas."""
        self._generator = None

    def _observations(self, arrays: list[SpaceArray], prefix: str, copy: bool = True) -> Reader:
        skipped = 1 if isinstance(self.env.env.observation_space, dict) else 0
        readers = {array.path[skipped:]: self._array_reader(array, prefix, copy) for array in arrays}
        if () in readers:
            return readers[()]
        return lambda: {path[0]: read() for path, read in readers.items()}

    def _array_reader(self, array: SpaceArray, prefix: str, copy: bool) -> Reader:
        rows = [array.agents.index(agent) for agent in self.agents if agent in array.agents]
        return self._reader(self.env.ctx[prefix + array.name], rows, array.space.dtype, copy)

    def _rows(self, name: str, columns: int | None = None) -> Reader:
        tensor = self.env.ctx[name]
        return self._reader(tensor if columns is None else tensor[..., :columns], self.agents)

    def _per_replica(self, name: str) -> Reader:
        count = len(self.agents)
        tensor = self.env.ctx[name]
        return self._reader(tensor[:, None].expand(-1, count), list(range(count)))

    def _reader(self, tensor: torch.Tensor, rows: list[int], dtype: Any = None, copy: bool = True) -> Reader:
        """Return a function that reads rows of ``[num_envs, agents, *shape]`` as ``[num_envs * rows, *shape]``."""
        shape = (tensor.shape[0] * len(rows), *tensor.shape[2:])
        flat = _flat_view(tensor, rows, shape)
        if self.output == "torch" or tensor.device.type != "cpu":
            index = torch.tensor(rows, device=tensor.device)
            if flat is None:
                read: Reader = lambda: tensor[:, index].reshape(shape)  # noqa: E731
            elif self.output == "torch" and self.copy and copy:
                read = flat.clone
            else:
                read = lambda: flat  # noqa: E731
            return read if self.output == "torch" else lambda: _on_host(read(), dtype)
        source = tensor.numpy()
        wanted = np.dtype(dtype or source.dtype)
        if flat is None:
            return lambda: source[:, rows].reshape(shape).astype(wanted, copy=False)
        view = flat.numpy()
        if wanted != view.dtype:
            return lambda: view.astype(wanted)
        return view.copy if self.copy and copy else lambda: view


def _flat_view(tensor: torch.Tensor, rows: list[int], shape: tuple[int, ...]) -> torch.Tensor | None:
    """Return the selected rows in the given shape, sharing memory with the tensor, or None if that is impossible."""
    if rows != list(range(rows[0], rows[0] + len(rows))):
        return None
    try:
        return tensor[:, rows[0] : rows[0] + len(rows)].view(shape)
    except RuntimeError:  # the strides do not permit it
        return None


def _on_host(tensor: torch.Tensor, dtype: Any) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = tensor.cpu().numpy()
    return array if dtype is None else array.astype(dtype, copy=False)


def _selected(env: EnvWrapper, tag: str | None, agent: int | None) -> list[int]:
    if tag is not None:
        env._check_tag(tag)
    agents = sorted(env.policy_tags[tag]) if tag is not None else list(range(env.num_agents))
    if agent is None:
        return agents
    if agent not in agents:
        raise DefinitionError(f"agent is {shown(agent)}, expected one of {shown(agents)}")
    return [int(agent)]


def _random_actions(
    space: spaces.Space[Any], shape: tuple[int, int], mask: torch.Tensor | None, generator: torch.Generator
) -> torch.Tensor:
    """Return random actions: uniform over the allowed choices, over a bounded Box, or standard normal."""
    device = generator.device
    if isinstance(space, spaces.Box):
        low, high = (torch.from_numpy(np.array(bound)).to(device) for bound in (space.low, space.high))
        bounded = torch.from_numpy(space.bounded_below & space.bounded_above).to(device)
        drawn = torch.rand((*shape, *space.shape), generator=generator, device=device)
        normal = torch.randn((*shape, *space.shape), generator=generator, device=device)
        return torch.where(bounded, low + drawn * (high - low), normal.clamp(low, high))
    choices: Iterable[int] = [space.n] if isinstance(space, spaces.Discrete) else space.nvec.tolist()  # type: ignore[attr-defined]
    sizes = [int(n) for n in choices]
    weights = torch.ones((*shape, sum(sizes)), device=device) if mask is None else mask.float()
    drawn_parts = [
        torch.multinomial(part.reshape(-1, part.shape[-1]), 1, generator=generator).view(shape)
        for part in weights.split(sizes, dim=-1)
    ]
    return drawn_parts[0] if isinstance(space, spaces.Discrete) else torch.stack(drawn_parts, dim=-1)
