# %% [markdown]
# # Coming from WarpDrive 2
#
# This notebook runs a program of WarpDrive 2 (an environment class, a Numba kernel and a run configuration) without
# changes. Then it converts the configuration, ports the environment to the shorter form of this package, **verifies**
# step by step that both compute the same, and explains the differences in semantics.
#
# The environment is a lake with four fishing boats; the remaining fish multiply. Each boat is rewarded for its own
# catch.
#
# It takes about 20 seconds on two cores; no GPU is needed.

# %%
# In a hosted notebook (Colab, Kaggle): upload a source checkout or wheel of WarpDrive, and run the next line without its #.
# %pip install --quiet "./warpdrive"

# %%
import json
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
import yaml
from gymnasium import spaces
from numba import cuda

import warpdrive as wd

# %% [markdown]
# ## The old program
#
# A program of WarpDrive 2 is a class that describes its arrays and passes them to a kernel by position, and a module
# with that kernel. The kernel counts steps, takes the number of agents from a generated module, and ends the episode.
# We write both to files, as in the old program.

# %%
_ = Path("fishing.py").write_text("""
import numpy as np
from gym import spaces
from warp_drive.utils.data_feed import DataFeed
from warp_drive.utils.gpu_environment_context import CUDAEnvironmentContext


class Fishing(CUDAEnvironmentContext):
    name = "Fishing"

    def __init__(self, num_agents=4, episode_length=50, growth=0.25):
        super().__init__()
        self.num_agents, self.episode_length, self.growth = num_agents, episode_length, growth
        self.action_space = {boat: spaces.Discrete(4) for boat in range(num_agents)}
        self.observation_space = None

    def reset(self):
        return {boat: np.array([1.0, 0.0], np.float32) for boat in range(self.num_agents)}

    def get_data_dictionary(self):
        feed = DataFeed()
        feed.add_data("stock", np.ones(1, np.float32), save_copy_and_apply_at_reset=True)
        feed.add_data("growth", self.growth)
        return feed

    def step(self, actions=None):
        names = ["stock", "sampled_actions", "rewards", "observations", "_done_", "_timestep_", "growth"]
        arguments = self.cuda_step_function_feed([*names, ("episode_length", "meta")])
        self.cuda_step[self.cuda_function_manager.grid, self.cuda_function_manager.block](*arguments)
""")

# %%
_ = Path("fishing_step_numba.py").write_text("""
from numba import cuda, float32
from warp_drive.numba_includes.env_config import wkNumberAgents


@cuda.jit
def NumbaFishingStep(stock, actions, rewards, observations, done, timestep, growth, episode_length):
    caught = cuda.shared.array(1, float32)
    env, boat = cuda.blockIdx.x, cuda.threadIdx.x
    if boat == 0:
        timestep[env] += 1
        caught[0] = 0
    cuda.syncthreads()
    if boat < wkNumberAgents:
        rewards[env, boat] = 0.03 * actions[env, boat, 0] * stock[env, 0]
        cuda.atomic.add(caught, 0, rewards[env, boat])
    cuda.syncthreads()
    if boat == 0:
        left = stock[env, 0] - caught[0]
        stock[env, 0] = left + growth * left * (1 - left)
    cuda.syncthreads()
    if boat < wkNumberAgents:
        observations[env, boat, 0] = stock[env, 0]
        observations[env, boat, 1] = timestep[env] / episode_length
    if boat == 0 and (stock[env, 0] < 0.05 or timestep[env] == episode_length):
        done[env] = 1
""")

# %% [markdown]
# The run configuration, with the keys and values of WarpDrive 2:

# %%
_ = Path("old.yaml").write_text("""
name: Fishing
env: {num_agents: 4, episode_length: 50}
trainer: {num_envs: 100, train_batch_size: 1000, num_episodes: 3000, seed: 1}
policy:
  boat:
    to_train: true
    algorithm: PPO
    gamma: 0.95
    lr: 0.003
    vf_loss_coeff: 0.5
    entropy_coeff: [[0, 0.01], [150000, 0.001]]
    clip_grad_norm: true
    max_grad_norm: 0.5
    model: {type: fully_connected, fc_dims: [32, 32]}
saving: {metrics_log_freq: 5, model_params_save_freq: 1000, basedir: old_runs, name: fishing, tag: first}
""")
old_config = yaml.safe_load(Path("old.yaml").read_text())

