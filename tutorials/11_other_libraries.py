# %% [markdown]
# # WarpDrive with other libraries
#
# This notebook uses WarpDrive together with other libraries, in both directions. First, WarpDrive's environments are
# converted to **Gymnasium**, **PettingZoo** and **TorchRL**. Then WarpDrive's trainer learns in **Gymnasium's own**
# CartPole. Finally, a policy that was trained in kernels is evaluated in the original CartPole.
#
# It takes about 20 seconds on two cores; no GPU is needed.

# %%
# In a hosted notebook (Colab, Kaggle): upload a source checkout or wheel of WarpDrive, and run the next line without its #.
# %pip install --quiet "./warpdrive[pettingzoo,torchrl]"

# %%
import time
from importlib.util import find_spec

import gymnasium
import matplotlib.pyplot as plt
import numpy as np
import torch

import warpdrive as wd

# %% [markdown]
# PettingZoo and TorchRL are optional. If one of them is missing, its cells below do nothing.

# %%
installed = {}
for library in ("pettingzoo", "torchrl"):
    installed[library] = find_spec(library) is not None
    print(library, "is installed" if installed[library] else f"is missing; to install it: %pip install {library}")

# %% [markdown]
# ## Kernels as a Gymnasium environment
#
# After `import warpdrive`, its environments are in Gymnasium's registry, with ids that begin with `warpdrive/`.
# `gymnasium.make_vec` makes a vector environment of as many replicas as you like. The loop below is an ordinary
# Gymnasium loop; each `step` is one kernel launch for all 1,000 replicas. How long does a pole stand if the cart is
# pushed at random?

# %%
envs = gymnasium.make_vec("warpdrive/CartPole-v1", num_envs=1000)
observations, infos = envs.reset(seed=0)
envs.action_space.seed(0)
age, lengths = np.zeros(envs.num_envs, int), []
for _ in range(200):
    observations, rewards, terminations, truncations, infos = envs.step(envs.action_space.sample())
    age += 1
    done = terminations | truncations
    lengths.extend(age[done])
    age[done] = 0
print(type(observations).__name__, observations.shape, f"{len(lengths)} episodes, mean length {np.mean(lengths):.1f}")

# %%
_, axes = plt.subplots(figsize=(6, 2.2), dpi=80, layout="tight")
axes.hist(lengths, bins=range(0, 90, 3), color="tab:blue")
_ = axes.set(xlabel="steps until the pole falls, pushed at random", ylabel="episodes")

# %% [markdown]
# Vector environments differ in when the next episode begins. The converted environment supports all of Gymnasium's
# autoreset modes: `SAME_STEP` (the default, and what the kernels do), `NEXT_STEP` and `DISABLED`. With `SAME_STEP`,
# the observations of a finished replica are already those of its next episode; the last ones of the old episode are
# in `infos`.

# %%
print(envs.metadata["autoreset_mode"])
while not done.any():
    observations, rewards, terminations, truncations, infos = envs.step(envs.action_space.sample())
    done = terminations | truncations
replica = int(np.flatnonzero(done)[0])
print("last observation of the old episode:", infos["final_obs"][replica].round(3))
print("first observation of the new episode:", observations[replica].round(3))

# %% [markdown]
# `wd.to_gymnasium` makes the same conversion for an environment object, an `EnvWrapper`, or a name, and has an option
# that matters on a GPU: `output="torch"` returns tensors on the device. With `copy=False` they share the memory that
# the kernels write, so that the conversion costs next to nothing.

# %%
env = wd.EnvWrapper(env_name="cartpole", num_envs=1000, seed=0)
envs = wd.to_gymnasium(env, output="torch", copy=False)
observations, infos = envs.reset(seed=0)
print(type(observations).__name__, observations.device.type, tuple(observations.shape))
print("memory of the kernels:", observations.data_ptr() == env.ctx["observations"].data_ptr())

# %% [markdown]
# ## Many agents: PettingZoo
#
# PettingZoo's parallel environments have dictionaries by agent. The conversion is one replica, whose agents are named
# after their policy tags. Here three scripted taggers chase a runner that moves at random. With
# `use_full_observation=False` a tagger observes its own position and the runner's.


# %%
def chase(observation):
    """Step towards the runner, along x first; the actions are stay, right, left, up and down."""
    x, y, runner_x, runner_y = observation[:4]
    if x != runner_x:
        return 1 if runner_x > x else 2
    return 0 if y == runner_y else 3 if runner_y > y else 4


