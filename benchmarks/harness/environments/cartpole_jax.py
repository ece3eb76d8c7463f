"""Cartpole in idiomatic JAX: random actions and resets, scanned under ``jit``.

The physics is generic over the array library, so that it can be tested without JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from warpdrive.envs.cartpole import CartPole

State = dict[str, Any]
NAMES = ("position", "velocity", "angle", "angular_velocity")


def move(state: State, actions: Any, env: CartPole, xp: Any) -> tuple[State, Any]:
    """Return the state (arrays ``[replicas]``) after one step, and the mask of terminated episodes."""
    x, v, theta, omega = (state[name] for name in NAMES)
    force = xp.where(actions == 1, np.float32(env.push_force), np.float32(-env.push_force))
    gravity, mass, moment = np.float32(env.gravity), np.float32(env.total_mass), np.float32(env.pole_moment)
    sine, cosine = xp.sin(theta), xp.cos(theta)
    push = (force + moment * omega * omega * sine) / mass
    resistance = np.float32(4 / 3) - np.float32(env.pole_mass) * cosine * cosine / mass
    angular_acceleration = (gravity * sine - cosine * push) / (np.float32(env.pole_half_length) * resistance)
    acceleration = push - moment * angular_acceleration * cosine / mass
    time_step = np.float32(env.time_step)
    moved = {
        "position": x + time_step * v,
        "velocity": v + time_step * acceleration,
        "angle": theta + time_step * omega,
        "angular_velocity": omega + time_step * angular_acceleration,
    }
    outside = abs(moved["position"]) > np.float32(env.largest_position)
    return moved, outside | (abs(moved["angle"]) > np.float32(env.largest_angle))


def scanned(num_envs: int, num_steps: int, env: CartPole | None = None) -> tuple[Callable[[Any], Any], Any]:
    """Return a compiled function that takes ``num_steps`` steps of all replicas, and its initial carry.

    It maps a carry to a carry: the key, the state, the time in the episode, and the return of the running episode,
    with the number of episodes that have ended. Observations and rewards are computed in every step, as in the kernels,
    and kept in the carry.
    """
    import jax
    import jax.numpy as jnp

    environment = env or CartPole()

    def start(key: Any) -> State:
        numbers = jax.random.uniform(key, (4, num_envs), jnp.float32, -environment.start_range, environment.start_range)
        return dict(zip(NAMES, numbers, strict=True))

    def step(carry: Any, _: None) -> tuple[Any, None]:
        key, state, time, returned, _, episodes = carry
        key, for_actions, for_start = jax.random.split(key, 3)
        actions = jax.random.bits(for_actions, (num_envs,), jnp.uint8) & 1
        moved, terminated = move(state, actions, environment, jnp)
        time, returned = time + 1, returned + 1
        done = terminated | (time >= environment.episode_length)
        new = start(for_start)
        state = {name: jnp.where(done, new[name], moved[name]) for name in NAMES}
        observations = jnp.stack([state[name] for name in NAMES], axis=-1)
        time, returned = jnp.where(done, 0, time), jnp.where(done, 0, returned)
        return (key, state, time, returned, observations, episodes + done), None

    @jax.jit
    def steps(carry: Any) -> Any:
        return jax.lax.scan(step, carry, None, length=num_steps)[0]

    key, for_start = jax.random.split(jax.random.key(0))
    zeros = jnp.zeros(num_envs, jnp.int32)
    return steps, (key, start(for_start), zeros, jnp.zeros(num_envs), jnp.zeros((num_envs, 4)), zeros)