# %% [markdown]
# ## Run it as it is
#
# One line is added: after `wd.interop.warpdrive2.install()`, `import warp_drive` imports modules of this package,
# which behave like those of WarpDrive 2. Everything below that line is the old program: registrar, wrapper, trainer.
# On a machine without a GPU the kernel is compiled for the CPU.

# %%
wd.interop.warpdrive2.install()

from fishing import Fishing as OldFishing
from warp_drive.env_wrapper import EnvWrapper
from warp_drive.training.trainers.trainer_a2c import TrainerA2C
from warp_drive.utils.env_registrar import EnvironmentRegistrar

registrar = EnvironmentRegistrar()
registrar.add_cuda_env_src_path("Fishing", "fishing_step_numba", env_backend="numba")
wrapper = EnvWrapper(env_obj=OldFishing(), num_envs=100, env_backend="numba", env_registrar=registrar)
trainer = TrainerA2C(wrapper, old_config, {"boat": [0, 1, 2, 3]}, results_dir="0", verbose=False)
trainer.train()
trainer.graceful_close()
wd.interop.warpdrive2.uninstall()

# %%
rows = [json.loads(line) for line in Path("old_runs/fishing/first/0/results.json").read_text().splitlines()]
old_steps = [row["boat"]["Current timestep"] for row in rows[1:]]
old_returns = [row["boat"]["Mean episodic reward"] for row in rows[1:]]
_, axes = plt.subplots(figsize=(6, 2.2), dpi=80, layout="tight")
axes.plot(old_steps, old_returns)
_ = axes.set(xlabel="environment steps", ylabel="catch of an episode", ylim=(0, None))

# %% [markdown]
# It runs and learns, but the total catch *falls*. We will return to this.
#
# ## Convert the run configuration
#
# `warpdrive convert` writes a configuration of this package. The comments at its top list changes in semantics, and
# what remains to be corrected.

# %%
subprocess.run([sys.executable, "-m", "warpdrive", "convert", "old.yaml", "-o", "new.yaml"], check=True)
print(Path("new.yaml").read_text())

# %% [markdown]
# One thing remains: no environment of that name is registered. Naming the old class,
# `env: {warpdrive2: "fishing:Fishing", kernels: fishing_step_numba}`, would suffice to train it with the new trainer.
# Here we port it.
#
# ## Port the environment
#
# Arguments are now bound by **name**: `stock` is an array of `initial_state`, `growth` an attribute of the
# environment, and `actions`, `rewards`, `terminated` and `observations` are arrays of the library, which also counts
# steps, truncates episodes at `episode_length`, clears rewards, samples actions, and resets. The parameter `share` is
# new: with it, boats divide the catch evenly.

# %%
EFFORT, ONE, LEAST = np.float32(0.03), np.float32(1), np.float32(0.05)


@wd.kernel
def step(stock, actions, rewards, terminated, growth, share, num_agents):
    env, boat = cuda.blockIdx.x, cuda.threadIdx.x
    caught = cuda.shared.array(1, np.float32)
    if boat == 0:
        caught[0] = 0
    cuda.syncthreads()
    mine = EFFORT * np.float32(actions[env, boat]) * stock[env]
    cuda.atomic.add(caught, 0, mine)
    cuda.syncthreads()
    rewards[env, boat] = caught[0] / np.float32(num_agents) if share else mine
    if boat == 0:
        left = stock[env] - caught[0]
        stock[env] = left + growth * left * (ONE - left)
        terminated[env] = stock[env] < LEAST


@wd.kernel
def observe(stock, timestep, observations, episode_length):
    env, boat = cuda.blockIdx.x, cuda.threadIdx.x
    observations[env, boat, 0] = stock[env]
    observations[env, boat, 1] = np.float32(timestep[env]) / np.float32(episode_length)


# %% [markdown]
# `draw` is new, for `wd.replay`: the disc in the middle is the stock of fish.


