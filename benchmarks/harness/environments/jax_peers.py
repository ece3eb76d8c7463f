"""Environments of JaxMARL, Jumanji and pgx with random actions, scanned under ``jit``, in a separate process.

    python jax_peers.py LIBRARY ENVIRONMENT REPLICAS SECONDS CORES

Writes the versions of the library and of JAX, or ``missing: ...``, and then, for each line on standard input, a
measurement in environment steps per second. Replicas whose episodes end are reset in the same step. Imports neither
PyTorch nor WarpDrive, so that any interpreter with the library can run it.
"""

from __future__ import annotations

import os
import sys
import time
from importlib.metadata import version
from typing import Any

JAX_STEPS = 64
"""The number of steps in a compiled scan."""


def jaxmarl(name: str) -> tuple[Any, Any]:
    """Return functions that reset and step an environment of JaxMARL; ``SMAX:3m`` names a scenario, too."""
    import jax
    import jaxmarl as library
    from jaxmarl.environments.smax import map_name_to_scenario

    name, _, scenario = name.partition(":")
    env = library.make(name, **({"scenario": map_name_to_scenario(scenario)} if scenario else {}))

    def step(key: Any, state: Any) -> tuple[Any, Any, Any]:
        key, for_actions, for_step = jax.random.split(key, 3)
        keys = dict(zip(env.agents, jax.random.split(for_actions, env.num_agents), strict=True))
        actions = {agent: env.action_space(agent).sample(keys[agent]) for agent in env.agents}
        observations, state, rewards, *_ = env.step(for_step, state, actions)
        return key, state, (observations, rewards)

    return lambda key: env.reset(key)[1], step


def jumanji(name: str) -> tuple[Any, Any]:
    """Return functions that reset and step an environment of Jumanji, with the parameters of ours."""
    import jax
    from jumanji.environments.routing import lbf, robot_warehouse
    from jumanji.wrappers import AutoResetWrapper

    if name == "LevelBasedForaging":
        generator = lbf.generator.RandomGenerator(grid_size=8, num_agents=2, num_food=2, fov=8, force_coop=True)
        inner, choices = lbf.LevelBasedForaging(generator, time_limit=50), 6
    else:
        generator = robot_warehouse.generator.RandomGenerator(
            shelf_rows=1, shelf_columns=3, column_height=8, num_agents=2, sensor_range=1, request_queue_size=2
        )
        inner, choices = robot_warehouse.RobotWarehouse(generator, time_limit=500), 5
    env = AutoResetWrapper(inner)

    def step(key: Any, state: Any) -> tuple[Any, Any, Any]:
        key, for_actions = jax.random.split(key)
        actions = jax.random.randint(for_actions, (inner.num_agents,), 0, choices)
        state, timestep = env.step(state, actions)
        return key, state, (timestep.observation, timestep.reward)

    return lambda key: env.reset(key)[0], step


def pgx(name: str) -> tuple[Any, Any]:
    """Return functions that reset and step a game of pgx, whose players take legal actions."""
    import jax
    import pgx as library
    from pgx.experimental import auto_reset

    env = library.make(name)
    advance = auto_reset(env.step, env.init)

    def step(key: Any, state: Any) -> tuple[Any, Any, Any]:
        key, for_action, for_reset = jax.random.split(key, 3)
        action = jax.random.categorical(for_action, jax.numpy.where(state.legal_action_mask, 0.0, -jax.numpy.inf))
        state = advance(state, action, for_reset)
        return key, state, (state.observation, state.rewards)

    return env.init, step


LIBRARIES = {"jaxmarl": jaxmarl, "jumanji": jumanji, "pgx": pgx}


def scanned(reset: Any, step: Any, replicas: int) -> tuple[Any, Any]:
    """Return a compiled scan of steps, and its carry: observations and rewards too, lest they be optimised away."""
    import jax

    keys = jax.random.split(jax.random.key(0), replicas)
    states = jax.vmap(reset)(keys)
    seen = jax.eval_shape(jax.vmap(step), keys, states)[2]
    zeros = jax.tree.map(lambda array: jax.numpy.zeros(array.shape, array.dtype), seen)

    @jax.jit
    def steps(carry: Any) -> Any:
        return jax.lax.scan(lambda c, _: (jax.vmap(step)(c[0], c[1]), None), carry, None, JAX_STEPS)[0]

    return steps, (keys, states, zeros)


def main() -> None:
    """Run the requested number of measurements."""
    library, name, replicas, seconds, cores = sys.argv[1], sys.argv[2], *map(float, sys.argv[3:])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the libraries print
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(cores)])  # before JAX counts the cores
    try:
        import jax

        steps, carry = scanned(*LIBRARIES[library](name), int(replicas))
        carry = jax.block_until_ready(steps(carry))  # compiles
    except ImportError as error:
        print(f"missing: {error}", file=answers, flush=True)
        return
    print(f"{library} {version(library)}, jax {version('jax')}", file=answers, flush=True)
    for _ in sys.stdin:
        calls, start = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds:
            carry = jax.block_until_ready(steps(carry))
            calls += 1
        print(calls * replicas * JAX_STEPS / elapsed, file=answers, flush=True)


if __name__ == "__main__":
    main()
