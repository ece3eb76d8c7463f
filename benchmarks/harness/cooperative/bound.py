"""Return that `mpe-speaker-listener` allows: a search over the listener's actions, which knows the goal from the start.

    cd benchmarks && python -m harness.cooperative.bound    # the 100 episodes of the table

A beam search keeps the best positions and velocities after each of the 25 steps, by the sum of squared distances so far
and that of the position to which the listener drifts. With a policy, the listener hears the speaker only after its
first action.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import numpy.typing as npt
from mpe2.simple_speaker_listener.simple_speaker_listener import raw_env

from harness.cooperative.originals import FIRST_EPISODE

STEPS, TIME_STEP, KEPT_VELOCITY, ACCELERATION = 25, 0.1, 0.75, 5.0
PUSHES = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]]) * ACCELERATION * TIME_STEP
DRIFT = 0.22
"""Time in which the drift is predicted."""


def least_cost(start: npt.NDArray[Any], goal: npt.NDArray[Any], width: int) -> float:
    """Return the least sum of squared distances to ``goal`` that the search finds, at rest in ``start`` at first."""
    place, velocity, cost = start[None], np.zeros((1, 2)), np.zeros(1)
    for _ in range(STEPS):
        place = np.repeat(place + velocity * TIME_STEP, len(PUSHES), axis=0)
        velocity = (velocity[:, None] * KEPT_VELOCITY + PUSHES).reshape(-1, 2)
        cost = np.repeat(cost, len(PUSHES)) + ((place - goal) ** 2).sum(axis=1)
        if len(cost) > width:
            promise = cost + 2 * ((place + DRIFT * velocity - goal) ** 2).sum(axis=1)
            kept = np.argpartition(promise, width)[:width]
            place, velocity, cost = place[kept], velocity[kept], cost[kept]
    return float(cost.min())


def main() -> None:
    """Search all episodes, and print the mean return."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=100, help="default: %(default)s")
    parser.add_argument("--width", type=int, default=4000, help="positions kept after each step (default: %(default)s)")
    options = parser.parse_args()
    returns = []
    for seed in range(FIRST_EPISODE, FIRST_EPISODE + options.episodes):
        env = raw_env(max_cycles=STEPS)
        env.reset(seed=seed)
        speaker, listener = env.world.agents
        # both agents have the same reward
        returns.append(-2 * least_cost(listener.state.p_pos, speaker.goal_b.state.p_pos, options.width))
    print(f"{options.episodes} episodes: {np.mean(returns):.2f}")


if __name__ == "__main__":
    main()