# %%
@wd.kernel
def draw(shapes, stock, actions, num_agents):
    env, boat = cuda.blockIdx.x, cuda.threadIdx.x
    angle = np.float32(6.2832) * np.float32(boat) / np.float32(num_agents)
    effort = np.float32(actions[env, boat])
    x, y = wd.math.cos(angle), wd.math.sin(angle)
    wd.draw.circle(shapes, 0, x, y, 0.1, wd.draw.BLUE)
    wd.draw.line(shapes, 1, x, y, x * (ONE - effort / 4), y * (ONE - effort / 4), 0.04, wd.draw.ORANGE)
    if boat == 0:
        wd.draw.circle(shapes, 2, 0, 0, 0.7 * wd.math.sqrt(stock[env]), wd.draw.SKY)
        wd.draw.style(shapes, 2, 0.6, -1, -1)


# %% [markdown]
# The class defines parameters, spaces, and the agents of each policy tag.


# %%
class Fishing(wd.Environment):
    """Boats that fish in one lake."""

    name = "Fishing"
    termination_meaning = "the lake is empty"
    step, observe, draw, shapes_per_agent = step, observe, draw, 3
    view = (-1.3, 1.3, -1.3, 1.3)
    observation_space, action_space = spaces.Box(0.0, 2.0, (2,), np.float32), spaces.Discrete(4)

    def __init__(self, num_agents=4, episode_length=50, growth=0.25, share=False):
        self.num_agents, self.episode_length = num_agents, episode_length
        self.growth, self.share = growth, share
        self.policy_tags = {"boat": range(num_agents)}

    def initial_state(self, rng):
        return {"stock": np.float32(1.0)}


wd.register("Fishing", Fishing)

# %% [markdown]
# | in WarpDrive 2 | here |
# | --- | --- |
# | `get_data_dictionary`, `save_copy_and_apply_at_reset=True` | `initial_state` |
# | numbers of the data dictionary, `("episode_length", "meta")` | attributes of the environment |
# | `actions[env, boat, 0]` | `actions[env, boat]` |
# | `_timestep_`, counted by the kernel | `timestep`, counted by the library |
# | `_done_` | `terminated` by the kernel, `truncated` by the library |
# | `boat < wkNumberAgents` | not needed: there is a thread for each agent |
# | `cuda_step[grid, block](*arguments)` | `env.step(actions)` |
#
# ## Verify the port
#
# `wd.HostEnv` creates replicas of the old class, which are stepped by its old kernel. Both versions get the same
# random actions for 200 steps, over many episodes. First the kernels are checked for races, bounds and accidental
# float64.

# %%
wd.testing.check_environment(Fishing())
old = wd.HostEnv(
    warpdrive2="fishing:Fishing", kernels="fishing_step_numba", policy_tags={"boat": range(4)}, num_envs=100
)
new = wd.EnvWrapper(Fishing(), num_envs=100)
old_seen, new_seen = old.reset(seed=0), new.reset(seed=0)
rng, differences, ends = np.random.default_rng(0), {"observations": 0.0, "rewards": 0.0}, 0
eager = rng.random((100, 1)) < 0.5  # in half of the replicas boats always fish as much as they can
for _ in range(200):
    actions = np.where(eager, 3, rng.integers(0, 4, (100, 4)))
    old_seen, old_rewards, old_terminated, old_truncated, _ = old.step(actions)
    new_seen, new_rewards, terminated, truncated, _ = new.step(actions)
    differences["observations"] = max(differences["observations"], float((old_seen - new_seen).abs().max()))
    differences["rewards"] = max(differences["rewards"], float((old_rewards - new_rewards).abs().max()))
    assert torch.equal(old_terminated, terminated) and torch.equal(old_truncated, truncated)
    ends += int(terminated.sum()) + int(truncated.sum())
print(f"{ends} episodes ended at the same steps; largest differences: {differences}")

# %% [markdown]
# The differences are rounding errors: the old kernel computes in float64 where it multiplies by the Python number
# `0.03`, the new one in float32.
#
# ## Differences in semantics
#
# **Termination and truncation.** `_done_` was one flag. Here an episode that ends by the rules, such as with an empty
# lake, is `terminated`, and one that reaches the time limit is `truncated`. After truncation, the value of the last
# observations, `info["final_observations"]`, is bootstrapped.

