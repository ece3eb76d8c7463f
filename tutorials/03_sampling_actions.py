# %% [markdown]
# # Sampling actions
#
# A policy network outputs logits, from which actions are sampled: for every agent of every replica, in every step, on
# the device, and reproducibly. Are the samples distributed correctly, and are they still the same if a run is divided
# among processes?
#
# This tutorial tests this in a hall of slot machines. It covers discrete, multi-discrete and continuous actions,
# masks, and random streams. Nothing is trained. It takes about 10 seconds on two cores; no GPU is needed.

# %%
# In a hosted notebook (Colab, Kaggle): upload a source checkout or wheel of WarpDrive, and run the next line without its #.
# %pip install --quiet "./warpdrive"

# %%
import math

import matplotlib.pyplot as plt
import numpy as np
import torch
from gymnasium import spaces
from numba import cuda

import warpdrive as wd

# %% [markdown]
# ## The hall
#
# A player stands before five machines, and pulls one of them in each step. Machine $k$ pays `payoff[k]` on average,
# with normal noise. The noise is drawn in the kernel: `wd.random.normal(rng, env, agent)` returns the next number of
# this agent's stream. The array `rng` exists because a kernel has a parameter of this name.


# %%
@wd.kernel
def pull(actions, rewards, rng, payoff):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    rewards[env, agent] = payoff[actions[env, agent]] + wd.random.normal(rng, env, agent)


class Hall(wd.Environment):
    """A player pulls one of five slot machines in each step."""

    name = "hall"
    step = pull
    num_agents, policy_tags, episode_length = 1, {"player": [0]}, 1000
    observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = spaces.Discrete(5)
    payoff = np.array([0.2, 0.4, 0.6, 0.8, 1.0], np.float32)

    def initial_state(self, rng):
        return {"observations": np.zeros((1, 1), np.float32)}


# %% [markdown]
# ## From logits to actions
#
# `env.logits(tag)` is the array that a policy writes before each step: for discrete actions, unnormalised
# log-probabilities. `step_rollout` samples an action from them for every agent, steps the environment, and records
# both in a rollout buffer. All of this is a single launch.
#
# The player of this hall prefers machines that pay: its logits are the payoffs, divided by a temperature.


# %%
def play(env, num_steps):
    """Sample actions from the logits for some steps; return the rollout."""
    rollout = env.allocate_rollout(num_steps)
    for _ in range(num_steps):
        env.step_rollout(rollout)
    return rollout


env = wd.EnvWrapper(Hall(), num_envs=1000, seed=1)
payoff = torch.tensor(Hall.payoff, device=env.device)
print("logits:", tuple(env.logits("player").shape), "replicas, agents of the tag, machines")

env.logits("player").copy_(payoff / 0.3)
rollout = play(env, 100)
print("actions:", tuple(rollout.actions.shape), "steps, replicas, agents")
print("the first replica's first actions:", rollout.actions[:12, 0, 0].tolist())

# %% [markdown]
# Actions should be drawn with the softmax of the logits. Of 100,000 pulls, the relative frequency of a machine with
# probability $p$ has the standard error $\sqrt{p(1-p)/100000}$: at most 0.0016.


# %%
def frequencies(actions, choices):
    return (torch.bincount(actions.flatten().long(), minlength=choices) / actions.numel()).cpu().numpy()


_, panels = plt.subplots(1, 3, figsize=(6.5, 2.3), dpi=80, layout="tight", sharey=True)
for panel, temperature in zip(panels, [0.1, 0.3, 3.0], strict=True):
    env.logits("player").copy_(payoff / temperature)
    rollout = play(env, 100)
    expected = torch.softmax(payoff / temperature, dim=0).cpu().numpy()
    found = frequencies(rollout.actions, 5)
    errors = (found - expected) / np.sqrt(expected * (1 - expected) / rollout.actions.numel())
    panel.bar(range(5), found, color="tab:blue", alpha=0.5, label="frequency")
    panel.plot(range(5), expected, "k_", markersize=14, label="probability")
    panel.set(title=f"temperature {temperature}", xlabel="machine")
    print(
        f"temperature {temperature}: at most {np.abs(errors).max():.1f} standard errors from the softmax, "
        f"mean reward {rollout.rewards.mean():.2f}, expected {expected @ Hall.payoff:.2f}"
    )
