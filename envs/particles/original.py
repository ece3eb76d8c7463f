"""Reference of the particle environments: the classes of ``mpe2``, in float64."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpdrive.spaces import action_arrays, observation_arrays

if TYPE_CHECKING:
    from warpdrive.envs.particles.dynamics import ParticleWorld


def step(env: ParticleWorld, state: dict[str, Any], actions: Any) -> dict[str, Any]:
    """Return the state after a step of ``mpe2``.

    Args:
        env: The environment.
        state: State of one replica.
        actions: ``[num_agents, ...]``, or a dict by policy tag.

    Returns:
        The state, with observations, rewards and ``terminated``.
    """
    other = _instance(env)
    _put(other, env, state)
    rows: list[Any] = [None] * env.num_agents
    for array in action_arrays(env):
        given = actions[array.path[0]] if array.path else actions
        for agent, action in zip(array.agents, given, strict=True):
            length = (other.action_spaces[other.world.agents[agent].name].shape or (None,))[0]
            rows[agent] = np.clip(action, 0, 1)[:length] if other.continuous_actions else int(action)
    other.current_actions = rows
    other._execute_world_step()
    agents = other.world.agents
    after = {**state, "timestep": int(state["timestep"]) + 1}
    if "loc_x" in state:
        moved = np.array([[*agent.state.p_pos, *agent.state.p_vel] for agent in agents])
        after |= zip(("loc_x", "loc_y", "velocity_x", "velocity_y"), moved.T, strict=True)
    if "communication" in state:
        after["communication"] = np.array([agent.state.c for agent in agents[: len(state["communication"])]])
    after["rewards"] = np.array([other.rewards[agent.name] for agent in agents])
    after["terminated"] = other.scenario.is_terminal(other.world)
    return {**after, **_observations(other, env)}


def observe(env: ParticleWorld, state: dict[str, Any]) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of observations of a state, by name."""
    other = _instance(env)
    _put(other, env, state)
    return _observations(other, env)


def _instance(env: ParticleWorld) -> Any:
    """Return the class of ``mpe2``, created once for each environment."""
    found = vars(env).get("_original")
    if found is None:
        module = importlib.import_module(f"mpe2.{env.name}.{env.name}")
        found = module.raw_env(**env.original_parameters(), continuous_actions=env.continuous_actions, max_cycles=10**9)
        found.reset(seed=0)
        env.adapt_original(found)
        vars(env)["_original"] = found
    return found


def _put(other: Any, env: ParticleWorld, state: dict[str, Any]) -> None:
    """Put an instance of a class of ``mpe2`` into a state."""
    world = other.world
    if "loc_x" in state:
        for agent, position, velocity in zip(
            world.agents, _points(state, "loc"), _points(state, "velocity"), strict=True
        ):
            agent.state.p_pos, agent.state.p_vel = position, velocity
        landmarks = _points(state, "obstacle" if "obstacle_x" in state else "landmark")
        for landmark, position in zip(world.landmarks, landmarks, strict=True):
            landmark.state.p_pos = position
    for agent, words in zip(world.agents, state.get("communication", ()), strict=False):
        agent.state.c = words.astype(np.float64)
    if "goal" in state:
        _put_goals(world, env.name, [world.landmarks[goal] for goal in state["goal"]])


def _points(state: dict[str, Any], name: str) -> npt.NDArray[np.float64]:
    """Return the arrays ``<name>_x`` and ``<name>_y`` of a state as points ``[n, 2]``."""
    return np.stack([state[f"{name}_x"], state[f"{name}_y"]], axis=1).astype(np.float64)


def _put_goals(world: Any, name: str, goals: list[Any]) -> None:
    """Set the goals of all agents, and the colours by which ``mpe2`` shows them to agents."""
    if name in ("simple_reference", "simple_speaker_listener"):
        for agent, goal in zip(world.agents, goals, strict=False):
            agent.goal_b = goal
        return
    for agent in world.agents:
        agent.goal_a = goals[0]
    if name == "simple_crypto":
        world.agents[2].key = goals[1].color
    if name == "simple_push":
        world.agents[1].color = np.full(3, 0.25)
        world.agents[1].color[goals[0].index + 1] += 0.5


def _observations(other: Any, env: ParticleWorld) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of observations, padded with zeros where the space is longer."""
    found = {}
    for array in observation_arrays(env):
        rows = np.zeros(array.shape, np.float32)
        for row, agent in zip(rows, array.agents, strict=True):
            seen = other.observe(other.world.agents[agent].name)
            row[: len(seen)] = seen
        found[array.name] = rows
    return found
