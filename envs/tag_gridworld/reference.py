"""Reference step of ``tag_gridworld`` for one replica, in NumPy, for tests of the kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from warpdrive.envs.tag_gridworld.tag_gridworld import TagGridworld

MOVES = np.array([(0, 0), (+1, 0), (-1, 0), (0, +1), (0, -1)])


def step(env: TagGridworld, state: dict[str, Any], actions: npt.NDArray[Any]) -> dict[str, Any]:
    """Return the state after ``actions`` (int, ``[num_agents]``), with observations, rewards and ``terminated``.

    Args:
        env: The environment.
        state: State of one replica.
        actions: ``[num_agents]`` int.

    Returns:
        The state, with observations, rewards and ``terminated``.
    """
    wanted = np.stack([state["loc_x"], state["loc_y"]], axis=1) + MOVES[actions]
    locations = np.clip(wanted, 0, env.grid_length)
    hit_wall = (locations != wanted).any(axis=1)
    taggers, runner = locations[:-1], locations[-1]
    tagged = bool((taggers == runner).all(axis=1).any())

    rewards = -env.wall_hit_penalty * hit_wall
    rewards[:-1] += env.tag_reward_for_tagger if tagged else -env.step_cost_for_tagger
    rewards[-1] += -env.tag_penalty_for_runner if tagged else env.step_cost_for_tagger

    after: dict[str, Any] = {
        "loc_x": locations[:, 0].astype(np.int32),
        "loc_y": locations[:, 1].astype(np.int32),
        "timestep": int(state["timestep"]) + 1,
    }
    return {**after, "observations": observe(env, after), "rewards": rewards.astype(np.float32), "terminated": tagged}


def observe(env: TagGridworld, state: dict[str, Any]) -> npt.NDArray[np.float32]:
    """Return the observations of ``state``, ``[num_agents, length]``."""
    observe_agent = _observe_all if env.use_full_observation else _observe_nearest
    rows = [observe_agent(env, state, agent) for agent in range(env.num_agents)]
    return np.array(rows, np.float32)


def _observe_all(env: TagGridworld, state: dict[str, Any], agent: int) -> list[float]:
    agents = range(env.num_agents)
    return [
        *state["loc_x"] / env.grid_length,
        *state["loc_y"] / env.grid_length,
        *[1.0 if other == env.num_agents - 1 else 0.0 for other in agents],
        *[1.0 if other == agent else 0.0 for other in agents],
        state["timestep"] / env.episode_length,
    ]


def _observe_nearest(env: TagGridworld, state: dict[str, Any], agent: int) -> list[float]:
    x, y, runner = state["loc_x"], state["loc_y"], env.num_agents - 1
    opponent = runner
    if agent == runner:
        opponent = int(np.argmin((x[:-1] - x[runner]) ** 2 + (y[:-1] - y[runner]) ** 2))
    length = env.grid_length
    return [
        x[agent] / length,
        y[agent] / length,
        x[opponent] / length,
        y[opponent] / length,
        1.0 if agent == runner else 0.0,
        state["timestep"] / env.episode_length,
    ]