if installed["pettingzoo"]:
    task = {"num_taggers": 3, "use_full_observation": False, "random_starts": True}
    env = wd.to_pettingzoo("tag_gridworld", env_config=task, render_mode="rgb_array")
    observations, infos = env.reset(seed=1)
    env.action_space("runner_0").seed(1)
    pictures, returns = [env.render()], dict.fromkeys(env.possible_agents, 0.0)
    while env.agents:
        actions = {agent: chase(observations[agent]) for agent in env.agents if agent != "runner_0"}
        actions["runner_0"] = env.action_space("runner_0").sample()
        observations, rewards, terminations, truncations, infos = env.step(actions)
        returns = {agent: returns[agent] + reward for agent, reward in rewards.items()}
        pictures.append(env.render())
    print(f"after {len(pictures) - 1} steps:", {agent: round(total, 2) for agent, total in returns.items()})

# %%
if installed["pettingzoo"]:
    _, panels = plt.subplots(1, 3, figsize=(6, 2.3), dpi=80, layout="tight")
    for axes, step in zip(panels, (0, len(pictures) // 2, len(pictures) - 1), strict=True):
        axes.imshow(pictures[step])
        axes.set(title=f"step {step}", xticks=[], yticks=[])

# %% [markdown]
# In PettingZoo an episode ends for each agent separately: agents that have left are removed from `env.agents`, and
# the loop ends when it is empty. This also covers environments in which agents leave early.
#
# ## Many agents, many replicas: TorchRL
#
# TorchRL's environments have a batch axis, like replicas. Each policy tag is a group with its own observations,
# actions and rewards, and nothing is copied to the host. The random policy of `rollout` shows the shapes: replicas,
# steps, agents of the group, and what they observe.

# %%
if installed["torchrl"]:
    env = wd.to_torchrl("simple_tag", num_envs=500, seed=0)
    rollout = env.rollout(25, break_when_any_done=False)
    for group in env.group_map:
        print(group, tuple(rollout[group, "observation"].shape), tuple(rollout["next", group, "reward"].shape))

# %% [markdown]
# ## The other direction: an environment of Gymnasium
#
# `wd.HostEnv` makes replicas of an environment of another library, with the interface of `EnvWrapper`. Algorithms,
# checkpoints, evaluations and curves work as usual. Here it trains in 16 replicas of Gymnasium's own CartPole.

# %%
ppo = {"algorithm": "ppo", "lr": 2e-3, "gamma": 0.98, "epochs": 4, "minibatches": 4, "model": {"hidden": [32, 32]}}


def train(env, total_steps, rollout_steps):
    """Train PPO in an environment; return the trainer, its metrics and the seconds that training took."""
    config = {
        "name": type(env).__name__.lower(),
        "trainer": {
            "num_envs": env.num_envs, "train_batch_size": rollout_steps * env.num_envs, "total_steps": total_steps,
        },
        "policy": {"agent": ppo},
    }  # fmt: skip
    trainer = wd.Trainer(env, config)
    summary = trainer.train()
    metrics = np.genfromtxt(summary.run_folder / "metrics.csv", delimiter=",", names=True, deletechars="")
    return trainer, metrics, summary


original = wd.HostEnv(gymnasium="CartPole-v1", num_envs=16, seed=0)
original_trainer, original_metrics, original_summary = train(original, total_steps=30_720, rollout_steps=32)

# %% [markdown]
# Now the same task in kernels, WarpDrive's `cartpole`, with the same algorithm and more replicas.

# %%
kernels = wd.EnvWrapper(env_name="cartpole", num_envs=256, seed=0)
kernel_trainer, kernel_metrics, kernel_summary = train(kernels, total_steps=204_800, rollout_steps=16)

# %%
_, axes = plt.subplots(figsize=(6, 2.6), dpi=80, layout="tight")
curves = {"Gymnasium's CartPole, 16 replicas": original_metrics, "kernels, 256 replicas": kernel_metrics}
for label, metrics in curves.items():
    ended = ~np.isnan(metrics["charts/episodic_length"])  # rows of rollouts in which an episode ended
    axes.plot(metrics["env_steps"][ended], metrics["charts/episodic_length"][ended], label=label)
axes.set(xscale="log", xlabel="environment steps", ylabel="episode length", ylim=(0, 520))
_ = axes.legend(loc="lower right")

# %% [markdown]
# Both learn. With few replicas there is an update after every 512 steps, so fewer steps are needed; with many, more
# steps are needed, but they are cheap.
#
# ## A policy in the original environment
#
# `wd.load_policy` reads a policy from a run. It needs neither the trainer nor the kernels: it maps observations to
# actions, as arrays or tensors. Here the policy that learned in kernels plays twenty episodes of the original
# CartPole, whose limit is 500 steps.


# %%
def episode_lengths(policy, env, episodes=20):
    """Return the lengths of episodes of a Gymnasium environment."""
    lengths = []
    for seed in range(episodes):
        observation, _ = env.reset(seed=seed)
        steps, over = 0, False
        while not over:
            observation, _, terminated, truncated, _ = env.step(policy.act(observation, deterministic=True))
            steps, over = steps + 1, terminated or truncated
        lengths.append(steps)
    return lengths


policy = wd.load_policy(kernel_summary.run_folder)
print(policy)
print("steps in the original CartPole:", episode_lengths(policy, gymnasium.make("CartPole-v1")))

# %% [markdown]
# It balances the pole to the end, because both environments have the same dynamics and the same observations. If a
# policy fails after such a transfer, compare these two first.

# %%
wd.replay(kernel_trainer, seed=1, deterministic=True, width=360, max_frames=60)

# %% [markdown]
# ## What a conversion costs
#
# The following cell measures the time of an environment step (of one replica) with each conversion of this notebook.


# %%
def microseconds_per_step(step, steps_of_a_call, calls=30):
    """Return the shortest of several measured times."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(calls):
            step()
        best = min(best, time.perf_counter() - start)
    return 1e6 * best / calls / steps_of_a_call


# %%
n, times = 1000, {}
replicas = wd.EnvWrapper(env_name="cartpole", num_envs=n)
actions = torch.zeros(n, 1, dtype=torch.int32)
times["kernels: env.step"] = microseconds_per_step(lambda: replicas.step(actions), n)
for label, options in {"Gymnasium, tensors": {"output": "torch", "copy": False}, "Gymnasium, NumPy": {}}.items():
    envs = wd.to_gymnasium("cartpole", num_envs=n, **options)
    envs.reset(seed=0)
    given = torch.zeros(n, dtype=torch.int32) if options else np.zeros(n, np.int64)
    times[label] = microseconds_per_step(lambda envs=envs, given=given: envs.step(given), n)
if installed["torchrl"]:
    env = wd.to_torchrl("cartpole", num_envs=n)
    state = env.rand_action(env.reset())
    times["TorchRL"] = microseconds_per_step(lambda: env.step(state), n)
for label, size, vectorization in (("NumPy", n, "vector_entry_point"), ("Python", 16, "sync")):
    host = wd.HostEnv(gymnasium="CartPole-v1", num_envs=size, vectorization=vectorization)
    host.reset(seed=0)
    times[f"HostEnv: Gymnasium, {label}"] = microseconds_per_step(lambda host=host: host.step(), size)

# %%
_, axes = plt.subplots(figsize=(6, 2.2), dpi=80, layout="tight")
colours = ["tab:orange" if label.startswith("HostEnv") else "tab:blue" for label in times]
axes.scatter(list(times.values()), list(times), color=colours, zorder=2)
axes.set(xscale="log", xlabel="microseconds per environment step (logarithmic)")
axes.grid(axis="x")
axes.invert_yaxis()

# %% [markdown]
# The blue points are the same kernels behind different interfaces. The cost of a conversion is per call, not per
# replica, so it is small per step with 1,000 replicas. The orange points are Gymnasium's own CartPole: its version in
# NumPy, which steps 1,000 replicas at once, and the one in Python, which steps 16 replicas one after the other. Only
# a port to kernels makes these faster.
#
# | conversion | cost per call | on a GPU |
# | --- | --- | --- |
# | Gymnasium, `output="torch"`, `copy=False` | a few Python calls | nothing leaves the device |
# | Gymnasium, NumPy | a copy of each array | a copy to the host, and a wait for it |
# | PettingZoo | dictionaries by agent, one replica | a copy to the host; for tests and for looking, not for training |
# | TorchRL | TorchRL's own bookkeeping, more than a cartpole step | nothing leaves the device |
# | `wd.HostEnv` | the environment itself | actions to the host, results back, once per step |
#
# ## What was learned
#
# - Every environment has an id `warpdrive/...` in Gymnasium; `wd.to_gymnasium`, `wd.to_pettingzoo` and
#   `wd.to_torchrl` convert any `EnvWrapper`.
# - Autoreset, seeds, masks and agents that leave have the semantics of the other library.
# - `wd.HostEnv` trains in environments of Gymnasium, PettingZoo and EnvPool as they are.
# - `wd.load_policy` returns a policy that needs only observations, not kernels.
# - The number of replicas per call decides whether the cost of a conversion matters.
#
# ## Exercises
#
# **Exercise 1.** Stable-Baselines3 and CleanRL expect a batch of single agents. Define `prey`: the `good_agent` of 64
# replicas of `simple_tag` as a Gymnasium vector environment with tensors as outputs. Agents of other tags act at
# random.

# %% tags=["exercise"]
prey = None

# %% tags=["check"]
if prey is None:
    print("Exercise 1: not answered yet")
else:
    seen, _ = prey.reset(seed=0)
    expected = (64, *wd.EnvWrapper(env_name="simple_tag", num_envs=1).observation_spaces["good_agent"].shape)
    if not isinstance(seen, torch.Tensor):
        print(f"Exercise 1: observations are {type(seen).__name__}, expected tensors")
    elif tuple(seen.shape) != expected:
        print(f"Exercise 1: observations have the shape {tuple(seen.shape)}, expected {expected}")
    else:
        print("Exercise 1: correct")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# prey = wd.to_gymnasium("simple_tag", num_envs=64, tag="good_agent", output="torch")
# ```
#
# </details>

# %% [markdown]
# **Exercise 2.** Apply Gymnasium's wrappers in the function that creates an environment. Define `tenths`: a
# `wd.HostEnv` of 8 replicas of Gymnasium's `CartPole-v1` whose rewards are divided by 10
# (`gymnasium.wrappers.TransformReward`).

# %% tags=["exercise"]
tenths = None

# %% tags=["check"]
if tenths is None:
    print("Exercise 2: not answered yet")
else:
    tenths.reset(seed=0)
    rewards = tenths.step()[1]
    if tuple(rewards.shape) != (8, 1):
        print(f"Exercise 2: rewards have the shape {tuple(rewards.shape)}, expected (8, 1)")
    elif not torch.allclose(rewards, torch.full((8, 1), 0.1)):
        print(f"Exercise 2: found the reward {rewards[0, 0].item():.3f}, expected 0.100")
    else:
        print("Exercise 2: correct")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def make_env():
#     return gymnasium.wrappers.TransformReward(gymnasium.make("CartPole-v1"), lambda reward: reward / 10)
#
#
# tenths = wd.HostEnv(make_env, num_envs=8)
# ```
#
# </details>

# %% [markdown]
# **Exercise 3.** Is the policy still good on another planet? Define `survived`: the lengths of twenty episodes
# (`episode_lengths`) of `policy` in Gymnasium's CartPole with the gravity of Jupiter, 24.8 instead of 9.8 m/s². The
# attribute `gravity` belongs to the unwrapped environment.

# %% tags=["exercise"]
survived = None

# %% tags=["check"]
if survived is None:
    print("Exercise 3: not answered yet")
else:
    jupiter = gymnasium.make_vec("CartPole-v1", num_envs=20, vectorization_mode="sync")
    jupiter.set_attr("gravity", 24.8)
    seen, _ = jupiter.reset(seed=list(range(20)))
    steps, alive = np.zeros(20, int), np.ones(20, bool)
    while alive.any():
        seen, _, terminated, truncated, _ = jupiter.step(policy.act(seen, deterministic=True))
        steps += alive
        alive &= ~(terminated | truncated)
    if list(survived) != steps.tolist():
        print(f"Exercise 3: found a mean of {np.mean(survived):.1f} steps, expected {steps.mean():.1f}")
    else:
        print("Exercise 3: correct")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# heavy = gymnasium.make("CartPole-v1")
# heavy.unwrapped.gravity = 24.8
# survived = episode_lengths(policy, heavy)
# ```
#
# </details>

# %% [markdown]
# ## Where next
#
# - [Your own models and algorithms](12_own_models_and_algorithms.ipynb).
# - [Other libraries](../docs/guides/interop.md): every option of the conversions, with BenchMARL, Stable-Baselines3,
#   rsl_rl and skrl.
# - [Environments of other libraries](../docs/guides/host_environments.md): worker processes, masks, devices.
# - [Porting environments](../docs/guides/porting.md): how a Gymnasium or PettingZoo environment becomes kernels.
