"""Reference step of ``flock`` for one replica, in NumPy, for tests of the kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from warpdrive.envs.flock.flock import Flock

Array = npt.NDArray[Any]


def step(env: Flock, state: dict[str, Any], actions: Array) -> dict[str, Any]:
    """Return the state after a step.

    Args:
        env: The environment.
        state: State of one replica.
        actions: ``[num_boids, 2]`` float.

    Returns:
        The state, with observations, rewards and ``terminated``.
    """
    turn, acceleration = np.clip(np.asarray(actions, np.float64), -1, 1).T
    direction = state["direction"] + turn * env.max_turn
    direction = (direction + np.pi) % (2 * np.pi) - np.pi
    speed = np.clip(state["speed"] + acceleration * env.max_acceleration, env.min_speed, env.max_speed)
    x, y = (
        ((state[name] + speed * along(direction)) % env.world_size).astype(np.float32)
        for name, along in (("loc_x", np.cos), ("loc_y", np.sin))
    )
    after = {
        **state,
        "loc_x": x,
        "loc_y": y,
        "direction": direction.astype(np.float32),
        "speed": speed.astype(np.float32),
        "neighbours": neighbours_of(env, x, y),
        "timestep": int(state["timestep"]) + 1,
        "terminated": False,
    }
    offsets, turns = _seen(env, after)
    distances = np.hypot(*offsets)
    terms = (
        env.cohesion_weight * np.maximum(1 - distances / env.radius, 0)
        + env.alignment_weight * np.cos(turns)
        - env.separation_weight * np.maximum(1 - distances / env.separation_distance, 0) ** 2
    )
    after["rewards"] = terms.mean(axis=1).astype(np.float32)
    after["observations"] = observe(env, after)
    return after


def observe(env: Flock, state: dict[str, Any]) -> npt.NDArray[np.float32]:
    """Return the observations ``[num_boids, 4 num_neighbours + 1]`` of ``state``."""
    (dx, dy), turns = _seen(env, state)
    d, speed = state["direction"].astype(np.float64)[:, None], state["speed"].astype(np.float64)[:, None]
    other_speed = state["speed"].astype(np.float64)[neighbours_of(env, state["loc_x"], state["loc_y"])]
    scale = 1 / np.maximum(np.hypot(dx, dy), env.radius)
    seen = [
        (dx * np.cos(d) + dy * np.sin(d)) * scale,
        (dy * np.cos(d) - dx * np.sin(d)) * scale,
        (other_speed * np.cos(turns) - speed) / env.max_speed,
        other_speed * np.sin(turns) / env.max_speed,
    ]
    of_neighbours = np.stack(seen, axis=-1).reshape(env.num_boids, -1)
    return np.concatenate([of_neighbours, speed / env.max_speed], axis=1).astype(np.float32)


def neighbours_of(env: Flock, x: Array, y: Array) -> npt.NDArray[np.int32]:
    """Return the ids of the nearest neighbours ``[num_boids, num_neighbours]``, from squared distances in float32.

    Args:
        env: The environment.
        x: ``[num_boids]`` float32, horizontal positions.
        y: Vertical positions, likewise.
    """
    side = np.float32(env.world_size)
    dx, dy = (np.abs(place - place[:, None]) for place in (x, y))
    squared = np.minimum(dx, side - dx) ** 2 + np.minimum(dy, side - dy) ** 2
    np.fill_diagonal(squared, np.inf)
    return np.argsort(squared, axis=1, kind="stable")[:, : env.num_neighbours].astype(np.int32)


def _seen(env: Flock, state: dict[str, Any]) -> tuple[tuple[Array, Array], Array]:
    """Return offsets (x, y) and relative directions of the neighbours, each ``[num_boids, num_neighbours]`` float64."""
    near = neighbours_of(env, state["loc_x"], state["loc_y"])
    half = env.world_size / 2
    places = (state[name].astype(np.float64) for name in ("loc_x", "loc_y"))
    dx, dy = ((place[near] - place[:, None] + half) % env.world_size - half for place in places)
    direction = state["direction"].astype(np.float64)
    return (dx, dy), direction[near] - direction[:, None]
