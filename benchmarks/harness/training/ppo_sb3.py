"""PPO of Stable-Baselines3 (Raffin et al. 2021, JMLR 22(268)), measured by ``training.py``."""

from __future__ import annotations

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import Logger

from harness.training.settings import HIDDEN, Layers, Settings


class StableBaselines3:
    """PPO in Gymnasium's ``CartPole-v1`` with a sequential vector environment, as in the library's guide."""

    def __init__(self, settings: Settings, seed: int) -> None:
        torch.set_num_threads(settings.threads)
        self.settings = settings
        self.model = PPO(
            "MlpPolicy",
            make_vec_env("CartPole-v1", settings.num_envs, seed=seed),
            learning_rate=settings.lr,
            n_steps=settings.num_steps,
            batch_size=settings.minibatch_size,
            n_epochs=settings.epochs,
            gamma=settings.gamma,
            gae_lambda=settings.gae_lambda,
            clip_range=settings.clip,
            vf_coef=settings.value_coef,
            max_grad_norm=settings.max_grad_norm,
            policy_kwargs={"net_arch": {"pi": list(HIDDEN), "vf": list(HIDDEN)}, "activation_fn": torch.nn.Tanh},
            seed=seed,
            device="cpu",
        )
        self.model.set_logger(Logger(None, []))

    def advance(self, updates: int) -> None:
        """See ``Contestant``."""
        self.model.learn(updates * self.settings.batch_size, reset_num_timesteps=False)

    def policy(self) -> Layers:
        """See ``Contestant``."""
        policy = self.model.policy
        hidden = [layer for layer in policy.mlp_extractor.policy_net if isinstance(layer, torch.nn.Linear)]
        layers = [*hidden, policy.action_net]
        return [(layer.weight.detach().T.numpy(), layer.bias.detach().numpy()) for layer in layers]
