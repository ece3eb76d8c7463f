"""What the contestants of ``training.py`` share: hyper-parameters of PPO, and how a policy's return is measured."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import gymnasium
import numpy as np
import numpy.typing as npt

Layers = list[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]]
"""Of the policy's perceptron: each layer's weights ``[inputs, outputs]`` and its bias."""

HIDDEN = (64, 64)
"""Of the policy, and likewise of the value; tanh."""
ADAM_EPSILON = 1e-5


@dataclass(frozen=True)
class Settings:
    """Of PPO. Everybody has the same coefficients; sizes, learning rates and threads are each contestant's best.

    Attributes:
        num_envs: replicas.
        num_steps: of each replica in a rollout.
        minibatch_size: rows.
        threads: of PyTorch; JAX has its own mind.
    """

    num_envs: int = 64
    num_steps: int = 32
    minibatch_size: int = 512
    lr: float = 1e-3
    threads: int = 1
    epochs: int = 4
    gamma: float = 0.98
    gae_lambda: float = 0.9
    clip: float = 0.2
    value_coef: float = 0.5
    max_grad_norm: float = 0.5

    @property
    def batch_size(self) -> int:
        """Environment steps per update."""
        return self.num_envs * self.num_steps

    @property
    def minibatches(self) -> int:
        """Per epoch."""
        return self.batch_size // self.minibatch_size

    def with_values(self, **values: str) -> Settings:
        """The same with some values from the command line."""
        kinds = {name: type(value) for name, value in vars(self).items()}
        return replace(self, **{name: kinds[name](value) for name, value in values.items()})  # type: ignore[arg-type]


class Contestant(Protocol):
    """A training run that is under way."""

    def advance(self, updates: int) -> None:
        """Do so many rollouts and updates, and wait until they are done."""

    def policy(self) -> Layers:
        """What acts now."""


def mean_return(policy: Layers, episodes: int = 100, seed: int = 0) -> float:
    """Mean return of a policy that samples its actions, in Gymnasium's own ``CartPole-v1``."""
    envs = gymnasium.make_vec("CartPole-v1", episodes, vectorization_mode="vector_entry_point")
    generator = np.random.default_rng(seed)
    observations, _ = envs.reset(seed=seed)
    returns, running = np.zeros(episodes), np.ones(episodes, bool)
    while running.any():
        logits = _forward(policy, observations)
        push_right = generator.random(episodes) < 0.5 * (1.0 + np.tanh(0.5 * (logits[:, 1] - logits[:, 0])))
        observations, rewards, terminated, truncated, _ = envs.step(push_right.astype(np.int64))
        returns += running * rewards
        running &= ~(terminated | truncated)
    return float(returns.mean())


def _forward(policy: Layers, observations: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    hidden = observations
    for weight, bias in policy[:-1]:
        hidden = np.tanh(hidden @ weight + bias)
    weight, bias = policy[-1]
    return hidden @ weight + bias
