"""Evaluate a policy of ``smax`` in JaxMARL's ``HeuristicEnemySMAX``: the share of battles that it wins.

cd benchmarks && python -m harness.targets.smax ../runs/smax --scenario 3m   # needs jaxmarl
"""

from __future__ import annotations

import argparse
import math
import os
from typing import Any

import numpy as np

import warpdrive as wd

os.environ.setdefault("JAX_PLATFORMS", "cpu")


def main() -> None:
    """Fight the battles, and print the share of victories with its standard error, and the mean return."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="run folder or checkpoint")
    parser.add_argument("--scenario", default="3m", help="a scenario of JaxMARL (default: %(default)s)")
    parser.add_argument("--battles", type=int, default=1000, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--deterministic", action="store_true", help="take the most probable actions")
    options = parser.parse_args()

    import jax
    from jaxmarl.environments.smax import HeuristicEnemySMAX, map_name_to_scenario

    env = HeuristicEnemySMAX(scenario=map_name_to_scenario(options.scenario))
    policy = wd.load_policy(options.run, tag="ally")
    step, masks = jax.jit(jax.vmap(env.step_env)), jax.jit(jax.vmap(env.get_avail_actions))
    key = jax.random.key(options.seed)
    seen, states = jax.jit(jax.vmap(env.reset))(jax.random.split(key, options.battles))
    fights, won = np.ones(options.battles, bool), np.zeros(options.battles, bool)
    returns = np.zeros(options.battles)

    def of_agents(arrays: Any) -> Any:
        return np.stack([np.asarray(arrays[name]) for name in env.agents], axis=1)

    number = 0
    while fights.any():
        possible = of_agents(masks(states)).astype(bool)
        begins = np.full(possible.shape[:2], number == 0)
        actions = policy.act(of_agents(seen), options.deterministic, possible, begins)
        number += 1
        keys = jax.random.split(jax.random.fold_in(key, number), options.battles)
        given = {name: actions[:, i] for i, name in enumerate(env.agents)}
        seen, states, rewards, dones, _ = step(keys, states, given)
        alive = np.asarray(states.state.unit_alive)
        returns += np.where(fights, np.asarray(rewards[env.agents[0]]), 0)
        is_won = alive[:, : env.num_allies].any(1) & ~alive[:, env.num_allies :].any(1)
        won |= fights & is_won
        fights &= ~np.asarray(dones["__all__"])
    share = won.mean()
    error = math.sqrt(share * (1 - share) / options.battles)
    print(
        f"{options.battles} battles of {options.scenario}: {share:.3f} +- {error:.3f} won, return {returns.mean():.3f}"
    )


if __name__ == "__main__":
    main()
