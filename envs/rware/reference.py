"""Reference of ``rware`` for one replica by the class of the package ``rware``, for tests of the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpdrive.testing import Draws

if TYPE_CHECKING:
    from warpdrive.envs.rware.rware import MultiRobotWarehouse


def original(env: MultiRobotWarehouse) -> Any:
    """Return ``Warehouse`` with the parameters of ``env``."""
    from rware.warehouse import ImageLayer, ObservationType, RewardType, Warehouse

    kinds = np.where(env.highways, ".", "x")
    kinds[env.goal_y, env.goal_x] = "g"
    return Warehouse(
        shelf_columns=1,
        column_height=1,
        shelf_rows=1,
        n_agents=env.num_agents,
        msg_bits=env.msg_bits,
        sensor_range=env.sensor_range,
        request_queue_size=env.request_queue_size,
        max_inactivity_steps=env.max_inactivity_steps or None,
        max_steps=env.episode_length,
        reward_type=RewardType(env.reward_type),
        layout="\n".join("".join(line) for line in kinds),
        observation_type=ObservationType[env.observation_type.upper()],
        image_observation_layers=[ImageLayer[name.upper()] for name in env.image_layers],
        image_observation_directional=env.directional,
        normalised_coordinates=env.normalised_coordinates,
    )


class Original:
    """The class of ``rware``, put into states of the kernels; it requests the shelves that the kernels draw."""

    def __init__(self, env: MultiRobotWarehouse) -> None:
        self.env, self.warehouse = env, original(env)
        self.warehouse.reset(seed=0)
        self._seen: Sequence[Any] = ()

    def set_state(self, state: dict[str, Any]) -> None:
        """Write a state of one replica into the instance of ``Warehouse``."""
        from rware.warehouse import Direction

        other = self.warehouse
        for i, shelf in enumerate(other.shelfs):
            shelf.x, shelf.y = int(state["shelf_x"][i]), int(state["shelf_y"][i])
        for i, agent in enumerate(other.agents):
            agent.x, agent.y = int(state["loc_x"][i]), int(state["loc_y"][i])
            agent.dir = Direction(int(state["heading"][i]))
            carried = int(state["carried"][i])
            agent.carrying_shelf = other.shelfs[carried] if carried >= 0 else None
            agent.has_delivered = bool(state["has_delivered"][i])
            if self.env.msg_bits:
                agent.message[:] = state["messages"][i]
        other.request_queue = [other.shelfs[i] for i in np.flatnonzero(state["requested"])]
        other._cur_inactive_steps, other._cur_steps = int(state["inactive_steps"]), int(state["timestep"])
        other._np_random = _Choice(Draws(state["rng"]))
        other._recalc_grid()
        self._seen = [other._make_obs(agent) for agent in other.agents]

    def step(self, actions: Any) -> dict[str, Any]:
        """Return rewards, ``terminated`` and the state after a step."""
        other, env = self.warehouse, self.env
        self._seen, rewards, done, _, _ = other.step(np.asarray(actions).tolist())
        limit = env.max_inactivity_steps
        terminated = limit > 0 and other._cur_inactive_steps >= limit
        assert done == (terminated or other._cur_steps >= env.episode_length)
        return {"rewards": np.array(rewards), "terminated": terminated, **self.state()}

    def state(self) -> dict[str, Any]:
        """Return the state of the instance of ``Warehouse``."""
        other, env = self.warehouse, self.env
        numbers = {shelf: i for i, shelf in enumerate(other.shelfs)}
        state = {
            "loc_y": [agent.y for agent in other.agents],
            "loc_x": [agent.x for agent in other.agents],
            "heading": [agent.dir.value for agent in other.agents],
            "carried": [numbers.get(agent.carrying_shelf, -1) for agent in other.agents],
            "has_delivered": [agent.has_delivered for agent in other.agents],
            "shelf_y": [shelf.y for shelf in other.shelfs],
            "shelf_x": [shelf.x for shelf in other.shelfs],
            "requested": [shelf in other.request_queue for shelf in other.shelfs],
            "inactive_steps": other._cur_inactive_steps,
        }
        if env.msg_bits:
            state["messages"] = [agent.message for agent in other.agents]
        arrays = {name: np.array(value) for name, value in state.items()}
        return {**arrays, "cells": cells(env, arrays)}

    def observations(self) -> dict[str, Any]:
        """Return the observations of the present state, by the names of the arrays."""
        if self.env.observation_type == "dict":
            return {f"observations_{name}": part for name, part in _parts(self._seen, self.env.msg_bits).items()}
        if self.env.observation_type == "image_dict":
            names = ("image", "features")
            return {f"observations_{name}": np.stack([seen[name] for seen in self._seen]) for name in names}
        return {"observations": np.stack(self._seen)}


def cells(env: MultiRobotWarehouse, state: dict[str, Any]) -> npt.NDArray[np.uint8]:
    """Return the array ``cells`` of a state, computed from its other arrays."""
    found = np.zeros((env.rows, env.columns), np.uint8)
    found[env.goal_y, env.goal_x] = 64
    found[state["shelf_y"], state["shelf_x"]] += np.where(state["requested"], 2, 1).astype(np.uint8)
    robots = 4 * (np.where(state["carried"] >= 0, 5, 1) + state["heading"])
    found[state["loc_y"], state["loc_x"]] += robots.astype(np.uint8)
    return np.pad(found, env.sensor_range, constant_values=128)


def _parts(seen: Sequence[Any], msg_bits: int) -> dict[str, npt.NDArray[Any]]:
    """Return the parts of dictionaries of observations of all agents as arrays."""
    own = {name: np.array([of["self"][name] for of in seen]) for name in seen[0]["self"]}
    names = ["has_agent", "direction", "has_shelf", "shelf_requested"]
    sensors = {name: np.array([[cell[name] for cell in of["sensors"]] for of in seen]) for name in names}
    flat = {name: values.reshape(values.shape[:2]) for name, values in sensors.items()}
    if msg_bits:
        flat["local_message"] = np.array([[cell["local_message"] for cell in of["sensors"]] for of in seen])
    return {**own, **{f"sensors_{name}": values for name, values in flat.items()}}


class _Choice:
    """Generator whose choice is the one that the kernels draw."""

    def __init__(self, draws: Draws) -> None:
        self.draws = draws

    def choice(self, candidates: Sequence[Any]) -> Any:
        """Return one of the candidates."""
        return candidates[self.draws.integer(0, len(candidates))]


def deliver_shelves(
    env: MultiRobotWarehouse, observations: dict[str, npt.NDArray[Any]], rng: np.random.Generator
) -> npt.NDArray[np.int32]:
    """Return actions that often drive forward, lift requested shelves, carry them to the goals, and put them down."""
    first = next(iter(observations.values()))
    shape = first.shape[:2]
    actions = rng.choice(5, shape, p=[0.05, 0.5, 0.15, 0.15, 0.15])
    if env.observation_type == "flattened":
        seen = observations["observations"]
        scale = np.array([env.columns - 1, env.rows - 1]) if env.normalised_coordinates else 1
        x, y = np.moveaxis(np.rint(seen[..., :2] * scale).astype(int), -1, 0)
        loaded, heading, on_highway = seen[..., 2] > 0, seen[..., 3:7].argmax(-1), seen[..., 7] > 0
        own = 8 + (env.width**2 // 2) * (7 + env.msg_bits) + 6 + env.msg_bits
        requested = seen[..., own] > 0
        ways = _ways_to_goals(env)[y, x]
        # opposite directions take two turns
        turns = np.array([[1, 2, 2, 3], [2, 1, 3, 2], [3, 2, 1, 2], [2, 3, 2, 1]])
        follows = loaded & requested & (rng.random(shape) < 0.9)
        actions = np.where(follows, turns[heading, ways], actions)
        toggles = (~loaded & requested) | (loaded & ~requested & ~on_highway)
        actions = np.where(toggles & (rng.random(shape) < 0.7), 4, actions)
    if env.msg_bits:
        bits = rng.integers(2, size=(*shape, env.msg_bits))
        actions = np.concatenate([actions[..., None], bits], -1)
    return actions.astype(np.int32)


def _ways_to_goals(env: MultiRobotWarehouse) -> npt.NDArray[np.int64]:
    """Return the direction of the shortest way from each cell to a goal along highways, ``[rows, columns]``."""
    ways = np.zeros((env.rows, env.columns), np.int64)
    reached = set(zip(env.goal_y.tolist(), env.goal_x.tolist(), strict=True))
    queue = list(reached)
    for y, x in queue:
        for direction, (dy, dx) in enumerate([(-1, 0), (1, 0), (0, -1), (0, 1)]):
            before = y - dy, x - dx
            inside = 0 <= before[0] < env.rows and 0 <= before[1] < env.columns
            if inside and before not in reached:
                reached.add(before)
                ways[before] = direction
                if env.highways[before]:
                    queue.append(before)
    return ways
