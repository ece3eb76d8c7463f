"""Evaluate the red policy of ``battle`` in MAgent2's ``battle_v4``, against random agents or another policy.

cd benchmarks && python -m harness.targets.magent2 ../runs/battle   # needs magent2
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import warpdrive as wd
from warpdrive.envs.battle.original import MAgent2
from warpdrive.training.checkpoint.run_folder import find_run
from warpdrive.training.config.load import load_config

VIEWS = ("view_range", "see_health", "minimap")
"""Parameters that say what agents observe."""


def main() -> None:
    """Fight the battles, and print the share of victories, the survivors and the mean return."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="run folder, or the folder of several, of which the newest is taken")
    parser.add_argument("--blue", metavar="RUN", help="the same of a policy of blue agents")
    parser.add_argument("--map-size", type=int, default=45, help="of MAgent2, 12 or more (default: %(default)s)")
    parser.add_argument("--battles", type=int, default=10, help="default: %(default)s")
    parser.add_argument("--steps", type=int, default=500, help="at most, of a battle (default: %(default)s)")
    options = parser.parse_args()

    parameters = load_config(find_run(options.run).config).env.parameters
    views: dict[str, Any] = {name: parameters[name] for name in VIEWS if name in parameters}
    policies = [
        wd.load_policy(options.run, tag="red"),
        wd.load_policy(options.blue, tag="blue") if options.blue else None,
    ]
    won, standing, returns = 0, np.zeros(2), []
    for battle in range(options.battles):
        game = MAgent2(options.map_size, seed=battle, **views)
        size, rng = game.env.agents_per_team, np.random.default_rng(battle)
        total = np.zeros(2 * size)
        for number in range(options.steps):
            state = game.state()
            seen = game.env.reference_observe(state)
            actions = rng.integers(game.env.action_space.n, size=2 * size)
            for policy, team in zip(policies, (slice(size), slice(size, None)), strict=True):
                if policy is not None:
                    actions[team] = policy.act(seen[team], episode_start=np.full(size, number == 0))
            rewards, is_over = game.step(actions)
            total += rewards
            if is_over:
                break
        alive = game.state()["active"].reshape(2, size).sum(1)
        standing += alive
        won += int(alive[1] == 0 < alive[0])
        returns.append(total[:size].mean())
    red, blue = standing / options.battles
    print(
        f"{options.battles} battles of {size} agents each: {won} won by red; {red:.1f} red and {blue:.1f} blue agents "
        f"stand at the end; the mean return of red is {np.mean(returns):.2f}"
    )


if __name__ == "__main__":
    main()
