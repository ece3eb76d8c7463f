"""Evaluation of policies in Gymnasium's own environments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FIRST_EPISODE = 1000
"""The seed of the first episode's start state."""


def play(name: str, episodes: int, act: Callable[[Any], Any] | None) -> float:
    """Return the mean return of parallel episodes in an environment of Gymnasium.

    Args:
        name: The id of the environment.
        episodes: The number of episodes, each with its own seed.
        act: Maps observations ``[running episodes, ...]`` to actions; None samples random ones.
    """
    import gymnasium
    import numpy as np

    envs = [gymnasium.make(name) for _ in range(episodes)]
    seen = [env.reset(seed=FIRST_EPISODE + number)[0] for number, env in enumerate(envs)]
    for number, env in enumerate(envs):
        env.action_space.seed(FIRST_EPISODE + number)
    returns, playing = np.zeros(episodes), list(range(episodes))
    while playing:
        if act is None:
            actions = [envs[number].action_space.sample() for number in playing]
        else:
            actions = list(act(np.stack([seen[number] for number in playing])))
        for number, action in zip(list(playing), actions, strict=True):
            seen[number], reward, terminated, truncated, _ = envs[number].step(action)
            returns[number] += float(reward)
            if terminated or truncated:
                playing.remove(number)
    for env in envs:
        env.close()
    return float(returns.mean())