panels[0].legend(fontsize=8)
plt.show()

# %% [markdown]
# With a low temperature the best machine is pulled nearly always, with a high one all machines equally often. The
# entropy bonus of PPO has a similar effect, and prevents a policy from becoming deterministic too early.
#
# The rollout records the log-probability of each action, too. Policy gradients need it. With `env.greedy = True` the
# most probable action is taken instead, as for an evaluation.

# %%
recorded = rollout.log_probabilities[0, :, 0]
calculated = torch.log_softmax(payoff / temperature, dim=0)[rollout.actions[0, :, 0].long()]
print(f"log-probabilities differ from PyTorch's by at most {(recorded - calculated).abs().max():.1e}")

env.greedy = True
print("machines pulled by the greedy player:", play(env, 100).actions.unique().tolist())
env.greedy = False

# %% [markdown]
# ## Masks
#
# In the next hall a machine has to cool down: a player cannot pull it twice in a row. A kernel with the parameter
# `action_mask` states which actions are allowed. Forbidden actions are never drawn, whatever their logits are, and
# the others share their probability.


# %%
@wd.kernel
def pull_and_cool(actions, rewards, rng, payoff, action_mask):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    rewards[env, agent] = payoff[actions[env, agent]] + wd.random.normal(rng, env, agent)
    for machine in range(5):
        action_mask[env, agent, machine] = machine != actions[env, agent]


class CoolingHall(Hall):
    """A machine that was pulled is blocked in the next step."""

    step = pull_and_cool


cooling = wd.EnvWrapper(CoolingHall(), num_envs=1000, seed=2)
cooling.logits("player").copy_(payoff / 0.3)
rollout = play(cooling, 110)
again = (rollout.actions[1:] == rollout.actions[:-1]).sum()
print(f"{again} of {rollout.actions[1:].numel()} pulls repeat the one before")

# %% [markdown]
# How often is each machine pulled now? The pulls are a Markov chain. With $p$ the softmax of the logits, machine $j$
# follows $i$ with probability $p_j / (1 - p_i)$, and the chain's stationary distribution is proportional to
# $p_i (1 - p_i)$. The first ten steps are left out, until the chain is stationary.

# %%
p = torch.softmax(payoff / 0.3, dim=0).cpu().numpy()
stationary = p * (1 - p) / (p * (1 - p)).sum()
found = frequencies(rollout.actions[10:], 5)

_, axes = plt.subplots(figsize=(6, 2.3), dpi=80, layout="tight")
axes.bar(range(5), found, color="tab:blue", alpha=0.5, label="frequency with cooling")
axes.plot(range(5), stationary, "k_", markersize=24, label="stationary distribution")
axes.plot(range(5), p, "_", color="tab:red", markersize=24, label="softmax, without a mask")
axes.set(xlabel="machine", xticks=range(5))
axes.legend(fontsize=8)
plt.show()
print(f"largest difference from the stationary distribution: {np.abs(found - stationary).max():.4f}")

# %% [markdown]
# ## Several choices at once
#
# With a `MultiDiscrete` space an agent makes several choices in each step: here one of three directions and one of two speeds.
# The logits of all components are concatenated, $3 + 2$ of them. Components are drawn independently, and their log-probabilities
# are added.


# %%
@wd.kernel
def do_nothing(rewards):
    rewards[cuda.blockIdx.x, cuda.threadIdx.x] = 0


class Idle(Hall):
    """Any action space, in which nothing happens."""

    name = "idle"
    step = do_nothing

    def __init__(self, action_space):
        self.action_space = action_space


idle = wd.EnvWrapper(Idle(spaces.MultiDiscrete([3, 2])), num_envs=1000, seed=3)
direction, speed = torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.9, 0.1])
idle.logits("player").copy_(torch.cat([direction, speed]).log())
rollout = play(idle, 100)
print("actions:", tuple(rollout.actions.shape), "steps, replicas, agents, components")
joint = torch.zeros(3, 2)
for i in range(3):
    for j in range(2):
        joint[i, j] = (rollout.actions == torch.tensor([i, j], device=env.device)).all(dim=-1).float().mean()
print(f"found:\n{joint.numpy().round(3)}\nexpected:\n{torch.outer(direction, speed).numpy().round(3)}")

