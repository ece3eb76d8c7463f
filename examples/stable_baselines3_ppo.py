"""Train cartpole with PPO of Stable-Baselines3: pip install 'warpdrive[stable-baselines3]'.

python examples/stable_baselines3_ppo.py
"""

from __future__ import annotations

import argparse

from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy

import warpdrive as wd


def train(total_steps: int = 300_000, num_envs: int = 64, seed: int = 1) -> float:
    """Train, and return the mean return of 20 evaluation episodes."""
    env = wd.to_stable_baselines3("cartpole", num_envs, seed=seed)
    model = PPO("MlpPolicy", env, n_steps=32, batch_size=512, n_epochs=8, gamma=0.98, learning_rate=2e-3, seed=seed)
    model.learn(total_steps)
    evaluation = wd.to_stable_baselines3("cartpole", 20, seed=seed + 1)
    return float(evaluate_policy(model, evaluation, n_eval_episodes=20, warn=False)[0])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300_000)
    print(f"mean return: {train(parser.parse_args().steps):.0f}")