# %%
for label, effort in {"everybody fishes with effort 1": 1, "everybody fishes with effort 3": 3}.items():
    env = wd.EnvWrapper(Fishing(), num_envs=1)
    env.reset(seed=0)
    terminated = truncated = torch.zeros(1, dtype=torch.bool)
    steps = 0
    while not (terminated | truncated).any():
        _, _, terminated, truncated, info = env.step(np.full((1, 4), effort))
        steps += 1
    kind = "terminated" if terminated.any() else "truncated"
    print(f"{label}: {kind} after {steps} steps, stock {float(info['final_observations'][0, 0, 0]):.2f}")

# %% [markdown]
# Other differences, which `warpdrive convert` lists where they apply:
#
# - Rewards are set to 0 before each step.
# - `vf_loss_coeff` becomes `value_coef`, twice as large: the value loss here is half the squared error.
# - Returns become advantages with `gae_lambda: 1`, and PPO takes one gradient step per batch, *as before*. The
#   defaults of this package are 0.95 and 16 steps, and learn faster.
# - `policy: shared` becomes a section for each policy tag.
# - Random numbers are a stream per replica and agent: results depend on the seed only, not on the number of replicas.
#
# ## Train the port
#
# The class is registered as `Fishing`, so that the converted configuration loads as it is. A second run changes one
# thing: boats share the catch. A third takes the gradient steps of this package's PPO instead of the old single one.


# %%
def train(name, env=(), policy=()):
    """Train with the converted configuration and changes of its sections; return the trainer and its metrics."""
    config = yaml.safe_load(Path("new.yaml").read_text())
    config["name"] = name
    config["env"].update(env)
    config["policy"]["boat"].update(policy)
    trainer = wd.Trainer(wd.RunConfig(**config))
    summary = trainer.train(progress=False)
    return trainer, np.genfromtxt(summary.run_folder / "metrics.csv", delimiter=",", names=True, deletechars="")


runs = {
    "each for itself": train("selfish"),
    "catch shared": train("shared", env={"share": True}),
    "catch shared, 16 gradient steps": train(
        "shared_16", env={"share": True}, policy={"epochs": 4, "minibatches": 4, "clip": 0.2, "gae_lambda": 0.95}
    ),
}
_, axes = plt.subplots(figsize=(6, 2.8), dpi=80, layout="tight")
axes.plot(old_steps, old_returns, "k:", label="old program")
for label, (_, metrics) in runs.items():
    axes.plot(metrics["env_steps"], 4 * metrics["charts/episodic_return/boat"], label=label)  # of all four boats
axes.set(xlabel="environment steps", ylabel="catch of an episode", ylim=(0, None))
_ = axes.legend(loc="lower left")

# %%
_, axes = plt.subplots(figsize=(6, 2.2), dpi=80, layout="tight")
for label, (trainer, _) in runs.items():
    episode = trainer.fetch_episode(seed=0)
    axes.plot(episode.states["stock"][:, 0], label=label)
axes.set(xlabel="step", ylabel="fish in the lake", ylim=(0, 1.05))
_ = axes.legend()

# %%
wd.replay(runs["catch shared, 16 gradient steps"][0], seed=0, width=260)

# %% [markdown]
# This explains the falling catch. The old program was correct: each boat gains by fishing a little more, whatever the
# others do, so together they empty the lake. Boats that share the catch learn to leave enough fish to multiply.
#
# ## What was learned
#
# - After `wd.interop.warpdrive2.install()`, programs of WarpDrive 2 run unchanged; `uninstall()` undoes it.
# - `warpdrive convert` converts a run configuration, with comments about changes in semantics.
# - `wd.HostEnv(warpdrive2=...)` makes the old class an environment of the new trainer, and a reference for its port.
# - In a port, arrays and constants are bound by name; the library counts steps, resets, and clears rewards.
# - Verify a port with equal actions, step by step, over many episodes.
# - `terminated` and `truncated` take the place of `_done_`.
#
# ## Exercises
#
# **Exercise 1.** Convert a policy's section by hand. Define `section`, a dictionary of this package for this policy
# of WarpDrive 2, with the keys `algorithm`, `value_coef`, `max_grad_norm`, `entropy_coef` and `model` (with `hidden`
# only):
#
# `{algorithm: A2C, vf_loss_coeff: 0.25, clip_grad_norm: true, max_grad_norm: 3, entropy_coeff: 0.05, model: {fc_dims:
# [64]}}`