# %% [markdown]
# ## Continuous actions
#
# For a `Box`, the policy writes the means of all components, and then the logarithms of their standard deviations.
# Samples are normally distributed, so some lie outside of the box. The environment receives them **clipped** to the
# bounds, while the rollout keeps the unclipped sample with its log-probability; `env.actions(tag)` returns the
# actions that the environment received. With `env.squash(tag)` set to 1 the environment receives the hyperbolic
# tangent of the sample instead, scaled to the box, as in SAC.

# %%
steering = wd.EnvWrapper(Idle(spaces.Box(-1.0, 1.0, (1,))), num_envs=20_000, seed=4)
mean, deviation = 0.5, 0.4
steering.logits("player").copy_(torch.tensor([mean, math.log(deviation)]))

_, panels = plt.subplots(1, 2, figsize=(6.5, 2.4), dpi=80, layout="tight", sharey=True)
x = np.linspace(-1, 1.8, 200)
density = np.exp(-(((x - mean) / deviation) ** 2) / 2) / (deviation * math.sqrt(2 * math.pi))
for panel, squashed in zip(panels, [0, 1], strict=True):
    steering.squash("player").fill_(squashed)
    samples = play(steering, 1).actions.flatten().cpu()
    reached = steering.actions("player").flatten().cpu()
    panel.hist(samples, bins=56, range=(-1, 1.8), density=True, alpha=0.4, label="sample (recorded)")
    panel.hist(reached, bins=56, range=(-1, 1.8), density=True, histtype="step", color="tab:red", label="action")
    panel.plot(x, density, "k--", linewidth=1, label="normal density")
    panel.set(title="squashed" if squashed else "clipped", ylim=(0, 3))
    print(f"{'squashed' if squashed else 'clipped'}: actions between {reached.min():.3f} and {reached.max():.3f}")
panels[0].legend(fontsize=7)
plt.show()

# %% [markdown]
# The sample follows the normal density in both cases. Clipping moves samples outside of the bounds onto the bounds,
# squashing transforms the whole distribution.
#
# ## The same random numbers in any number of processes
#
# Random numbers are not drawn from one sequence, which replicas would have to share. They are a function of a
# counter, Philox 4x32-10 (Salmon et al., SC 2011): the seed, the index of the replica, the agent, and the number of
# previous draws of that agent. The sampler has its own counters, separate from those of kernels.
#
# So a replica's stream depends neither on the number of replicas nor on the core or process that steps it. In a run
# of several processes, `first_env` is the global index of a process's first replica. Here 20 replicas are stepped
# together, then as two groups of 8 and 12, as two processes would:


# %%
def pulls(num_envs, first_env=0, seed=5):
    env = wd.EnvWrapper(Hall(), num_envs, seed=seed, first_env=first_env)
    env.logits("player").copy_(payoff)
    rollout = play(env, 40)
    return rollout.actions[..., 0].T.cpu(), rollout.rewards[..., 0].T.cpu()


together, apart = pulls(20), [torch.cat(parts) for parts in zip(pulls(8), pulls(12, first_env=8), strict=True)]
other_seed = pulls(20, seed=6)

_, panels = plt.subplots(1, 3, figsize=(7, 2.6), dpi=80, layout="tight", sharey=True)
names = ["20 replicas together", "8 and 12 replicas", "another seed"]
for panel, name, (actions, _) in zip(panels, names, [together, apart, other_seed], strict=True):
    panel.imshow(actions, cmap="viridis", aspect="auto", interpolation="nearest")
    panel.set(title=name, xlabel="step", ylabel="replica" if name == names[0] else "")
plt.show()
for name, (actions, rewards) in zip(names[1:], [apart, other_seed], strict=True):
    same = (actions == together[0]).float().mean(), (rewards == together[1]).float().mean()
    print(f"{name}: {same[0]:.0%} of the actions and {same[1]:.0%} of the rewards are those of the first run")

