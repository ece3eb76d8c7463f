"""Arrays of the observations and actions of all agents, derived from the spaces of an environment."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from warpdrive.adapted import adaptation_of, original_of
from warpdrive.environment import Environment


@dataclass(frozen=True)
class SpaceArray:
    """One array of observations or actions.

    Attributes:
        name: The name in kernel functions.
        path: The policy tag, if tags have separate spaces, then the key, if that space is a Dict.
        agents: All agents, or those of the tag.
        space: The space of one agent; for a Dict space, that of the key.
        shape: The shape after ``num_envs``: the agents and one agent's shape.
        dtype: The dtype of the array.
    """

    name: str
    path: tuple[str, ...]
    agents: tuple[int, ...]
    space: spaces.Space[Any]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def choices(self) -> tuple[int, ...]:
        """The number of values of each component of a discrete action; empty for a continuous one."""
        if isinstance(self.space, spaces.Discrete):
            return (int(self.space.n),)
        if isinstance(self.space, spaces.MultiDiscrete):
            return tuple(int(n) for n in self.space.nvec.ravel())
        return ()

    @property
    def num_logits(self) -> int:
        """The number of policy outputs per agent: one for each choice, or two for each continuous component."""
        return sum(self.choices) or 2 * math.prod(self.shape[1:])


def observation_arrays(environment: Environment) -> list[SpaceArray]:
    """Return the arrays of observations.

    They are named ``observations``, or ``observations_<tag>`` if tags have separate spaces; for each key of a Dict
    space there is one, with the suffix ``_<key>``. Policies of an adapted environment observe other arrays than its
    kernel functions write, with the prefix ``extended.``, see :mod:`warpdrive.adapted`.
    """
    name = "extended.observations" if adaptation_of(environment).extends_observations else "observations"
    return _arrays(name, environment, environment.observation_space)


def written_observation_arrays(environment: Environment) -> list[SpaceArray]:
    """Return the arrays of observations that kernel functions write."""
    return observation_arrays(original_of(environment))


def extended_arrays(environment: Environment) -> list[tuple[SpaceArray, SpaceArray]]:
    """Return the arrays that policies of an adapted environment observe, each with its source array."""
    if not adaptation_of(environment).extends_observations:
        return []
    written = written_observation_arrays(environment)
    of_tag = isinstance(original_of(environment).observation_space, dict)
    return [
        (array, next(a for a in written if {*array.agents} <= {*a.agents} and a.path[of_tag:] == array.path[1:]))
        for array in observation_arrays(environment)
    ]


def action_arrays(environment: Environment) -> list[SpaceArray]:
    """Return the arrays of actions: ``actions``, or ``actions_<tag>`` if tags have separate spaces."""
    return _arrays("actions", environment, environment.action_space)


def nested(arrays: Iterable[SpaceArray], value: Callable[[SpaceArray], Any]) -> Any:
    """Return a value for each array in the user's format: a single one, or dicts by tag and by key."""
    nest: dict[str, Any] = {}
    for array in arrays:
        if not array.path:
            return value(array)
        place = nest
        for name in array.path[:-1]:
            place = place.setdefault(name, {})
        place[array.path[-1]] = value(array)
    return nest


def by_array(arrays: Iterable[SpaceArray], given: Any) -> dict[str, Any]:
    """Return values by the names of their arrays: the reverse of :func:`nested`. Unknown keys remain."""
    names = {array.path: array.name for array in arrays}
    found: dict[str, Any] = {}

    def visit(value: Any, path: tuple[str, ...]) -> None:
        if isinstance(value, Mapping):
            for key, part in value.items():
                visit(part, (*path, str(key)))
        else:
            found[names.get(path, "/".join(path) or "observations")] = value

    visit(given, ())
    return found


def _arrays(name: str, environment: Environment, given: Any) -> list[SpaceArray]:
    if not isinstance(given, dict):
        return _of_space(name, (), tuple(range(environment.num_agents)), given)
    return [
        array
        for tag, space in given.items()
        for array in _of_space(name, (tag,), tuple(int(agent) for agent in environment.policy_tags[tag]), space)
    ]


def _of_space(name: str, path: tuple[str, ...], agents: tuple[int, ...], space: spaces.Space[Any]) -> list[SpaceArray]:
    if isinstance(space, spaces.Dict):
        return [array for key, part in space.items() for array in _of_space(name, (*path, key), agents, part)]
    shape = () if isinstance(space, spaces.Discrete) else tuple(space.shape or ())
    dtype: npt.DTypeLike = space.dtype if isinstance(space, spaces.Box) else np.int32
    return [SpaceArray("_".join([name, *path]), path, agents, space, (len(agents), *shape), np.dtype(dtype))]
