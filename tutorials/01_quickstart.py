# %% [markdown]
# # Quickstart: from a kernel to a trained policy
#
# Can two hunters learn to catch a runner who is as fast as they are? This tutorial invents a small game, writes its rules
# as a kernel of a dozen lines, runs a thousand replicas of it, trains its players with PPO, and ends with a page to play against them.
#
# **The game.** A runner and two hunters live on a ring of cells. In each step, all of them simultaneously move one
# cell left or right, or stay. The hunters win when one of them stands on the runner's cell; the runner wins by not
# being caught for 60 steps. As all have the same speed, a single hunter would chase for ever: the two have to learn
# to approach from both sides.
#
# The notebook takes about 20 seconds on two cores; no GPU is needed.

# %%
# In a hosted notebook (Colab, Kaggle): upload a source checkout or wheel of WarpDrive, and run the next line without its #.
# %pip install --quiet "./warpdrive"

# %%
import math
import time

import matplotlib.pyplot as plt
import numpy as np
import torch
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.scene.scene import Polygon, Scene

# %% [markdown]
# ## The rules, as a kernel
#
# A kernel is an ordinary `numba.cuda` kernel function. **One block is one replica of the game, one thread is one
# agent**: the code below is what *one agent of one replica* does in a step. `cuda.syncthreads()` is a barrier, at
# which the agents of a replica wait for each other: before it all agents move, after it they can read the new
# positions.


# %%
@wd.kernel
def step(position, actions, rewards, terminated, ring_length, num_hunters):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    position[env, agent] = (position[env, agent] + actions[env, agent] - 1) % ring_length
    cuda.syncthreads()
    caught = False
    for hunter in range(num_hunters):
        caught = caught or position[env, hunter] == position[env, num_hunters]
    if caught:
        rewards[env, agent] = 1 if agent < num_hunters else -1
        if agent == 0:
            terminated[env] = True


# %% [markdown]
# Arguments are bound **by name**. `actions`, `rewards` and `terminated` (and `observations`, `timestep` and a few
# more) are arrays of the library. `position` is an array of this environment, with one row per replica:
# `initial_state` below returns its start value. `ring_length` and `num_hunters` are attributes of the environment.
#
# A second kernel writes the observations: how far ahead of an agent each of the others is, between -1 and 1.


# %%
@wd.kernel
def observe(position, observations, ring_length, half_ring, scale, num_agents):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for other in range(num_agents):
        ahead = (position[env, other] - position[env, agent] + half_ring) % ring_length - half_ring
        observations[env, agent, other] = np.float32(ahead) * scale


# %% [markdown]
# Pictures are optional. In the kernel `draw` each agent draws itself: hunters slightly outside of the ring, and the
# runner slightly inside, so that they do not cover each other.


# %%
@wd.kernel
def draw(shapes, position, ring_length, num_hunters):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    angle = np.float32(2 * math.pi * position[env, agent] / ring_length)
    radius, colour = (1.07, wd.draw.RED) if agent < num_hunters else (0.93, wd.draw.BLUE)
    wd.draw.circle(shapes, 0, radius * wd.math.cos(angle), radius * wd.math.sin(angle), 0.1, colour)
    wd.draw.trail(shapes, 0, 8)


# %% [markdown]
# ## The environment
#
# The class defines the constants and spaces, which agents share a policy (`policy_tags`), and the start state of an
# episode. `scenery` draws the background, and `controls` maps keys to actions for people who play.


# %%
class RingPursuit(wd.Environment):
    """Two hunters chase a runner around a ring."""

    name = "ring_pursuit"
    termination_meaning = "the runner was caught"
    step, observe, draw = step, observe, draw
    view = (-1.3, 1.3, -1.3, 1.3)  # lowest x, highest x, lowest y, highest y
    controls = {"": 1, "left": 2, "right": 0}  # counterclockwise and clockwise

    def __init__(self, num_hunters=2, ring_length=24, episode_length=60):
        self.num_hunters, self.ring_length, self.episode_length = num_hunters, ring_length, episode_length
        self.num_agents = num_hunters + 1
        self.half_ring, self.scale = ring_length // 2, 2.0 / ring_length
        self.policy_tags = {"hunter": range(num_hunters), "runner": [num_hunters]}
        self.observation_space = spaces.Box(-1.0, 1.0, (self.num_agents,), np.float32)
        self.action_space = spaces.Discrete(3)

    def initial_state(self, rng):
        position = rng.integers(0, self.ring_length, self.num_agents)
        position[-1] = (position[0] + rng.integers(4, self.ring_length - 3)) % self.ring_length
        return {"position": position.astype(np.int32)}

    def scenery(self, state):
        angles = np.linspace(0, 2 * math.pi, 100)
        ring = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        return Scene(self.view, polygons=[Polygon(ring, colour=-1, edge=wd.draw.GREY, line=0.03)])