# %% [markdown]
# The first two pictures are identical, and so are the rewards, bit for bit. With another seed, actions agree by
# chance only. This is why `warpdrive train --num_processes 4` has the results of one process.
#
# ## What was learned
#
# - Policies write `env.logits(tag)`; `step_rollout` samples, steps and records actions and their log-probabilities.
# - Frequencies agree with the softmax of the logits; a mask excludes actions and rescales the others.
# - `MultiDiscrete` concatenates the logits of its components; `Box` takes means and logarithms of standard
#   deviations, and actions are clipped or squashed.
# - Random numbers are a function of seed, replica, agent and count: results depend on the seed, and not on how
#   replicas are divided between launches, cores or processes.
#
# ## Exercises
#
# **Exercise 1.** Define `answer`, a tensor of five logits with which machine 4 is pulled in half of all steps, machine 3 in a
# quarter, and the other three equally often.

# %% tags=["exercise"]
answer = None

# %% tags=["check"]
if answer is None:
    print("Exercise 1: not answered yet")
else:
    env.logits("player").copy_(torch.as_tensor(answer, dtype=torch.float32))
    found = frequencies(play(env, 100).actions, 5)
    expected = np.array([1 / 12, 1 / 12, 1 / 12, 1 / 4, 1 / 2])
    if np.abs(found - expected).max() < 5 * 0.0016:  # standard errors
        print("Exercise 1: correct")
    else:
        print(f"Exercise 1: found frequencies {found.round(3)}, expected {expected.round(3)}")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# answer = torch.tensor([1 / 12, 1 / 12, 1 / 12, 1 / 4, 1 / 2]).log()
# ```
#
# </details>

# %% [markdown]
# **Exercise 2.** Complete the kernel `roll`: each agent rolls two dice of six sides, and `total[env, agent]` becomes their sum, 2
# to 12. `wd.random.integer(rng, env, agent, n)` draws an integer from 0 to n - 1.


# %% tags=["exercise"]
@wd.kernel
def roll(rng, total):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    total[env, agent] = 0


# %% tags=["check"]
rng, total = wd.random.initial_rng(seed=7, first_env=0, num_envs=2000, num_agents=20), np.zeros((2000, 20), np.int32)
roll[2000, 20](rng, total)
counts = np.bincount(total.flatten(), minlength=13) / total.size
expected = np.array([0, 0, *range(1, 7), *range(5, 0, -1)]) / 36
if not total.any():
    print("Exercise 2: not answered yet")
elif total.min() < 2 or total.max() > 12:
    print(f"Exercise 2: sums lie between {total.min()} and {total.max()}, expected 2 to 12")
elif np.abs(counts - expected).max() > 5 * math.sqrt(5 / 36 / total.size):  # standard errors
    print(f"Exercise 2: sums of 2 to 12 have the frequencies {counts[2:].round(3)}, expected {expected[2:].round(3)}")
else:
    print("Exercise 2: correct")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# @wd.kernel
# def roll(rng, total):
#     env, agent = cuda.blockIdx.x, cuda.threadIdx.x
#     total[env, agent] = 2 + wd.random.integer(rng, env, agent, 6) + wd.random.integer(rng, env, agent, 6)
# ```
#
# </details>

# %% [markdown]
# **Exercise 3.** A run of 100 replicas is divided among four processes, 25 each. Define `third`, the `EnvWrapper` of the third
# process for the environment `Hall` with seed 8.

# %% tags=["exercise"]
third = None

# %% tags=["check"]
if third is None:
    print("Exercise 3: not answered yet")
elif third.num_envs != 25:
    print(f"Exercise 3: found {third.num_envs} replicas, expected 25")
else:
    whole = wd.EnvWrapper(Hall(), 100, seed=8)
    third.reset(seed=third.seed)
    expected, found = (play(wrapper, 20).actions.cpu() for wrapper in (whole, third))
    if torch.equal(found, expected[:, 50:75]):
        print("Exercise 3: correct")
    else:
        print(f"Exercise 3: replica 0 of it pulls {found[:6, 0, 0].tolist()}, expected {expected[:6, 50, 0].tolist()}")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# third = wd.EnvWrapper(Hall(), 25, seed=8, first_env=50)
# ```
#
# </details>

# %% [markdown]
# ## Where next
#
# - [Resetting and recording](04_resetting_and_recording.ipynb): where episodes begin and end, and how to keep one.
# - [Scaling up](09_scaling_up.ipynb): several processes that share a run.
# - [Writing environments](../docs/guides/authoring.md) has more on actions, masks and random numbers.
