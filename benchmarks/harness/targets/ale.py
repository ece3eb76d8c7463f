"""Evaluate a policy of a game of ``atari``, trained with the console's memory, in ale-py's emulator.

    cd benchmarks && python -m harness.targets.ale ../runs/atari_pong_ram --episodes 20

The environment is Gymnasium's ``ALE/Pong-v5`` with the memory as observation, four frames a step, and the stack of
observations and the sticky actions of the run. Each episode begins with up to 30 frames without action, as in training.
"""

from __future__ import annotations

import argparse
from collections import deque

import ale_py
import gymnasium
import numpy as np

import warpdrive as wd


def play(policy: wd.TrainedPolicy, game: str, stack: int, sticky: float, seed: int, deterministic: bool) -> float:
    """Return the return of one episode.

    Args:
        policy: The policy.
        game: The id in Gymnasium.
        stack: The number of stacked observations.
        sticky: The probability that an action is repeated.
        seed: The seed of the environment and of the frames without action.
        deterministic: If True, the most probable action is taken.
    """
    skip = 4
    env = gymnasium.make(game, obs_type="ram", frameskip=skip, repeat_action_probability=sticky)
    memory, _ = env.reset(seed=seed)
    ale = env.unwrapped.ale  # type: ignore[attr-defined]
    for _ in range(np.random.default_rng(seed).integers(1, 31)):
        ale.act(0)
    memory = ale.getRAM()
    seen, total, over = deque([memory] * stack, maxlen=stack), 0.0, False
    while not over:
        action = policy.act(np.concatenate(seen), deterministic=deterministic)
        memory, reward, terminated, truncated, _ = env.step(int(action))
        seen.append(memory)
        total, over = total + float(reward), terminated or truncated
    return total


def main() -> None:
    """Play the episodes, and print their returns and the mean."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="run folder or checkpoint")
    parser.add_argument("--game", default="ALE/Pong-v5", help="default: %(default)s")
    parser.add_argument("--episodes", type=int, default=20, help="default: %(default)s")
    parser.add_argument("--stack", type=int, default=2, help="stacked observations (default: %(default)s)")
    parser.add_argument("--sticky", type=float, default=0.0, help="repeat_action_probability (default: %(default)s)")
    parser.add_argument("--deterministic", action="store_true", help="take the most probable action")
    options = parser.parse_args()
    gymnasium.register_envs(ale_py)
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    policy = wd.load_policy(options.run)
    returns = [
        play(policy, options.game, options.stack, options.sticky, seed, options.deterministic)
        for seed in range(options.episodes)
    ]
    print(" ".join(f"{value:g}" for value in returns))
    print(f"mean return of {len(returns)} episodes in {options.game}: {np.mean(returns):.2f}")


if __name__ == "__main__":
    main()
