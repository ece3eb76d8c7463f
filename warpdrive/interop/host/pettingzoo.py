"""PettingZoo Parallel environments on the host."""

from __future__ import annotations

import copy
import functools
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from warpdrive.errors import DefinitionError, nearest, shown
from warpdrive.importing import load_attribute, load_module
from warpdrive.interop.host.source import (
    DEFAULT_LIMIT,
    FRAME,
    NEXT,
    STATE,
    Array,
    HostReplicas,
    HostSource,
    as_frame,
    name_of,
)
from warpdrive.interop.host.space_conversion import ACTION_MASK, ActionConversion, ObservationConversion
from warpdrive.user_code import user_code

_CONSTRUCTORS = ("parallel_env", "env")


class PettingZooSource(HostSource):
    """A PettingZoo environment in which all agents act at once.

    Args:
        make: The module of the environment (``"mpe2.simple_spread_v3"``), its id in PettingZoo's registry, a function
            that returns a new Parallel environment, or an environment, which is copied. One of the AEC API is converted
            if it is parallelisable.
        policy_tags: Names of agents by policy tag. If None, agents share a tag if their names differ by a final number
            only (``adversary_0``, ``adversary_1``) and their spaces are equal.
        kwargs: The keyword arguments of the constructor.
        episode_length: The number of steps after which episodes are truncated; None for a default.

    Raises:
        DefinitionError: If there is no such environment, or it cannot be used.
    """

    def __init__(
        self,
        make: str | Callable[..., Any] | Any,
        policy_tags: Mapping[str, Sequence[str]] | None,
        kwargs: Mapping[str, Any],
        episode_length: int | None = None,
    ) -> None:
        self.given, self.kwargs = make, dict(kwargs)
        self.limit = episode_length or DEFAULT_LIMIT
        self.title = f"PettingZoo environment {shown(make) if isinstance(make, str) else name_of(make)}"
        env = self._make()
        self.name = str((getattr(env, "metadata", None) or {}).get("name") or name_of(env.unwrapped))
        self.agents = list(getattr(env, "possible_agents", None) or ())
        if not self.agents:
            raise DefinitionError(f"{self.title}: has no possible_agents, expected the names of all agents")
        if not all(isinstance(agent, str) for agent in self.agents):
            raise DefinitionError(f"{self.title}: found possible_agents {shown(self.agents)}, expected strings")
        self.policy_tags = self._tags(env, policy_tags)
        of_tag = {tag: self.agents[ids[0]] for tag, ids in self.policy_tags.items()}
        self.observations = {
            tag: ObservationConversion(env.observation_space(agent), self.title) for tag, agent in of_tag.items()
        }
        self.actions = {tag: ActionConversion(env.action_space(agent), self.title) for tag, agent in of_tag.items()}
        self.leaves = True
        with user_code(f"{self.title}: reset"):
            found = env.reset(seed=0)
        if not (isinstance(found, tuple) and len(found) == 2):
            raise DefinitionError(f"{self.title}: reset returned {shown(found)}, expected observations and infos")
        infos = found[1]
        in_observations = any(conversion.has_action_mask for conversion in self.observations.values())
        self.has_action_mask = in_observations or any(ACTION_MASK in info for info in infos.values())
        with suppress(Exception):  # optional in the API
            self.state_shape = np.asarray(env.state(), np.float32).shape
        own = next((int(found) for found in (self.kwargs.get("max_cycles"), *_limits(env)) if found), self.limit)
        self.episode_length = min(own, self.limit)
        has_frames = getattr(env, "render_mode", None) == "rgb_array"
        possible = (getattr(env, "metadata", None) or {}).get("render_modes") or ()
        self.can_render = has_frames or (isinstance(make, str) and "rgb_array" in possible)
        if has_frames:
            with user_code(f"{self.title}: render"):
                self.frame_shape = as_frame(env.render(), self.title).shape
        env.close()

    def with_frames(self) -> HostSource:
        """See ``HostSource``."""
        if self.frame_shape is not None:
            return self
        tags = {tag: [self.agents[agent] for agent in ids] for tag, ids in self.policy_tags.items()}
        return PettingZooSource(self.given, tags, {**self.kwargs, "render_mode": "rgb_array"}, self.limit)

    def open(self, arrays: Mapping[str, Array], num_envs: int) -> HostReplicas:
        """See ``HostSource``."""
        return ParallelReplicas(self, [self._make() for _ in range(num_envs)], arrays)

    def _make(self) -> Any:
        with user_code(self.title):
            if isinstance(self.given, str):
                env = self._constructor()(**self.kwargs)
            elif callable(self.given):
                env = self.given(**self.kwargs)
            else:
                env = copy.deepcopy(self.given)
        return self._parallel(env)

    def _constructor(self) -> Any:
        assert isinstance(self.given, str)
        if "/" in self.given:  # an id of the registry of PettingZoo 1.26
            library = load_module("pettingzoo", self.title)
            ids = getattr(library, "parallel_registry", {})
            if self.given not in ids:
                raise DefinitionError(f"{self.title}: PettingZoo has no such id.{nearest(self.given, list(ids))}")
            return functools.partial(library.make, "parallel", self.given)
        if ":" in self.given:
            return load_attribute(self.given, self.title)
        module = load_module(self.given, self.title)
        for name in _CONSTRUCTORS:
            if callable(getattr(module, name, None)):
                return getattr(module, name)
        raise DefinitionError(f"{self.title}: the module has no function parallel_env; name one as 'module:function'")

    def _parallel(self, env: Any) -> Any:
        if hasattr(env, "agent_iter"):
            from pettingzoo.utils.conversions import aec_to_parallel

            if not (getattr(env, "metadata", None) or {}).get("is_parallelizable", False):
                raise DefinitionError(f"{self.title}: its agents act in turns, expected a Parallel environment")
            return aec_to_parallel(env)
        if not all(hasattr(env, name) for name in ("reset", "step", "observation_space", "action_space")):
            raise DefinitionError(f"{self.title}: found {shown(env)}, expected a pettingzoo.ParallelEnv")
        return env

    def _tags(self, env: Any, given: Mapping[str, Sequence[str]] | None) -> dict[str, Sequence[int]]:
        index = {agent: number for number, agent in enumerate(self.agents)}
        if given is not None:
            for agent in (agent for agents in given.values() for agent in agents):
                if agent not in index:
                    raise DefinitionError(f"{self.title}: unknown agent {shown(agent)}.{nearest(str(agent), index)}")
            tags: dict[str, Sequence[int]] = {tag: [index[a] for a in agents] for tag, agents in given.items()}
            for tag, ids in tags.items():
                for kind in (env.observation_space, env.action_space):
                    if any(kind(self.agents[one]) != kind(self.agents[ids[0]]) for one in ids):
                        raise DefinitionError(f"{self.title}: the agents of policy tag '{tag}' have different spaces")
            return tags
        groups: dict[str, dict[Any, list[int]]] = defaultdict(dict)
        for agent, number in index.items():
            spaces = repr((env.observation_space(agent), env.action_space(agent)))
            groups[_prefix(agent)].setdefault(spaces, []).append(number)
        return {
            tag if len(kinds) == 1 else f"{tag}_{which}": ids
            for tag, kinds in groups.items()
            for which, ids in enumerate(kinds.values())
        }


