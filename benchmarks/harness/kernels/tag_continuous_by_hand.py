"""The step and observation of ``tag_continuous`` with K nearest agents, split at its barriers by hand.

``kernels.py`` compares the generated code with it: the same algorithm with the same types, a loop over the agents for
each region between barriers, and a parallel loop over the replicas.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numba import njit, prange

import warpdrive as wd
from harness.environments.tag import CONFIGURATIONS
from warpdrive.fused_step.fuse import FusedKernel

TITLE = next(iter(CONFIGURATIONS))
K = CONFIGURATIONS[TITLE][2]["num_other_agents_observed"]
ZERO, ONE, INFINITY, TWO_PI = np.float32(0), np.float32(1), np.float32(np.inf), np.float32(2 * math.pi)


def pair() -> tuple[Callable[[], None], Callable[[], None], Callable[[], None]]:
    """Return the kernel's step, the hand-written step, and a function that asserts that their results are equal.

    Tagged runners stay in the game, so that every step is the same work.
    """
    name, num_envs, config = CONFIGURATIONS[TITLE]
    calls, states = [], []
    for _ in range(2):
        env = wd.EnvWrapper(
            env_name=name, env_config={**config, "runner_exits_game_after_tagged": False}, num_envs=num_envs
        )
        env.ctx["actions"].copy_(torch.from_numpy(np.random.default_rng(0).integers(0, 21, (num_envs, 110, 2))))
        fused = FusedKernel("step_and_observe", env.ctx)
        fused.call_user(env.env.step, env._binding)
        fused.call_user(env.env.observe, env._binding)
        calls.append((fused.bind(env.backend, env.num_agents), fused.arguments))
        states.append(env.ctx)
    values = {name: _as_numpy(value) for name, value in calls[1][1].items()}
    names = step_and_observe.py_func.__code__.co_varnames[: step_and_observe.py_func.__code__.co_argcount]
    arguments = [values[name] for name in names]

    def check() -> None:
        for name in ("loc_x", "loc_y", "direction", "rewards", "observations"):
            np.testing.assert_allclose(states[0][name].numpy(), states[1][name].numpy(), rtol=1e-4, atol=1e-5)

    return calls[0][0], lambda: step_and_observe(*arguments), check


def _as_numpy(value: Any) -> Any:
    return value.numpy() if isinstance(value, torch.Tensor) else value


@njit(error_model="numpy")
def move(
    env, agent, loc_x, loc_y, speed, direction, acceleration, in_game, active, actions, rewards, acceleration_table,
    turn_table, top_speed, step_reward, grid_length, edge_hit_penalty,
):  # fmt: skip
    """Move one agent."""
    playing = active[env, agent]
    in_game[env, agent] = playing
    s = ONE if playing else ZERO
    new_acceleration = acceleration[env, agent] + acceleration_table[actions[env, agent, 0]]
    new_direction = ((direction[env, agent] + turn_table[actions[env, agent, 1]]) % TWO_PI) * s
    limit = top_speed[agent]
    new_speed = min(max(speed[env, agent] + new_acceleration, ZERO), limit) * s
    if new_speed <= ZERO or new_speed >= limit:
        new_acceleration = ZERO
    x = loc_x[env, agent] + new_speed * math.cos(new_direction)
    y = loc_y[env, agent] + new_speed * math.sin(new_direction)
    inside_x = min(max(x, ZERO), grid_length)
    inside_y = min(max(y, ZERO), grid_length)
    reward = step_reward[agent]
    if inside_x != x or inside_y != y:
        reward += edge_hit_penalty
    acceleration[env, agent] = new_acceleration
    direction[env, agent] = new_direction
    speed[env, agent] = new_speed
    loc_x[env, agent] = inside_x
    loc_y[env, agent] = inside_y
    rewards[env, agent] = reward * s


@njit(parallel=True, error_model="numpy")
def step_and_observe(
    loc_x, loc_y, speed, direction, acceleration, in_game, active, runners_left, actions, rewards, terminated, timestep,
    acceleration_table, turn_table, top_speed, step_reward, is_runner, tagger_ids, num_taggers, grid_length,
    episode_length, edge_hit_penalty, squared_tagging_distance, tag_reward_for_tagger, tag_penalty_for_runner,
    end_of_game_reward_for_runner, runner_exits_game_after_tagged, observations, location_scale, speed_scale,
    direction_scale, time_scale,
):  # fmt: skip
    """Step all replicas and write their observations."""
    num_envs, num_agents = loc_x.shape
    for env in prange(num_envs):
        for agent in range(num_agents):
            move(
                env, agent, loc_x, loc_y, speed, direction, acceleration, in_game, active, actions, rewards,
                acceleration_table, turn_table, top_speed, step_reward, grid_length, edge_hit_penalty,
            )  # fmt: skip
        for agent in range(num_agents):
            if is_runner[agent] and in_game[env, agent]:
                tagger = -1
                nearest_squared = squared_tagging_distance
                for i in range(num_taggers):
                    dx = loc_x[env, tagger_ids[i]] - loc_x[env, agent]
                    dy = loc_y[env, tagger_ids[i]] - loc_y[env, agent]
                    squared = dx * dx + dy * dy
                    if squared < nearest_squared:
                        nearest_squared = squared
                        tagger = tagger_ids[i]
                if tagger >= 0:
                    rewards[env, agent] += tag_penalty_for_runner
                    rewards[env, tagger] += tag_reward_for_tagger
                    if runner_exits_game_after_tagged:
                        active[env, agent] = False
                        runners_left[env] -= 1
                if active[env, agent] and timestep[env] == episode_length:
                    rewards[env, agent] += end_of_game_reward_for_runner
        terminated[env] = runners_left[env] == 0
        nearest = np.empty(K, np.int32)
        squared_distance = np.empty(K, np.float32)
        for agent in range(num_agents):
            for k in range(K):
                nearest[k] = agent
                squared_distance[k] = INFINITY
            x, y = loc_x[env, agent], loc_y[env, agent]
            if in_game[env, agent]:
                farthest = INFINITY
                for other in range(num_agents):
                    dx = loc_x[env, other] - x
                    dy = loc_y[env, other] - y
                    candidate = dx * dx + dy * dy
                    if candidate < farthest and other != agent and in_game[env, other]:
                        distance_before = ZERO
                        nearest_before = np.int32(other)
                        for k in range(K):
                            distance_here = squared_distance[k]
                            nearest_here = nearest[k]
                            squared_distance[k] = min(distance_here, max(distance_before, candidate))
                            nearest[k] = (
                                (nearest_before if candidate < distance_before else np.int32(other))
                                if candidate < distance_here
                                else nearest_here
                            )
                            distance_before = distance_here
                            nearest_before = nearest_here
                        farthest = squared_distance[K - 1]
            for k in range(K):
                other = nearest[k]
                found = ONE if squared_distance[k] < INFINITY else ZERO
                observations[env, agent, k] = (loc_x[env, other] - x) * location_scale
                observations[env, agent, K + k] = (loc_y[env, other] - y) * location_scale
                observations[env, agent, 2 * K + k] = (speed[env, other] - speed[env, agent]) * speed_scale
                observations[env, agent, 3 * K + k] = (
                    acceleration[env, other] - acceleration[env, agent]
                ) * speed_scale
                observations[env, agent, 4 * K + k] = (direction[env, other] - direction[env, agent]) * direction_scale
                observations[env, agent, 5 * K + k] = found if is_runner[other] else ZERO
                observations[env, agent, 6 * K + k] = found
            s = ONE if in_game[env, agent] else ZERO
            observations[env, agent, 7 * K] = np.float32(timestep[env]) * time_scale * s