# %% [markdown]
# ## A thousand replicas
#
# `EnvWrapper` fuses the kernels with the library's own (sampling actions, counting steps, resetting) into **one
# kernel per step**, which steps all replicas at once. `reset_pool_size` is the number of start states that are drawn
# in advance.

# %%
env = wd.EnvWrapper(RingPursuit(), num_envs=1000, reset_pool_size=500, seed=1)
observations = env.reset()
observations.shape  # replicas, agents, what each of them sees

# %%
torch.manual_seed(0)
actions = torch.randint(0, 3, (1000, 3), dtype=torch.int32)
observations, rewards, terminated, truncated, info = env.step(actions)
print(f"after one random step the runner is caught in {int(terminated.sum())} of 1000 replicas")

start = time.perf_counter()
for _ in range(1000):
    env.step(actions)
seconds = time.perf_counter() - start
print(f"{1000 * env.num_envs / seconds / 1e6:.1f} million environment steps per second")

# %% [markdown]
# `step` returns PyTorch tensors on the device of the simulation, without copies: they are the arrays that the kernels
# write.
#
# ## Before training
#
# A `Trainer` takes a run configuration: the amount of training and, for each policy tag, the algorithm. Here it is a
# dictionary; in a YAML file it can be trained with `warpdrive train`. Both sides learn, each from its own rewards.

# %%
settings = {"algorithm": "ppo", "lr": 2e-3, "gamma": 0.97, "entropy_coef": 0.01, "model": {"hidden": [32, 32]}}
config = {
    "name": "ring_pursuit",
    "trainer": {"num_envs": 1000, "train_batch_size": 16_000, "total_steps": 480_000},
    "policy": {"hunter": settings, "runner": settings},
}
trainer = wd.Trainer(env, config)

# %% [markdown]
# `replay` lets the policies of the trainer play episodes, and draws them with the environment's `draw`. The policies are
# still those of newly initialised networks: hunters (red) and runner (blue) wander about. `replicas=2` shows two games at
# once; the one that ends first waits for the other.

# %%
wd.replay(trainer, seed=3, replicas=2, width=400)

# %% [markdown]
# ## Training
#
# `train` shows its progress, and writes a run folder with configuration, checkpoints and metrics.

# %%
summary = trainer.train()
print(f"{summary.env_steps} environment steps in {summary.seconds:.0f} s")

# %% [markdown]
# A curve of `metrics.csv` shows what happened. First the runner learns to escape; then the hunters learn to
# cooperate. (In the first updates no episode has reached its 60th step yet, so all that have ended, ended with a
# catch.)

# %%
metrics = np.genfromtxt(summary.run_folder / "metrics.csv", delimiter=",", names=True, deletechars="")
_, axes = plt.subplots(figsize=(6, 2.4), dpi=80, layout="tight")
axes.plot(metrics["env_steps"], metrics["charts/terminated_fraction"], color="tab:red")
axes.set(xlabel="environment steps", ylabel="fraction of episodes\nin which the runner is caught", ylim=(0.5, 1.02))
plt.show()

# %% [markdown]
# To measure what the hunters have learned, evaluate the trained policies, and then the same runner with hunters that
# move at random.

# %%
for random in [(), ("hunter",)]:
    result = trainer.evaluate(num_episodes=1000, random=random)
    who = "random hunters" if random else "trained hunters"
    print(f"{who}: the runner is caught in {result.terminated_fraction:.1%} of {result.episodes} episodes")

# %% [markdown]
# The hunters now separate, to approach the runner from both sides. Add `.player()` for buttons and a slider, or
# `output="hunt.html"` to write a page.

# %%
wd.replay(trainer, seed=3, replicas=2, width=400)

# %% [markdown]
# ## Play against them
#
# `live` compiles the same kernels and policies to WebAssembly, so that the game runs in a page, here and in any
# browser. Choose `runner` as *Player 1*, and flee with the arrow keys, or play a hunter. `output="hunt.html"` writes
# the page to a file.