class ParallelReplicas(HostReplicas):
    """Replicas of a PettingZoo Parallel environment, stepped one after the other.

    An episode ends when no agent is left. It is truncated if one of the last agents is; agents that terminated in that
    step are recorded as out of the episode, so that their values are not bootstrapped.

    Args:
        source: The description of the environment.
        envs: The environments.
        arrays: The arrays, see :class:`HostReplicas`.
    """

    def __init__(self, source: PettingZooSource, envs: Sequence[Any], arrays: Mapping[str, Array]) -> None:
        self.source, self.envs, self.arrays, self.num_envs = source, envs, arrays, len(envs)
        self._steps = [0] * self.num_envs
        self._agents = []  # name, id, conversions, rows in the arrays
        for tag, ids in source.policy_tags.items():
            seen, acted = source.rows(tag)
            for position, agent in enumerate(ids):
                conversions = source.observations[tag], source.actions[tag]
                self._agents.append((source.agents[agent], agent, *conversions, seen[position], acted[position]))
        tag_of = {agent: tag for tag, ids in source.policy_tags.items() for agent in ids}
        self._acted = {agent: source.acted(tag, arrays) for agent, tag in tag_of.items()}
        self._seen = {
            prefix: {agent: source.observed(tag, arrays, prefix) for agent, tag in tag_of.items()}
            for prefix in ("", NEXT)
        }

    def reset(self, seeds: Sequence[int] | None = None, where: Array | None = None) -> None:
        """See ``HostReplicas``."""
        for replica in range(self.num_envs) if where is None else np.flatnonzero(where).tolist():
            self._begin(replica, None if seeds is None else seeds[replica])

    def step(self) -> Iterator[slice]:
        """See ``HostReplicas``."""
        for replica, env in enumerate(self.envs):
            self._step(replica, env)
        yield slice(0, self.num_envs)

    def close(self) -> None:
        """See ``HostReplicas``."""
        for env in self.envs:
            env.close()

    def _begin(self, replica: int, seed: int | None = None) -> None:
        with user_code(f"{self.source.title}: reset"):
            observations, infos = self.envs[replica].reset(seed=seed)
        present = set(self.envs[replica].agents)
        self._steps[replica] = 0
        self._write(NEXT, replica, observations, infos)
        self._draw(NEXT, replica)
        for name, agent, *_ in self._agents:
            self.arrays[f"{NEXT}active"][replica, agent] = name in present

    def _step(self, replica: int, env: Any) -> None:
        arrays, present = self.arrays, set(env.agents)
        actions = {
            name: convert.read(self._acted[agent][replica, row])
            for name, agent, _, convert, _, row in self._agents
            if name in present
        }
        with user_code(f"{self.source.title}: step"):
            observations, rewards, terminations, truncations, infos = env.step(actions)
        left = set(env.agents)
        self._steps[replica] += 1
        if left and self._steps[replica] >= self.source.limit:
            truncations, left = dict.fromkeys(left, True), set()
        ended = not left
        self._write("", replica, observations, infos)
        self._draw("", replica)
        truncated = ended and any(truncations.get(name, False) for name in present)
        for name, agent, *_ in self._agents:
            arrays["rewards"][replica, agent] = rewards.get(name, 0.0)
            stays = name in present and truncations.get(name, False) if ended else name in left
            arrays["active"][replica, agent] = stays and not terminations.get(name, False)
        arrays["truncated"][replica], arrays["terminated"][replica] = truncated, ended and not truncated
        if ended:
            self._begin(replica)

    def _draw(self, prefix: str, replica: int) -> None:
        if FRAME in self.arrays:
            with user_code(f"{self.source.title}: render"):
                picture = self.envs[replica].render()
            self.arrays[prefix + FRAME][replica] = as_frame(picture, self.source.title)

    def _write(self, prefix: str, replica: int, observations: Mapping[str, Any], infos: Mapping[str, Any]) -> None:
        seen = self._seen[prefix]
        for name, agent, convert, _, row, _ in self._agents:
            if name in observations:
                convert.write(observations[name], seen[agent], (replica, row))
            if self.source.has_action_mask:
                given = observations if convert.has_action_mask else infos
                mask = given[name].get(ACTION_MASK) if name in given else None
                target = self.arrays[prefix + ACTION_MASK][replica, agent]
                target[:] = True
                if mask is not None:
                    target[: len(mask)] = mask
        if self.source.state_shape is not None:
            with suppress(Exception):  # undefined for some environments once no agent is left
                self.arrays[prefix + STATE][replica] = self.envs[replica].state()


def _prefix(agent: str) -> str:
    found = re.sub(r"\W", "_", re.sub(r"[_-]?\d+$", "", agent))
    return found if found.isidentifier() else f"agent_{found}".rstrip("_")


def _limits(env: Any) -> Iterator[Any]:
    for holder in (env, env.unwrapped):
        for name in ("max_cycles", "max_steps", "max_iter"):
            with suppress(Exception):
                value = getattr(holder, name, None)
                yield value if isinstance(value, int) and not isinstance(value, bool) else None
