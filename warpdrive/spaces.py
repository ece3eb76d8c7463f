"""From the spaces of an environment to the arrays that hold observations and actions of all its agents."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from warpdrive.environment import Environment


@dataclass(frozen=True)
class SpaceArray:
    """One array of observations or actions: of all agents, or of the agents of one tag with a space of its own.

    ``shape`` is what follows ``num_envs``: the agents and one agent's shape.
    """

    name: str
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
        """How many numbers say how an action is drawn: one for each choice, or two for each continuous component."""
        return sum(self.choices) or 2 * math.prod(self.shape[1:])


def observation_arrays(environment: Environment) -> list[SpaceArray]:
    """Return the arrays of observations: ``observations``, or ``observations_<tag>`` where tags have own spaces."""
    return _arrays("observations", environment, environment.observation_space)


def action_arrays(environment: Environment) -> list[SpaceArray]:
    """Return the arrays of actions: ``actions``, or ``actions_<tag>`` where tags have a space of their own."""
    return _arrays("actions", environment, environment.action_space)


def _arrays(name: str, environment: Environment, given: Any) -> list[SpaceArray]:
    if isinstance(given, dict):
        return [
            _array(f"{name}_{tag}", tuple(int(agent) for agent in environment.policy_tags[tag]), space)
            for tag, space in given.items()
        ]
    return [_array(name, tuple(range(environment.num_agents)), given)]


def _array(name: str, agents: tuple[int, ...], space: spaces.Space[Any]) -> SpaceArray:
    shape = () if isinstance(space, spaces.Discrete) else tuple(space.shape or ())
    dtype: npt.DTypeLike = space.dtype if isinstance(space, spaces.Box) else np.int32
    return SpaceArray(name, agents, space, (len(agents), *shape), np.dtype(dtype))
