"""Shared by the contestants of ``training.py``: hyperparameters of PPO, and the evaluation of a policy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import gymnasium
import numpy as np
import numpy.typing as npt

Layers = list[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]]
"""Weights ``[inputs, outputs]`` and bias of each layer of the policy network."""

HIDDEN = (64, 64)
"""Hidden layer sizes of the policy and value networks; tanh activations."""
ADAM_EPSILON = 1e-5


@dataclass(frozen=True)
class Settings:
    """Hyperparameters of PPO. Coefficients are shared; sizes, learning rates and threads are tuned per contestant.

    Attributes:
        num_envs: The number of replicas.
        num_steps: The number of steps of each replica in a rollout.
        minibatch_size: The number of rows of a minibatch.
        threads: The number of PyTorch threads; not used by JAX.
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
        """The number of environment steps per update."""
        return self.num_envs * self.num_steps

    @property
    def minibatches(self) -> int:
        """The number of minibatches per epoch."""
        return self.batch_size // self.minibatch_size

    def with_values(self, **values: str) -> Settings:
        """Return a copy with some values replaced by strings from the command line."""
        kinds = {name: type(value) for name, value in vars(self).items()}
        return replace(self, **{name: kinds[name](value) for name, value in values.items()})  # type: ignore[arg-type]


class Contestant(Protocol):
    """Protocol of a training run in progress."""

    def advance(self, updates: int) -> None:
        """Run ``updates`` rollouts and updates, and wait for their completion."""

    def policy(self) -> Layers:
        """Return the current policy."""


def mean_return(policy: Layers, episodes: int = 100, seed: int = 0) -> float:
    """Return the mean return of a policy with sampled actions, in Gymnasium's own ``CartPole-v1``."""
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
