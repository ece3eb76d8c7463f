"""Evaluate a policy of a game of ``atari`` in ale-py's emulator, behind Gymnasium's wrappers.

    cd benchmarks && python -m harness.targets.ale ../runs/atari_pong_ram --episodes 20
    cd benchmarks && python -m harness.targets.ale ../runs/atari_pong_small --screen 42   # needs opencv-python
    python -m harness.targets.ale ../runs/atari_breakout_small --game ALE/Breakout-v5 --screen 42 --fire

The environment is ``ALE/Pong-v5``, four frames a step, with the sticky actions of the run. Observations are the memory,
or with ``--screen`` the pictures of Gymnasium's ``AtariPreprocessing``, stacked. Each episode begins with up to 30
frames without action, as in training.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import ale_py
import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

import warpdrive as wd

SKIP = 4
FIRE = 1


class IdleFrames(gymnasium.Wrapper):  # type: ignore[type-arg]
    """Up to 30 frames without action at the beginning of an episode of the memory."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """See ``gymnasium.Env``."""
        _, info = super().reset(seed=seed, options=options)
        ale = self.unwrapped.ale  # type: ignore[attr-defined]
        for _ in range(np.random.default_rng(seed).integers(1, 31)):
            ale.act(0)
        return ale.getRAM(), info


class Fire(gymnasium.Wrapper):  # type: ignore[type-arg]
    """A step of fire at the beginning and after each lost life, as ``fire_on_reset`` with ``terminal_on_life_loss``."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """See ``gymnasium.Env``."""
        super().reset(seed=seed, options=options)
        seen, *_, info = super().step(FIRE)
        return seen, info

    def step(self, action: int) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """See ``gymnasium.Env``."""
        lives = self.unwrapped.ale.lives()  # type: ignore[attr-defined]
        seen, reward, terminated, truncated, info = super().step(action)
        if self.unwrapped.ale.lives() < lives and not (terminated or truncated):  # type: ignore[attr-defined]
            seen, more, terminated, truncated, info = super().step(FIRE)
            reward = float(reward) + float(more)
        return seen, reward, terminated, truncated, info


def made(  # type: ignore[type-arg]
    game: str, stack: int, sticky: float, screen: int | None, fire: bool
) -> gymnasium.Env:
    """Return the environment, whose observations are ``[stack, ...]``.

    Args:
        game: The id in Gymnasium.
        stack: The number of stacked observations.
        sticky: The probability that an action is repeated.
        screen: The height and width of pictures in grey levels; None for the memory.
        fire: If True, fire is pressed where a life begins.
    """
    make = partial(gymnasium.make, game, repeat_action_probability=sticky)
    env: gymnasium.Env[Any, Any]
    if screen is None:
        env = IdleFrames(make(obs_type="ram", frameskip=SKIP))
    else:
        env = AtariPreprocessing(make(frameskip=1), frame_skip=SKIP, screen_size=screen)
    return FrameStackObservation(Fire(env) if fire else env, stack)


def play(env: gymnasium.Env, act: Callable[[Any], Any], seed: int) -> float:  # type: ignore[type-arg]
    """Return the return of one episode."""
    (seen, _), total, over = env.reset(seed=seed), 0.0, False
    while not over:
        seen, reward, terminated, truncated, _ = env.step(int(act(seen)))
        total, over = total + float(reward), terminated or truncated
    return total


def main() -> None:
    """Play the episodes, and print their returns and the mean."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="run folder or checkpoint")
    parser.add_argument("--game", default="ALE/Pong-v5", help="default: %(default)s")
    parser.add_argument("--episodes", type=int, default=20, help="default: %(default)s")
    parser.add_argument("--screen", type=int, help="height and width of the pictures; the default is the memory")
    parser.add_argument("--stack", type=int, help="stacked observations (default: 2 of the memory, 4 pictures)")
    parser.add_argument("--sticky", type=float, default=0.0, help="repeat_action_probability (default: %(default)s)")
    parser.add_argument("--fire", action="store_true", help="press fire where a life begins, as Breakout needs")
    parser.add_argument("--deterministic", action="store_true", help="take the most probable action")
    options = parser.parse_args()
    gymnasium.register_envs(ale_py)
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    policy = wd.load_policy(options.run)
    shape = (-1,) if options.screen is None else (-1, options.screen, options.screen)
    env = made(
        options.game,
        options.stack or (2 if options.screen is None else 4),
        options.sticky,
        options.screen,
        options.fire,
    )

    def act(seen: npt.NDArray[np.uint8]) -> Any:
        return policy.act(np.asarray(seen).reshape(shape), deterministic=options.deterministic)

    returns = [play(env, act, seed) for seed in range(options.episodes)]
    env.close()
    print(" ".join(f"{value:g}" for value in returns))
    print(f"mean return of {len(returns)} episodes in {options.game}: {np.mean(returns):.2f}")


if __name__ == "__main__":
    main()
