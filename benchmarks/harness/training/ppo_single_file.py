"""PPO in a single file, in the style of CleanRL (Huang et al. 2022, JMLR 23(274)); measured by ``training.py``.

The details are those of "The 37 implementation details of proximal policy optimization" (Huang et al., ICLR blog
track 2022). ``SyncVectorEnv``, which steps replicas sequentially, is what CleanRL uses; with ``arrays`` it is
Gymnasium's vectorised cartpole instead.
"""

from __future__ import annotations

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from torch import nn

from harness.training.settings import ADAM_EPSILON, HIDDEN, Layers, Settings


def perceptron(outputs: int, last_gain: float) -> nn.Sequential:
    """Return the policy or value network."""
    layers: list[nn.Module] = []
    inputs = 4
    for width in HIDDEN:
        layers += [initialised(nn.Linear(inputs, width), 2**0.5), nn.Tanh()]
        inputs = width
    return nn.Sequential(*layers, initialised(nn.Linear(inputs, outputs), last_gain))


def initialised(layer: nn.Linear, gain: float) -> nn.Linear:
    """Initialise the layer with orthogonal weights and zero bias."""
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class SingleFile:
    """PPO with PyTorch, in Gymnasium's ``CartPole-v1``."""

    def __init__(self, settings: Settings, seed: int, arrays: bool = False) -> None:
        torch.set_num_threads(settings.threads)
        torch.manual_seed(seed)
        self.settings = settings
        if arrays:
            self.envs = gymnasium.make_vec("CartPole-v1", settings.num_envs, vectorization_mode="vector_entry_point")
        else:
            self.envs = gymnasium.vector.SyncVectorEnv(
                [lambda: gymnasium.make("CartPole-v1")] * settings.num_envs, autoreset_mode=AutoresetMode.NEXT_STEP
            )
        self.actor, self.critic = perceptron(2, 0.01), perceptron(1, 1.0)
        self.parameters = [*self.actor.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.Adam(self.parameters, lr=settings.lr, eps=ADAM_EPSILON, fused=True)
        shape = (settings.num_steps, settings.num_envs)
        self.observations = torch.zeros(*shape, 4)
        self.actions = torch.zeros(shape, dtype=torch.long)
        self.log_probs, self.rewards, self.values = (torch.zeros(shape) for _ in range(3))
        self.starts = torch.zeros(settings.num_steps + 1, settings.num_envs)
        self.seen = torch.from_numpy(self.envs.reset(seed=seed)[0])
        self.starting = torch.zeros(settings.num_envs)

    def advance(self, updates: int) -> None:
        """See ``Contestant``."""
        for _ in range(updates):
            self.collect()
            self.update()

    @torch.no_grad()
    def collect(self) -> None:
        """Fill the rollout. In the step after the end of an episode an environment resets and ignores the action."""
        for t in range(self.settings.num_steps):
            self.observations[t], self.starts[t] = self.seen, self.starting
            distribution = torch.distributions.Categorical(logits=self.actor(self.seen))
            actions = distribution.sample()
            self.actions[t], self.log_probs[t] = actions, distribution.log_prob(actions)
            self.values[t] = self.critic(self.seen).squeeze(-1)
            seen, rewards, terminated, truncated, _ = self.envs.step(actions.numpy())
            self.seen, self.rewards[t] = torch.from_numpy(seen), torch.from_numpy(rewards.astype(np.float32))
            self.starting = torch.from_numpy((terminated | truncated).astype(np.float32))
        self.starts[-1] = self.starting

    @torch.no_grad()
    def advantages(self) -> torch.Tensor:
        """Return generalised advantage estimates ``[num_steps, num_envs]``; truncation counts as termination."""
        later, next_value = torch.zeros(self.settings.num_envs), self.critic(self.seen).squeeze(-1)
        advantages = torch.zeros_like(self.rewards)
        for t in reversed(range(self.settings.num_steps)):
            goes_on = 1.0 - self.starts[t + 1]
            delta = self.rewards[t] + self.settings.gamma * next_value * goes_on - self.values[t]
            later = delta + self.settings.gamma * self.settings.gae_lambda * goes_on * later
            advantages[t], next_value = later, self.values[t]
        return advantages

    def update(self) -> None:
        """Train on the rollout for several epochs."""
        advantages = self.advantages().flatten()
        returns = advantages + self.values.flatten()
        observations, actions = self.observations.flatten(0, 1), self.actions.flatten()
        log_probs = self.log_probs.flatten()
        for _ in range(self.settings.epochs):
            for rows in torch.randperm(len(actions)).split(self.settings.minibatch_size):
                distribution = torch.distributions.Categorical(logits=self.actor(observations[rows]))
                ratio = (distribution.log_prob(actions[rows]) - log_probs[rows]).exp()
                advantage = advantages[rows]
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                clipped = ratio.clamp(1 - self.settings.clip, 1 + self.settings.clip)
                policy_loss = -torch.minimum(ratio * advantage, clipped * advantage).mean()
                value_loss = 0.5 * (self.critic(observations[rows]).squeeze(-1) - returns[rows]).square().mean()
                loss = policy_loss + self.settings.value_coef * value_loss
                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.parameters, self.settings.max_grad_norm)
                self.optimizer.step()

    def policy(self) -> Layers:
        """See ``Contestant``."""
        linear = [layer for layer in self.actor if isinstance(layer, nn.Linear)]
        return [(layer.weight.detach().T.numpy(), layer.bias.detach().numpy()) for layer in linear]
