"""Reference step of ``tag_continuous`` for one replica, in NumPy, for tests of the kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from warpdrive.envs.tag_continuous.tag_continuous import TagContinuous

FloatArray = npt.NDArray[np.float32]
TWO_PI = np.float32(2 * np.pi)


def step(env: TagContinuous, state: dict[str, Any], actions: npt.NDArray[Any]) -> dict[str, Any]:
    """Return the state after a step.

    Args:
        env: The environment.
        state: State of one replica.
        actions: ``[num_agents, 2]`` int.

    Returns:
        The state, with observations, rewards and ``terminated``.
    """
    after, hit_edge = _move(env, state, actions)
    after["timestep"] = int(state["timestep"]) + 1
    after["in_game"] = state["active"].copy()
    after["observations"] = observe(env, after)

    s = state["active"].astype(np.float32)
    step_reward = np.where(env.is_runner, env.step_reward_for_runner, env.step_penalty_for_tagger)
    rewards = s * (env.edge_hit_penalty * hit_edge + step_reward).astype(np.float32)
    active = state["active"].copy()
    for runner in env.policy_tags["runner"]:
        if not state["active"][runner]:
            continue
        distances = distances_to(after, runner)[env.tagger_ids]
        if distances.min() < np.float32(env.tagging_distance * env.grid_length):
            rewards[runner] += np.float32(env.tag_penalty_for_runner)
            rewards[env.tagger_ids[distances.argmin()]] += np.float32(env.tag_reward_for_tagger)
            active[runner] = not env.runner_exits_game_after_tagged
        if active[runner] and after["timestep"] == env.episode_length:
            rewards[runner] += np.float32(env.end_of_game_reward_for_runner)

    after["active"] = active
    after["runners_left"] = np.array(active[env.policy_tags["runner"]].sum(), np.int32)
    after["rewards"] = rewards
    after["terminated"] = bool(after["runners_left"] == 0)
    return after


def observe(env: TagContinuous, state: dict[str, Any]) -> FloatArray:
    """Return the observations ``[num_agents, 7 * others + 1]`` of ``state``."""
    observe_agent = _observe_all if env.use_full_observation else _observe_nearest
    return np.stack([observe_agent(env, state, agent) for agent in range(env.num_agents)])


def distances_to(state: dict[str, Any], agent: int) -> FloatArray:
    """Return the distance of every agent to ``agent``, ``[num_agents]``."""
    dx = state["loc_x"] - state["loc_x"][agent]
    dy = state["loc_y"] - state["loc_y"][agent]
    distances: FloatArray = np.sqrt(dx**2 + dy**2)
    return distances


def _move(
    env: TagContinuous, state: dict[str, Any], actions: npt.NDArray[Any]
) -> tuple[dict[str, Any], npt.NDArray[np.bool_]]:
    s = state["active"].astype(np.float32)
    accelerations = np.append(
        0, np.linspace(env.min_acceleration, env.max_acceleration, env.num_acceleration_levels)
    ).astype(np.float32)
    turns = np.append(0, np.linspace(env.min_turn, env.max_turn, env.num_turn_levels)).astype(np.float32)
    skill = np.where(env.is_runner, env.skill_level_runner, env.skill_level_tagger)
    top_speed = (env.max_speed * skill).astype(np.float32)

    acceleration = state["acceleration"] + accelerations[actions[:, 0]]
    direction = (state["direction"] + turns[actions[:, 1]]) % TWO_PI * s
    speed = np.clip(state["speed"] + acceleration, 0, top_speed) * s
    acceleration[(speed <= 0) | (speed >= top_speed)] = 0
    x = state["loc_x"] + speed * np.cos(direction)
    y = state["loc_y"] + speed * np.sin(direction)
    length = np.float32(env.grid_length)
    hit_edge = (x < 0) | (x > length) | (y < 0) | (y > length)
    moved = {
        "loc_x": np.clip(x, 0, length),
        "loc_y": np.clip(y, 0, length),
        "speed": speed,
        "direction": direction,
        "acceleration": acceleration,
    }
    return moved, hit_edge


def _observe_all(env: TagContinuous, state: dict[str, Any], agent: int) -> FloatArray:
    others = np.array([other for other in range(env.num_agents) if other != agent])
    differences, time = _differences(env, state, agent, others), state["timestep"] / env.episode_length
    if not state["in_game"][agent]:
        differences, time = np.zeros_like(differences), 0.0
    roles_and_flags = [env.is_runner[others], state["in_game"][others]]
    return np.concatenate([differences, *roles_and_flags, [time]]).astype(np.float32)


def _observe_nearest(env: TagContinuous, state: dict[str, Any], agent: int) -> FloatArray:
    blocks = np.zeros((7, env.num_other_agents_observed), np.float32)
    if not state["in_game"][agent]:
        return np.zeros(blocks.size + 1, np.float32)
    by_distance = np.argsort(distances_to(state, agent), kind="stable")
    seen = [other for other in by_distance if other != agent and state["in_game"][other]]
    nearest = np.array(seen[: env.num_other_agents_observed], np.int64)
    blocks[:5, : len(nearest)] = _differences(env, state, agent, nearest).reshape(5, -1)
    blocks[5, : len(nearest)] = env.is_runner[nearest]
    blocks[6, : len(nearest)] = 1
    return np.append(blocks.ravel(), np.float32(state["timestep"] / env.episode_length))


def _differences(env: TagContinuous, state: dict[str, Any], agent: int, others: npt.NDArray[np.int64]) -> FloatArray:
    scales = {
        "loc_x": np.sqrt(2) * env.grid_length,
        "loc_y": np.sqrt(2) * env.grid_length,
        "speed": env.max_speed + 1e-10,
        "acceleration": env.max_speed + 1e-10,
        "direction": 2 * np.pi,
    }
    blocks = [(state[name][others] - state[name][agent]) / np.float32(scale) for name, scale in scales.items()]
    return np.concatenate(blocks)
