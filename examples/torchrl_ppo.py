"""Train cartpole with PPO of TorchRL: pip install 'warpdrive[torchrl]'.

python examples/torchrl_ppo.py
"""

from __future__ import annotations

import argparse

import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torch.distributions import Categorical
from torchrl.collectors import Collector
from torchrl.envs import Compose, InitTracker, RewardSum, TransformedEnv
from torchrl.modules import ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

import warpdrive as wd

NUM_STEPS, NUM_EPOCHS, NUM_MINIBATCHES, LEARNING_RATE = 32, 4, 4, 2.5e-3


def network(num_inputs: int, num_outputs: int) -> nn.Sequential:
    """Return a perceptron with two hidden layers."""
    return nn.Sequential(
        *(nn.Linear(num_inputs, 64), nn.Tanh()), *(nn.Linear(64, 64), nn.Tanh()), nn.Linear(64, num_outputs)
    )


def train(total_steps: int = 500_000, num_envs: int = 256, seed: int = 1) -> float:
    """Train, and return the mean return of the episodes that ended in the last fifth of the iterations."""
    torch.manual_seed(seed)
    env = TransformedEnv(wd.to_torchrl("cartpole", num_envs, seed=seed), Compose(InitTracker(), RewardSum()))
    num_inputs, num_actions = env.observation_spec["observation"].shape[-1], env.action_spec.space.n
    policy = TensorDictModule(network(num_inputs, num_actions), in_keys=["observation"], out_keys=["logits"])
    actor = ProbabilisticActor(
        policy, in_keys=["logits"], distribution_class=Categorical, return_log_prob=True, spec=env.action_spec
    ).to(env.device)
    critic = ValueOperator(network(num_inputs, 1), in_keys=["observation"]).to(env.device)
    advantage = GAE(gamma=0.98, lmbda=0.95, value_network=critic, average_gae=True)
    loss = ClipPPOLoss(actor, critic, clip_epsilon=0.2, entropy_coeff=0.01, critic_coeff=0.5)
    optimizer = torch.optim.Adam(loss.parameters(), lr=LEARNING_RATE, eps=1e-5)
    frames = NUM_STEPS * num_envs
    num_iterations = max(total_steps // frames, 5)
    collector = Collector(env, actor, frames_per_batch=frames, total_frames=num_iterations * frames)
    returns = []
    for iteration, batch in enumerate(collector):
        if iteration >= num_iterations - num_iterations // 5:
            returns.append(batch["next", "episode_reward"][batch["next", "done"]])
        optimizer.param_groups[0]["lr"] = (1 - iteration / num_iterations) * LEARNING_RATE
        with torch.no_grad():
            advantage(batch)
        rows = batch.reshape(-1)
        for _ in range(NUM_EPOCHS):
            for chosen in torch.randperm(frames, device=env.device).chunk(NUM_MINIBATCHES):
                losses = loss(rows[chosen])
                optimizer.zero_grad()
                (losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]).backward()
                nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                optimizer.step()
        collector.update_policy_weights_()
    collector.shutdown()
    return float(torch.cat(returns).mean())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=500_000)
    print(f"mean return at the end: {train(parser.parse_args().steps):.0f}")
