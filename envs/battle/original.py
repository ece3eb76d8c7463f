"""``battle_v4`` of MAgent2 with the actions and the state of ``battle``, to compare them and to evaluate policies."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from warpdrive.envs.battle import reference
from warpdrive.envs.battle.battle import Battle

VIEW = 6
"""MAgent2's range of sight, the radius of a circle."""
_NOTHING = 6
_ACTIONS = [_NOTHING, *(move for move in range(13) if move != _NOTHING), *range(13, 21)]
"""MAgent2's number of each action: doing nothing is the move in the middle."""


class MAgent2:
    """A game of MAgent2's ``battle_v4``.

    Where attacks and moves of a step do not depend on their order, states, rewards and ends are those of ``battle``.
    Otherwise MAgent2 executes attacks in random order, so that agents which fall do not strike later, and then moves
    in the order of agents, also to cells that others have just left.

    Args:
        map_size: Width and height of the map, which has walls along its borders.
        seed: The seed.
        **options: Options of :class:`Battle` that do not change the rules, such as ``view_range``.

    Attributes:
        env: Environment with the same map and teams.
    """

    def __init__(self, map_size: int = 45, seed: int = 0, **options: Any) -> None:
        from magent2.environments import battle_v4

        self.original = battle_v4.parallel_env(map_size=map_size, max_cycles=2**30)
        self.original.reset(seed=seed)
        size = self.original.env.get_num(self.original.handles[0])
        last = map_size - 1
        walls = [(x, y) for x in range(map_size) for y in range(map_size) if {x, y} & {0, last}]
        self.env = Battle(agents_per_team=size, map_size=map_size, walls=walls, random_starts=True, **options)
        # the first step after a reset gives blue the actions of red: it has the sizes of the teams before the reset
        self.original.step(dict.fromkeys(self.original.agents, _NOTHING))

    def state(self) -> dict[str, Any]:
        """Return the state in the arrays of ``battle``: places, health, ``active`` and ``cells``."""
        count = self.env.num_agents
        state: dict[str, Any] = {name: np.zeros(count, np.int32) for name in ("loc_x", "loc_y", "health")}
        state["active"] = np.zeros(count, np.bool_)
        for handle in self.original.handles:
            agents = self.original.env.get_agent_id(handle)
            views = self.original.env.get_observation(handle)[0]
            if len(agents):
                state["loc_x"][agents], state["loc_y"][agents] = self.original.env.get_pos(handle).T
                state["health"][agents] = np.rint(views[:, VIEW, VIEW, 2] * self.env.most_health)
                state["active"][agents] = True
        return state | {"cells": reference.cells_of(self.env, state)}

    def step(self, actions: npt.NDArray[Any]) -> tuple[npt.NDArray[np.float32], bool]:
        """Take a step with actions of ``battle``, ``[num_agents]``; return the rewards, and if a team has won."""
        given = {name: _ACTIONS[actions[self._agent(name)]] for name in self.original.agents}
        _, paid, ended, _, _ = self.original.step(given)
        rewards = np.zeros(self.env.num_agents, np.float32)
        for name, reward in paid.items():
            rewards[self._agent(name)] = reward
        return rewards, all(ended.values())

    def views(self) -> npt.NDArray[np.float32]:
        """Return MAgent2's observations ``[num_agents, 5, 13, 13]`` in the channels of ``battle``; 0 for the fallen."""
        found = np.zeros((self.env.num_agents, 5, 2 * VIEW + 1, 2 * VIEW + 1), np.float32)
        for handle in self.original.handles:
            views = self.original.env.get_observation(handle)[0]
            found[self.original.env.get_agent_id(handle)] = views.transpose(0, 3, 1, 2)[:, [0, 1, 3, 2, 4]]
        return found

    def _agent(self, name: str) -> int:
        team, _, member = name.partition("_")
        return int(member) + self.env.agents_per_team * (team == "blue")