# %% tags=["exercise"]
section = None

# %% tags=["check"]
expected = {"algorithm": "a2c", "value_coef": 0.5, "max_grad_norm": 3, "entropy_coef": 0.05, "model": {"hidden": [64]}}
if section is None:
    print("Exercise 1: not answered yet")
else:
    wrong = [key for key in expected if section.get(key) != expected[key]] or sorted(set(section) - set(expected))
    if wrong:
        key = wrong[0]
        print(f"Exercise 1: {key}: found {section.get(key)}, expected {expected.get(key, 'no such key')}")
    else:
        wd.A2CConfig(**section)
        print("Exercise 1: correct")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# section = {
#     "algorithm": "a2c",
#     "value_coef": 2 * 0.25,
#     "max_grad_norm": 3,
#     "entropy_coef": 0.05,
#     "model": {"hidden": [64]},
# }
# ```
#
# </details>

# %% [markdown]
# **Exercise 2.** The government introduces a quota: no boat may catch more than `quota` in a step. Add it to the
# kernel below, which is `step` without `share`: limit `mine` before it is added to the catch of all.


# %% tags=["exercise"]
@wd.kernel
def step_with_quota(stock, actions, rewards, terminated, growth, quota):
    env, boat = cuda.blockIdx.x, cuda.threadIdx.x
    caught = cuda.shared.array(1, np.float32)
    if boat == 0:
        caught[0] = 0
    cuda.syncthreads()
    mine = EFFORT * np.float32(actions[env, boat]) * stock[env]
    cuda.atomic.add(caught, 0, mine)
    cuda.syncthreads()
    rewards[env, boat] = mine
    if boat == 0:
        left = stock[env] - caught[0]
        stock[env] = left + growth * left * (ONE - left)
        terminated[env] = stock[env] < LEAST


# %% tags=["check"]
class Regulated(Fishing):
    """Boats with a quota."""

    step, quota = step_with_quota, 0.015


regulated = wd.EnvWrapper(Regulated(), num_envs=1)
regulated.reset(seed=0)
fish, expected, found = 1.0, [], []
for _ in range(20):
    found.append(float(regulated.step(np.full((1, 4), 3))[1].sum()))
    expected.append(4 * min(0.09 * fish, 0.015))
    left = fish - expected[-1]
    fish = left + 0.25 * left * (1 - left)
if abs(found[0] - 0.36) < 1e-4:
    print("Exercise 2: not answered yet")
elif np.allclose(found, expected, atol=1e-4):
    print("Exercise 2: correct")
else:
    print(f"Exercise 2: the first catches are {np.round(found[:3], 3)}, expected {np.round(expected[:3], 3)}")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# @wd.kernel
# def step_with_quota(stock, actions, rewards, terminated, growth, quota):
#     env, boat = cuda.blockIdx.x, cuda.threadIdx.x
#     caught = cuda.shared.array(1, np.float32)
#     if boat == 0:
#         caught[0] = 0
#     cuda.syncthreads()
#     mine = min(EFFORT * np.float32(actions[env, boat]) * stock[env], quota)
#     cuda.atomic.add(caught, 0, mine)
#     cuda.syncthreads()
#     rewards[env, boat] = mine
#     if boat == 0:
#         left = stock[env] - caught[0]
#         stock[env] = left + growth * left * (ONE - left)
#         terminated[env] = stock[env] < LEAST
# ```
#
# </details>

# %% [markdown]
# ## Where next
#
# - [Coming from WarpDrive 2](../docs/guides/warpdrive2.md): every module, key and method with its counterpart.
# - [Checking kernels](08_checking_kernels.ipynb) and [your own environment](05_own_environment.ipynb).
# - [Porting environments](../docs/guides/porting.md) from Gymnasium, PettingZoo and other libraries.