# %%
wd.live(trainer)

# %% [markdown]
# ## What was learned
#
# - A kernel describes what one agent of one replica does; `cuda.syncthreads()` separates moving from observing.
# - Arguments of kernels are bound by name: to the library's arrays, to the arrays of `initial_state`, and to
#   attributes.
# - `EnvWrapper` runs all replicas at once, and returns tensors that share their memory with the kernels.
# - `Trainer` trains a policy per tag; `evaluate` measures it, `replay` draws it, and `live` runs it in a page.
#
# ## Exercises
#
# **Exercise 1.** Three hunters on a ring of 36 cells: define `larger`, an `EnvWrapper` with 50 replicas of that game. The
# rules need no change.

# %% tags=["exercise"]
larger = None

# %% tags=["check"]
if larger is None:
    print("Exercise 1: not answered yet")
elif tuple(larger.reset().shape) != (50, 4, 4):
    print(f"Exercise 1: observations have shape {tuple(larger.reset().shape)}, expected (50, 4, 4)")
elif larger.env.ring_length != 36:
    print(f"Exercise 1: the ring has {larger.env.ring_length} cells, expected 36")
else:
    print("Exercise 1: correct")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# larger = wd.EnvWrapper(RingPursuit(num_hunters=3, ring_length=36), num_envs=50)
# ```
#
# </details>

# %% [markdown]
# **Exercise 2.** All hunters are rewarded for a catch. Complete the kernel `selfish_step`, in which a hunter receives
# 1 if *it* stands on the runner's cell, and 0 otherwise. The runner receives -1 if it is caught, as before.


# %% tags=["exercise"]
@wd.kernel
def selfish_step(position, actions, rewards, terminated, ring_length, num_hunters):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    position[env, agent] = (position[env, agent] + actions[env, agent] - 1) % ring_length
    cuda.syncthreads()
    for hunter in range(num_hunters):
        if position[env, hunter] == position[env, num_hunters]:
            if agent == 0:
                terminated[env] = True
            # here: the rewards of hunters and of the runner


# %% tags=["check"]
class SelfishPursuit(RingPursuit):
    step = selfish_step


selfish = wd.EnvWrapper(SelfishPursuit(), num_envs=500, reset_pool_size=500, seed=2, auto_reset=False)
selfish.reset()
start = selfish.ctx["position"].cpu().numpy().copy()
moves = np.random.default_rng(0).integers(0, 3, (500, 3), dtype=np.int32)
found = selfish.step(moves)[1].cpu().numpy()
cells = (start + moves - 1) % 24
caught = cells[:, :2] == cells[:, 2:]
expected = np.concatenate([caught, -caught.any(axis=1, keepdims=True).astype(int)], axis=1)
if not found.any():
    print("Exercise 2: not answered yet")
elif (wrong := np.argwhere(found != expected)).size:
    env_index, agent = wrong[0]
    print(
        f"Exercise 2: on cells {cells[env_index]} (the runner is last) agent {agent} receives "
        f"{found[env_index, agent]:g}, expected {expected[env_index, agent]}"
    )
else:
    print("Exercise 2: correct")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# @wd.kernel
# def selfish_step(position, actions, rewards, terminated, ring_length, num_hunters):
#     env, agent = cuda.blockIdx.x, cuda.threadIdx.x
#     position[env, agent] = (position[env, agent] + actions[env, agent] - 1) % ring_length
#     cuda.syncthreads()
#     for hunter in range(num_hunters):
#         if position[env, hunter] == position[env, num_hunters]:
#             if agent == 0:
#                 terminated[env] = True
#             if agent == hunter:
#                 rewards[env, agent] = 1
#             elif agent == num_hunters:
#                 rewards[env, agent] = -1
# ```
#
# </details>

# %% [markdown]
# ## Where next
#
# - [The runtime](02_runtime.ipynb): devices, arrays, kernels and launches.
# - [Your own environment](05_own_environment.ipynb) develops one step by step, with checks and tests.
# - [Training](07_training.ipynb) explains the curves of a run, and what to tune.
# - Put the kernels and the class into a file, `ring_pursuit.py`, and the settings into a YAML file with
#   `env: {name: "ring_pursuit.py:RingPursuit"}`: then `warpdrive train ring_pursuit.yaml` trains, evaluates and
#   animates it.
# - `warpdrive envs` lists the [environments that come with the library](../docs/environments/index.md).
