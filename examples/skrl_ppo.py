"""Train cartpole with PPO of skrl: pip install 'warpdrive[skrl]'.

python examples/skrl_ppo.py
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, Model
from skrl.trainers.torch import SequentialTrainer
from torch import nn

import warpdrive as wd


def network(num_inputs: int, num_outputs: int) -> nn.Sequential:
    """Return a perceptron with two hidden layers."""
    return nn.Sequential(
        *(nn.Linear(num_inputs, 64), nn.Tanh()), *(nn.Linear(64, 64), nn.Tanh()), nn.Linear(64, num_outputs)
    )


class Policy(CategoricalMixin, Model):
    """Categorical policy."""

    def __init__(self, **spaces: Any) -> None:
        Model.__init__(self, **spaces)
        CategoricalMixin.__init__(self)
        self.network = network(self.num_observations, self.num_actions)

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[torch.Tensor, dict[str, Any]]:
        """Return the logits."""
        return self.network(inputs["observations"]), {}


class Value(DeterministicMixin, Model):
    """Value function."""

    def __init__(self, **spaces: Any) -> None:
        Model.__init__(self, **spaces)
        DeterministicMixin.__init__(self)
        self.network = network(self.num_observations, 1)

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[torch.Tensor, dict[str, Any]]:
        """Return the value estimates."""
        return self.network(inputs["observations"]), {}


def train(total_steps: int = 500_000, num_envs: int = 256, seed: int = 1) -> float:
    """Train, and return the mean return of the episodes that ended in the last fifth of the steps."""
    torch.manual_seed(seed)
    env = wd.to_skrl("cartpole", num_envs, seed=seed)
    spaces = {
        "observation_space": env.observation_space,
        "state_space": env.state_space,
        "action_space": env.action_space,
        "device": env.device,
    }
    configuration = PPO_CFG(
        rollouts=32,
        learning_epochs=4,
        mini_batches=4,
        learning_rate=2e-3,
        discount_factor=0.98,
        entropy_loss_scale=0.005,
        value_loss_scale=0.5,
        value_clip=0,  # values are not normalised
        time_limit_bootstrap=True,
    )
    configuration.experiment.write_interval = configuration.experiment.checkpoint_interval = 0
    agent = PPO(
        models={"policy": Policy(**spaces), "value": Value(**spaces)},
        memory=RandomMemory(memory_size=32, num_envs=env.num_envs, device=env.device),
        cfg=configuration,
        **spaces,
    )
    steps = max(total_steps // num_envs, 5)
    for part in (steps - steps // 5, steps // 5):
        env.envs.replicas.episode_statistics()  # forget the earlier ones
        options = {"timesteps": part, "disable_progressbar": True, "close_environment_at_exit": False}
        SequentialTrainer(env=env, agents=agent, cfg=options).train()
    statistics = env.envs.replicas.episode_statistics()
    return float(statistics["return"].sum() / statistics["episodes"].clamp(min=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=500_000)
    print(f"mean return at the end: {train(parser.parse_args().steps):.0f}")
