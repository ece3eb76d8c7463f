"""Train cartpole with PPO of rsl_rl: pip install 'warpdrive[rsl-rl]'.

python examples/rsl_rl_ppo.py
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from rsl_rl.runners import OnPolicyRunner

import warpdrive as wd


def configuration(num_steps: int) -> dict[str, Any]:
    """Return the configuration of the runner."""
    network = {"class_name": "rsl_rl.models.MLPModel", "hidden_dims": [64, 64], "activation": "tanh"}
    return {
        "num_steps_per_env": num_steps,
        "save_interval": 1_000_000,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "actor": {
            **network,
            "distribution_cfg": {"class_name": "rsl_rl.modules.GaussianDistribution", "init_std": 1.0},
        },
        "critic": dict(network),
        "algorithm": {
            "class_name": "rsl_rl.algorithms.PPO",
            "gamma": 0.98,
            "entropy_coef": 0.0,
            "learning_rate": 1e-3,
            "desired_kl": 0.02,
        },
    }


def train(total_steps: int = 1_000_000, num_envs: int = 256, seed: int = 1) -> float:
    """Train, and return the mean return of the episodes that ended in the last fifth of the iterations."""
    torch.manual_seed(seed)
    env, num_steps = wd.to_rsl_rl("cartpole", num_envs, seed=seed), 32
    runner = OnPolicyRunner(env, configuration(num_steps), log_dir=None, device=str(env.device))
    iterations = max(total_steps // (num_envs * num_steps), 5)
    runner.learn(iterations - iterations // 5)
    env.envs.replicas.episode_statistics()  # forget the earlier ones
    runner.learn(iterations // 5)
    statistics = env.envs.replicas.episode_statistics()
    return float(statistics["return"].sum() / statistics["episodes"].clamp(min=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1_000_000)
    print(f"mean return at the end: {train(parser.parse_args().steps):.0f}")
