"""Reference physics of the particle environments, in NumPy and float64, for tests of the kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Sizes = npt.NDArray[np.floating[Any]]
DIRECTIONS = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]], np.float64)


def places(state: dict[str, Any], names: tuple[str, str]) -> Floats:
    """Return two arrays of a state as points ``[n, 2]``."""
    return np.stack([state[name] for name in names], axis=-1).astype(np.float64)


def pushes(actions: npt.NDArray[Any]) -> Floats:
    """Return the directions ``[n, 2]`` of actions ``[n]``, or of continuous ones ``[n, 5]``."""
    directions: Floats = DIRECTIONS[actions] if actions.ndim == 1 else actions.clip(0, 1).astype(float) @ DIRECTIONS
    return directions


def distances(points: Floats, others: Floats) -> Floats:
    """Return the distances between points ``[n, 2]`` and others ``[m, 2]``: ``[n, m]``."""
    apart: Floats = np.linalg.norm(points[:, None] - others, axis=-1)
    return apart


def contacts(env: Any, points: Floats, sizes: Sizes, others: Floats, other_sizes: Sizes) -> Floats:
    """Return the total contact forces ``[n, 2]`` on n discs; discs at the same position do not interact.

    Args:
        env: The environment.
        points: ``[n, 2]``, centres of the discs.
        sizes: ``[n]``, their radii.
        others: ``[m, 2]``, centres of the discs that exert the forces.
        other_sizes: ``[m]``, their radii.

    Returns:
        ``[n, 2]`` float64.
    """
    apart = points[:, None] - others
    distance = distances(points, others)
    overlap = (sizes[:, None] + other_sizes - distance) / env.contact_margin
    force = env.contact_force * env.contact_margin * np.logaddexp(0, overlap)
    scale = np.divide(force, distance, out=np.zeros_like(distance), where=distance > 0)
    total: Floats = (apart * scale[..., None]).sum(axis=1)
    return total


def moved(env: Any, state: dict[str, Any], forces: Floats) -> tuple[Floats, Floats]:
    """Return the positions and velocities ``[n, 2]`` of the agents after a step with ``forces``.

    Args:
        env: The environment.
        state: State of one replica.
        forces: ``[n, 2]``, force on each agent.

    Returns:
        Positions and velocities, each ``[n, 2]`` float64.
    """
    position, velocity = places(state, ("loc_x", "loc_y")), places(state, ("velocity_x", "velocity_y"))
    return position + velocity * env.time_step, velocity * (1 - env.damping) + forces / env.mass * env.time_step


def seen(offsets: Floats, nearest: int, values: Floats | None = None) -> Floats:
    """Return the values of all places in order, or of the nearest ones, padded with zeros.

    Args:
        offsets: ``[n, 2]``, from the agent to the places.
        nearest: Number of nearest places, in the order of their distance; 0 for all places in their own order.
        values: ``[n, 2]``; if None, the offsets.

    Returns:
        ``[2 * (nearest or n)]`` float64.
    """
    values = offsets if values is None else values
    if not nearest:
        return values.ravel()
    order = np.argsort(np.linalg.norm(offsets, axis=1), kind="stable")[:nearest]
    rows = np.zeros((nearest, 2))
    rows[: len(order)] = values[order]
    return rows.ravel()
