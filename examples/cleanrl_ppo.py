"""Train cartpole with a single-file PPO in the style of CleanRL, on tensors that never leave the device.

python examples/cleanrl_ppo.py
"""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.distributions import Categorical

import warpdrive as wd

NUM_STEPS, NUM_EPOCHS, NUM_MINIBATCHES = 32, 4, 4
GAMMA, GAE_LAMBDA, CLIP, ENTROPY, LEARNING_RATE = 0.98, 0.95, 0.2, 0.01, 2.5e-3


def network(num_inputs: int, num_outputs: int, scale: float) -> nn.Sequential:
    """Return a perceptron with orthogonal initialisation."""
    sizes = [(num_inputs, 64, 2**0.5), (64, 64, 2**0.5), (64, num_outputs, scale)]
    layers: list[nn.Module] = []
    for inputs, outputs, gain in sizes:
        layer = nn.Linear(inputs, outputs)
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)
        layers += [layer, nn.Tanh()]
    return nn.Sequential(*layers[:-1])


def train(total_steps: int = 500_000, num_envs: int = 256, seed: int = 1) -> list[float]:
    """Train, and return the mean returns of the episodes that ended, by iteration."""
    torch.manual_seed(seed)
    envs = wd.to_gymnasium("cartpole", num_envs, output="torch", seed=seed)
    device, num_inputs = envs.device, envs.single_observation_space.shape[0]
    actor = network(num_inputs, int(envs.single_action_space.n), 0.01).to(device)
    critic = network(num_inputs, 1, 1.0).to(device)
    parameters = [*actor.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE, eps=1e-5)
    shape = (NUM_STEPS, num_envs)
    obs = torch.zeros((*shape, num_inputs), device=device)
    actions = torch.zeros(shape, dtype=torch.int64, device=device)
    log_probs, rewards, values, dones = (torch.zeros(shape, device=device) for _ in range(4))
    num_iterations, means = max(total_steps // (NUM_STEPS * num_envs), 1), []
    next_obs, _ = envs.reset(seed=seed)

    for iteration in range(num_iterations):
        optimizer.param_groups[0]["lr"] = (1 - iteration / num_iterations) * LEARNING_RATE
        for step in range(NUM_STEPS):
            obs[step] = next_obs
            with torch.no_grad():
                policy = Categorical(logits=actor(next_obs))
                actions[step] = policy.sample()
                log_probs[step] = policy.log_prob(actions[step])
                values[step] = critic(next_obs)[:, 0]
                next_obs, rewards[step], terminated, truncated, infos = envs.step(actions[step])
                # an episode that ran out of time is worth what its last state is
                rewards[step] += GAMMA * critic(infos["final_obs"])[:, 0] * (truncated & ~terminated)
                dones[step] = (terminated | truncated).float()

        with torch.no_grad():
            advantages, advantage = torch.zeros_like(rewards), torch.zeros(num_envs, device=device)
            next_value = critic(next_obs)[:, 0]
            for step in reversed(range(NUM_STEPS)):
                going_on = 1 - dones[step]
                delta = rewards[step] + GAMMA * next_value * going_on - values[step]
                advantages[step] = advantage = delta + GAMMA * GAE_LAMBDA * going_on * advantage
                next_value = values[step]
            returns = advantages + values

        batch = [x.flatten(0, 1) for x in (obs, actions, log_probs, advantages, returns)]
        for _ in range(NUM_EPOCHS):
            for rows in torch.randperm(NUM_STEPS * num_envs, device=device).chunk(NUM_MINIBATCHES):
                b_obs, b_actions, b_log_probs, b_advantages, b_returns = (x[rows] for x in batch)
                policy = Categorical(logits=actor(b_obs))
                ratio = (policy.log_prob(b_actions) - b_log_probs).exp()
                b_advantages = (b_advantages - b_advantages.mean()) / (b_advantages.std() + 1e-8)
                policy_loss = -torch.min(b_advantages * ratio, b_advantages * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
                value_loss = 0.5 * (critic(b_obs)[:, 0] - b_returns).square().mean()
                optimizer.zero_grad()
                (policy_loss - ENTROPY * policy.entropy().mean() + 0.5 * value_loss).backward()
                nn.utils.clip_grad_norm_(parameters, 0.5)
                optimizer.step()

        statistics = envs.replicas.episode_statistics()
        if statistics["episodes"] > 0:
            means.append(float(statistics["return"].sum() / statistics["episodes"]))
    return means


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=500_000)
    print(f"mean return at the end: {train(parser.parse_args().steps)[-1]:.0f}")
