"""Reference step of ``battle`` for one replica, in NumPy, for tests of the kernels."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from warpdrive.envs.battle.battle import Battle

Place = tuple[int, int]


def step(env: Battle, state: dict[str, Any], actions: npt.NDArray[Any]) -> dict[str, Any]:
    """Return the state after a step.

    Args:
        env: The environment.
        state: State of one replica.
        actions: ``[num_agents]`` int.

    Returns:
        The state, with observations, rewards and ``terminated``.
    """
    n, timestep = env.agents_per_team, int(state["timestep"]) + 1
    place = list(zip(state["loc_x"].tolist(), state["loc_y"].tolist(), strict=True))
    health = state["health"].astype(np.int64)
    standing = [agent for agent in range(env.num_agents) if state["active"][agent]]
    in_turn = sorted(standing, key=lambda agent: _turn(agent, n, timestep))
    who_is_at = {place[agent]: agent for agent in standing}
    rewards = np.zeros(env.num_agents)
    rewards[standing] += env.step_reward
    active = state["active"].copy()

    attackers = defaultdict(list)
    for agent in in_turn:
        if actions[agent] > env.num_moves:
            rewards[agent] += env.attack_reward
            target = who_is_at.get(_goal(env, place[agent], actions[agent]))
            if target is not None and (target < n) != (agent < n):
                rewards[agent] += env.hit_reward
                attackers[target].append(agent)
    for target, hit_by in attackers.items():
        health[target] -= env.damage_of_hit * len(hit_by)
        if health[target] < 0:
            health[target], active[target] = 0, False
            rewards[hit_by[0]] += env.kill_reward - env.hit_reward
    rewards[[agent for agent in standing if not active[agent]]] = env.death_reward

    survivors = [agent for agent in in_turn if active[agent]]
    taken = set(who_is_at) | set(env.walls)
    for agent in survivors:
        goal = _goal(env, place[agent], actions[agent])
        if 0 < actions[agent] <= env.num_moves and _is_on_map(env, goal) and goal not in taken:
            taken.add(goal)
            place[agent] = goal
    health[survivors] = np.minimum(health[survivors] + env.recovery_of_step, env.most_health)

    after = {
        **state,
        "loc_x": np.array([x for x, _ in place], np.int32),
        "loc_y": np.array([y for _, y in place], np.int32),
        "health": health.astype(np.int32),
        "active": active,
        "timestep": timestep,
    }
    after["cells"] = cells_of(env, after)
    return {
        **after,
        "observations": observe(env, after),
        "rewards": rewards.astype(np.float32),
        "terminated": not (after["active"][:n].any() and after["active"][n:].any()),
    }


def _turn(agent: int, agents_per_team: int, timestep: int) -> tuple[int, bool]:
    """Return the sort key of an agent's priority: everyone is first at times, and the first team alternates by step."""
    is_blue, member = divmod(agent, agents_per_team)
    return (member + timestep) % agents_per_team, is_blue != timestep % 2


def _goal(env: Battle, place: Place, action: int) -> Place:
    return place[0] + int(env.action_x[action]), place[1] + int(env.action_y[action])


def _is_on_map(env: Battle, place: Place) -> bool:
    return min(place) >= 0 and max(place) < env.map_size


def cells_of(env: Battle, state: dict[str, Any]) -> npt.NDArray[np.int32]:
    """Return the cells of the map in a state, as the kernels store them."""
    cells: npt.NDArray[np.int32] = env.bare_cells.copy()
    for agent in np.flatnonzero(state["active"]):
        sign = 1 if agent < env.agents_per_team else -1
        row, column = state["loc_y"][agent] + env.margin, state["loc_x"][agent] + env.margin
        cells[row, column] = sign * (state["health"][agent] + 1)
    return cells


def observe(env: Battle, state: dict[str, Any]) -> npt.NDArray[np.float32]:
    """Return the observations of ``state``, ``[num_agents, channels, width, width]``."""
    channels_seen = 3 + 2 * env.see_health + 4 * env.minimap
    observations = np.zeros((env.num_agents, channels_seen, env.view_width, env.view_width), np.float32)
    x, y, active = state["loc_x"], state["loc_y"], state["active"]
    walls = np.zeros((env.map_size, env.map_size))
    walls[[cell[1] for cell in env.walls], [cell[0] for cell in env.walls]] = 1
    walls = np.pad(walls, env.view_range, constant_values=1)
    teams = [
        np.flatnonzero(active[: env.agents_per_team]),
        env.agents_per_team + np.flatnonzero(active[env.agents_per_team :]),
    ]
    cells, squares = [], []
    for members in teams:
        of_team = np.zeros_like(walls)
        of_team[y[members] + env.view_range, x[members] + env.view_range] = state["health"][members] + 1
        cells.append(of_team)
        counts = np.zeros((env.view_width, env.view_width))
        np.add.at(counts, (y[members] * env.view_width // env.map_size, x[members] * env.view_width // env.map_size), 1)
        squares.append(counts / env.agents_per_team)
    for team, members in enumerate(teams):
        for agent in members:
            view = slice(y[agent], y[agent] + env.view_width), slice(x[agent], x[agent] + env.view_width)
            own, other = cells[team][view], cells[1 - team][view]
            channels = [walls[view], own > 0, other > 0]
            if env.see_health:
                channels += [np.maximum(cell - 1, 0) / env.most_health for cell in (own, other)]
            if env.minimap:
                at = [np.full_like(own, c[agent] / (env.map_size - 1)) for c in (x, y)]
                channels += [squares[team], squares[1 - team], *at]
            observations[agent] = channels
    return observations
