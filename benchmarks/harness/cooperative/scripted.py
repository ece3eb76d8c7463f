"""Returns of scripted good agents in `mpe-adversary`, against EPyMARL's adversary.

    cd benchmarks && EPYMARL=~/epymarl python -m harness.cooperative.scripted    # the 100 episodes of the table

Both agents move to the goal, or one of them moves to the other landmark, with or without knowledge of their velocities.
Velocities are not observed, but follow from an agent's past actions.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.cooperative.bound import KEPT_VELOCITY, PUSHES
from harness.cooperative.originals import FIRST_EPISODE, Particles

DRIFT = 0.35
"""Time in which the drift is predicted."""


def towards(offset: npt.NDArray[Any], velocity: npt.NDArray[Any]) -> int:
    """Return the action after which an agent drifts to the position closest to ``offset`` from it."""
    drifts = (velocity * KEPT_VELOCITY + PUSHES) * DRIFT
    return int(np.linalg.norm(offset - drifts, axis=1).argmin())


def episode(env: Particles, seed: int, is_split: bool, knows_velocity: bool) -> float:
    """Return the sum of a good agent's rewards in an episode."""
    env.reset(seed)
    good = [agent for agent in env.env.unwrapped.world.agents if not agent.adversary]
    goal = good[0].goal_a.state.p_pos
    (other,) = (mark.state.p_pos for mark in env.env.unwrapped.world.landmarks if mark is not good[0].goal_a)
    targets = [goal, other if is_split else goal]
    ways = [
        np.linalg.norm(np.array([a.state.p_pos for a in order]) - targets, axis=1).sum() for order in (good, good[::-1])
    ]
    if ways[1] < ways[0]:
        targets.reverse()
    total, done = 0.0, False
    while not done:
        places = [(agent.state.p_pos, agent.state.p_vel * knows_velocity) for agent in good]
        actions = [towards(target - at, velocity) for target, (at, velocity) in zip(targets, places, strict=True)]
        _, rewards, done = env.step(actions)
        total += rewards / len(good)
    return total


def main() -> None:
    """Play all episodes of the four kinds, and print their mean returns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=100, help="default: %(default)s")
    options = parser.parse_args()
    env = Particles("simple_adversary_v3", "good_agent", "adversary")
    for is_split in (False, True):
        for knows_velocity in (False, True):
            seeds = range(FIRST_EPISODE, FIRST_EPISODE + options.episodes)
            mean = np.mean([episode(env, seed, is_split, knows_velocity) for seed in seeds])
            where = "one to each landmark" if is_split else "both to the goal"
            print(f"{where}, velocities {'known' if knows_velocity else 'unknown'}: {mean:.2f}")


if __name__ == "__main__":
    main()
