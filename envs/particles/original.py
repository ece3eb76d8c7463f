"""References of the particle environments: ``mpe2``'s own classes, in float64."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpdrive.checks.references import StepReference
from warpdrive.envs.particles import reference as physics
from warpdrive.spaces import action_arrays, observation_arrays

if TYPE_CHECKING:
    from warpdrive.envs.particles.dynamics import Scenario
    from warpdrive.envs.simple_spread import SimpleSpread
    from warpdrive.envs.simple_tag import SimpleTag

Step = Callable[[dict[str, Any], npt.NDArray[Any]], dict[str, Any]]


def simple_spread(env: SimpleSpread) -> StepReference:
    """Return the reference of ``simple_spread``."""
    return StepReference(env, spread_step(env), env.reference_observe)


def simple_tag(env: SimpleTag) -> StepReference:
    """Return the reference of ``simple_tag``."""
    return StepReference(env, tag_step(env), env.reference_observe)


def spread_step(env: SimpleSpread) -> Step:
    """Return the step of ``mpe2`` with the constants of ``env``."""
    from mpe2.simple_spread.simple_spread import raw_env

    other = raw_env(
        N=env.num_agents,
        local_ratio=env.local_ratio,
        continuous_actions=env.continuous_actions,
        max_cycles=10**9,
        num_agent_neighbors=env.nearest_agents or None,
        num_landmark_neighbors=env.nearest_landmarks or None,
        terminate_on_success=env.terminate_on_success,
    )
    _resize(other.world.landmarks, env.num_landmarks)
    for agent in other.world.agents:
        agent.size, agent.accel = env.agent_size, env.acceleration
    _share_physics(env, other.world)
    other.reset()

    def step(state: dict[str, Any], actions: npt.NDArray[Any]) -> dict[str, Any]:
        after = _step(other, state, actions, ("landmark_x", "landmark_y"))
        observations = np.stack([other.observe(agent.name) for agent in other.world.agents])
        return {**after, "observations": observations}

    return step


def tag_step(env: SimpleTag) -> Step:
    """Return the step of ``mpe2`` with the constants of ``env``."""
    from mpe2.simple_tag.simple_tag import raw_env

    a = env.num_adversaries
    other = raw_env(
        num_good=env.num_good_agents,
        num_adversaries=a,
        num_obstacles=env.num_obstacles,
        continuous_actions=env.continuous_actions,
        max_cycles=10**9,
        num_agent_neighbors=env.nearest_agents or None,
        num_landmark_neighbors=env.nearest_landmarks or None,
        terminate_on_success=env.terminate_on_success,
    )
    for i, agent in enumerate(other.world.agents):
        is_good = i >= a
        agent.size = env.good_agent_size if is_good else env.adversary_size
        agent.accel = env.good_agent_acceleration if is_good else env.adversary_acceleration
        agent.max_speed = env.good_agent_speed if is_good else env.adversary_speed
    for obstacle in other.world.landmarks:
        obstacle.size = env.obstacle_size
    _share_physics(env, other.world)
    other.reset()

    def step(state: dict[str, Any], actions: npt.NDArray[Any]) -> dict[str, Any]:
        after = _step(other, state, actions, ("obstacle_x", "obstacle_y"))
        rows = [other.observe(agent.name) for agent in other.world.agents]
        return {**after, "observations_adversary": np.stack(rows[:a]), "observations_good_agent": np.stack(rows[a:])}

    return step


def step(env: Scenario, state: dict[str, Any], actions: Any) -> dict[str, Any]:
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
    rewards = np.array([other.rewards[agent.name] for agent in agents])
    return {**after, "rewards": rewards, "terminated": False, **_observations(other, env)}


def observe(env: Scenario, state: dict[str, Any]) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of observations of a state, by name."""
    other = _instance(env)
    _put(other, env, state)
    return _observations(other, env)


def _instance(env: Scenario) -> Any:
    """Return the class of ``mpe2``, created once for each environment."""
    found = vars(env).get("_original")
    if found is None:
        module = importlib.import_module(f"mpe2.{env.name}.{env.name}")
        found = module.raw_env(**env.original_parameters(), continuous_actions=env.continuous_actions, max_cycles=10**9)
        found.reset(seed=0)
        vars(env)["_original"] = found
    return found


def _put(other: Any, env: Scenario, state: dict[str, Any]) -> None:
    """Put an instance of a class of ``mpe2`` into a state."""
    world = other.world
    if "loc_x" in state:
        positions = physics.places(state, ("loc_x", "loc_y"))
        velocities = physics.places(state, ("velocity_x", "velocity_y"))
        for agent, position, velocity in zip(world.agents, positions, velocities, strict=True):
            agent.state.p_pos, agent.state.p_vel = position, velocity
        for landmark, position in zip(
            world.landmarks, physics.places(state, ("landmark_x", "landmark_y")), strict=True
        ):
            landmark.state.p_pos = position
    for agent, words in zip(world.agents, state.get("communication", ()), strict=False):
        agent.state.c = words.astype(np.float64)
    if "goal" in state:
        _put_goals(world, env.name, [world.landmarks[goal] for goal in state["goal"]])


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


def _observations(other: Any, env: Scenario) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of observations, padded with zeros where the space is longer."""
    found = {}
    for array in observation_arrays(env):
        rows = np.zeros(array.shape, np.float32)
        for row, agent in zip(rows, array.agents, strict=True):
            seen = other.observe(other.world.agents[agent].name)
            row[: len(seen)] = seen
        found[array.name] = rows
    return found


def _resize(landmarks: list[Any], number: int) -> None:
    while len(landmarks) < number:
        landmarks.append(copy.deepcopy(landmarks[0]))
    del landmarks[number:]


def _share_physics(env: Any, world: Any) -> None:
    world.dt, world.damping = env.time_step, env.damping
    world.contact_force, world.contact_margin = env.contact_force, env.contact_margin
    for agent in world.agents:
        agent.initial_mass = env.mass


def _step(other: Any, state: dict[str, Any], actions: npt.NDArray[Any], fixed: tuple[str, str]) -> dict[str, Any]:
    agents, landmarks = other.world.agents, other.world.landmarks
    positions, velocities = (
        physics.places(state, ("loc_x", "loc_y")),
        physics.places(state, ("velocity_x", "velocity_y")),
    )
    for agent, position, velocity in zip(agents, positions, velocities, strict=True):
        agent.state.p_pos, agent.state.p_vel, agent.state.c = position, velocity, np.zeros(2)
    for landmark, position in zip(landmarks, physics.places(state, fixed), strict=True):
        landmark.state.p_pos, landmark.state.p_vel = position, np.zeros(2)
    other.current_actions = list(actions.clip(0, 1)) if other.continuous_actions else list(actions)
    other._execute_world_step()
    after = np.array([[*agent.state.p_pos, *agent.state.p_vel] for agent in agents])
    return {
        **state,
        **dict(zip(("loc_x", "loc_y", "velocity_x", "velocity_y"), after.T, strict=True)),
        "timestep": int(state["timestep"]) + 1,
        "rewards": np.array([other.rewards[agent.name] for agent in agents]),
        "terminated": other.scenario.is_terminal(other.world),
    }
