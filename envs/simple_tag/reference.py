"""Reference step of ``simple_tag`` for one replica, in NumPy, for tests of the kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpdrive.envs.particles import reference as physics

if TYPE_CHECKING:
    from warpdrive.envs.simple_tag.simple_tag import SimpleTag


def step(env: SimpleTag, state: dict[str, Any], actions: npt.NDArray[Any]) -> dict[str, Any]:
    """Return the state after a step.

    Args:
        env: The environment.
        state: State of one replica.
        actions: ``[num_agents]`` int, or ``[num_agents, 5]`` float.

    Returns:
        The state, with observations of both sides, rewards and ``terminated``.
    """
    before = physics.places(state, ("loc_x", "loc_y"))
    obstacles = physics.places(state, ("obstacle_x", "obstacle_y"))
    obstacle_sizes = np.full(env.num_obstacles, env.obstacle_size)
    forces = env.acceleration[:, None] * physics.pushes(actions)
    forces += physics.contacts(env, before, env.size, before, env.size)
    forces += physics.contacts(env, before, env.size, obstacles, obstacle_sizes)
    position, velocity = physics.moved(env, state, forces)
    speed = np.linalg.norm(velocity, axis=1)
    velocity *= np.minimum(1, env.largest_speed / np.maximum(speed, 1e-9))[:, None]
    after = {
        **state,
        "loc_x": position[:, 0],
        "loc_y": position[:, 1],
        "velocity_x": velocity[:, 0],
        "velocity_y": velocity[:, 1],
        "timestep": int(state["timestep"]) + 1,
    }
    a = env.num_adversaries
    touching = physics.distances(position[a:], position[:a]) < env.size[a:, None] + env.size[:a]
    of_adversaries = np.full(a, env.tag_reward * touching.sum())
    leaving = _charge_for_leaving(np.abs(position[a:])).sum(axis=1)
    of_good_agents = -env.tag_penalty * touching.sum(axis=1) - env.leaving_penalty * leaving
    after["rewards"] = np.concatenate([of_adversaries, of_good_agents]).astype(np.float32)
    after["terminated"] = env.terminate_on_success and bool(touching.any(axis=1).all())
    return {**after, **observe(env, after)}


def observe(env: SimpleTag, state: dict[str, Any]) -> dict[str, npt.NDArray[np.float32]]:
    """Return ``observations_adversary`` and ``observations_good_agent`` of ``state``."""
    position = physics.places(state, ("loc_x", "loc_y"))
    velocity = physics.places(state, ("velocity_x", "velocity_y"))
    obstacles = physics.places(state, ("obstacle_x", "obstacle_y"))
    a, n = env.num_adversaries, env.num_agents
    rows = []
    is_good = np.arange(n) >= a
    for agent, (x, v) in enumerate(zip(position, velocity, strict=True)):
        others, nearest = np.delete(position, agent, axis=0) - x, env.nearest_agents
        good, its_velocity = np.delete(is_good, agent), np.delete(velocity, agent, axis=0)
        of_good_agents = np.where(good[:, None], its_velocity, 0) if nearest else its_velocity[good]
        of_obstacles = physics.seen(obstacles - x, env.nearest_landmarks)
        of_others = physics.seen(others, nearest), physics.seen(others, nearest, of_good_agents)
        rows.append(np.concatenate([v, x, of_obstacles, *of_others]).astype(np.float32))
    return {"observations_adversary": np.stack(rows[:a]), "observations_good_agent": np.stack(rows[a:])}


def _charge_for_leaving(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    outside = np.minimum(np.exp(np.minimum(2 * x - 2, 5)), 10)
    return np.where(x < 0.9, 0, np.where(x < 1, 10 * (x - 0.9), outside))
