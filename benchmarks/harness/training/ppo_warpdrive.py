"""WarpDrive's PPO on cartpole; measured by ``training.py``."""

from __future__ import annotations

import torch

from harness.training.settings import Layers, Settings
from warpdrive.training.config.load import load_config
from warpdrive.training.trainer import Trainer, make_env


class WarpDrive:
    """Trainer of the shipped run configuration ``cartpole``."""

    def __init__(self, settings: Settings, seed: int) -> None:
        torch.set_num_threads(settings.threads)
        sizes = {"num_envs": settings.num_envs, "train_batch_size": settings.batch_size, "seed": seed}
        coefficients = {
            "minibatches": settings.minibatches,
            "entropy_coef": 0.0,
            **{
                name: getattr(settings, name)
                for name in ("lr", "epochs", "gamma", "gae_lambda", "clip", "value_coef", "max_grad_norm")
            },
        }
        overrides = [f"trainer.{name}={value}" for name, value in sizes.items()]
        overrides += [f"policy.agent.{name}={value}" for name, value in coefficients.items()]
        config = load_config("cartpole", overrides)
        self.trainer = Trainer(make_env(config), config)

    def advance(self, updates: int) -> None:
        """See ``Contestant``."""
        for _ in range(updates):
            self.trainer.collect()
            self.trainer.update()

    def policy(self) -> Layers:
        """See ``Contestant``."""
        state = self.trainer.policies["agent"].model.state_dict()
        depths = [name.removesuffix(".weight") for name in state if name.startswith("policy.") and "weight" in name]
        return [(state[f"{name}.weight"].T.numpy(), state[f"{name}.bias"].numpy()) for name in depths]
