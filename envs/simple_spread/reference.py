"""Reference step of ``simple_spread`` for one replica, in NumPy, for tests of the kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpdrive.envs.particles import reference as physics

if TYPE_CHECKING:
    from warpdrive.envs.simple_spread.simple_spread import SimpleSpread


def step(env: SimpleSpread, state: dict[str, Any], actions: npt.NDArray[Any]) -> dict[str, Any]:
    """Return the state after a step.

    Args:
        env: The environment.
        state: State of one replica.
        actions: ``[num_agents]`` int, or ``[num_agents, 5]`` float.

    Returns:
        The state, with observations, rewards and ``terminated``.
    """
    before = physics.places(state, ("loc_x", "loc_y"))
    sizes = np.full(env.num_agents, env.agent_size)
    forces = env.acceleration * physics.pushes(actions) + physics.contacts(env, before, sizes, before, sizes)
    position, velocity = physics.moved(env, state, forces)
    after = {
        **state,
        "loc_x": position[:, 0],
        "loc_y": position[:, 1],
        "velocity_x": velocity[:, 0],
        "velocity_y": velocity[:, 1],
        "timestep": int(state["timestep"]) + 1,
    }
    landmarks = physics.places(state, ("landmark_x", "landmark_y"))
    nearest = physics.distances(landmarks, position).min(axis=1)
    touching = physics.distances(position, position) < 2 * env.agent_size
    own = -env.collision_penalty * (touching.sum(axis=1) - 1)
    after["rewards"] = ((env.local_ratio - 1) * nearest.sum() + env.local_ratio * own).astype(np.float32)
    after["observations"] = observe(env, after)
    after["terminated"] = env.terminate_on_success and nearest.max() < 0.1
    return after


def observe(env: SimpleSpread, state: dict[str, Any]) -> npt.NDArray[np.float32]:
    """Return the observations ``[num_agents, length]`` of ``state``."""
    position = physics.places(state, ("loc_x", "loc_y"))
    landmarks = physics.places(state, ("landmark_x", "landmark_y"))
    velocity = physics.places(state, ("velocity_x", "velocity_y"))
    rows = []
    for agent, (x, v) in enumerate(zip(position, velocity, strict=True)):
        others = physics.seen(np.delete(position, agent, axis=0) - x, env.nearest_agents)
        of_landmarks = physics.seen(landmarks - x, env.nearest_landmarks)
        rows.append(np.concatenate([v, x, of_landmarks, others, np.zeros_like(others)]))
    return np.stack(rows).astype(np.float32)
