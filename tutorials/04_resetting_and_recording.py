# %% [markdown]
# # Resetting and recording
#
# Two roped climbers walk along a narrow ridge, while gusts of wind push them sideways. If one falls, both do. How much wind can
# they stand? Thousands of ridges run at the same time, and on each of them expeditions begin and end at different moments.
#
# This tutorial is about the end of episodes: automatic resets, start states, termination and truncation, episode
# statistics, recordings and replays. It takes about 15 seconds on two cores; no GPU is needed.

# %%
# In a hosted notebook (Colab, Kaggle): upload a source checkout or wheel of WarpDrive, and run the next line without its #.
# %pip install --quiet "./warpdrive"

# %%
import matplotlib.pyplot as plt
import numpy as np
import torch
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.scene.scene import Polygon, Scene

# %% [markdown]
# ## The ridge
#
# A climber steps to the left, stays in its line, or steps to the right; the wind adds a random gust. The ridge reaches from -1
# to 1. Each step on it is rewarded with 1.
#
# The wind differs between ridges: `wd.PerReplica` draws one value for each replica, which kernels read as
# `wind[env]`.


# %%
@wd.kernel
def step(y, actions, rewards, terminated, rng, wind):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    gust = wind[env] * wd.random.normal(rng, env, agent)
    y[env, agent] += np.float32(0.15) * (actions[env, agent] - 1) + gust
    cuda.syncthreads()
    if abs(y[env, 0]) > 1 or abs(y[env, 1]) > 1:
        if agent == 0:
            terminated[env] = True
    else:
        rewards[env, agent] = 1


@wd.kernel
def observe(y, observations):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    observations[env, agent, 0] = y[env, agent]
    observations[env, agent, 1] = y[env, 1 - agent]


@wd.kernel
def draw(shapes, y, timestep):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    colour = wd.draw.RED if agent == 0 else wd.draw.BLUE
    wd.draw.circle(shapes, 0, np.float32(0.1) * timestep[env], y[env, agent], 0.1, colour)
    wd.draw.trail(shapes, 0, 50)


class Ridge(wd.Environment):
    """Two roped climbers on a windy ridge."""

    name = "ridge"
    termination_meaning = "a climber fell"
    step, observe, draw = step, observe, draw
    num_agents, policy_tags, episode_length = 2, {"climber": [0, 1]}, 50
    observation_space = spaces.Box(-2.0, 2.0, (2,), np.float32)
    action_space = spaces.Discrete(3)
    view = (-0.3, 5.3, -1.4, 1.4)

    def __init__(self):
        self.wind = wd.PerReplica(lambda rng: rng.uniform(0.0, 0.3))

    def initial_state(self, rng):
        return {"y": rng.uniform(-0.5, 0.5, 2).astype(np.float32)}

    def scenery(self, state):
        edges = np.array([[-0.4, -1], [5.4, -1], [5.4, 1], [-0.4, 1]])
        return Scene(self.view, polygons=[Polygon(edges, colour=-1, edge=wd.draw.GREY, line=0.04)])


# %% [markdown]
# ## Automatic resets
#
# `EnvWrapper` resets a replica in the same step in which its episode ends. The loop below steps 2000 ridges with random actions
# (`env.step()` without actions), and prints those steps of ridge 3 that surround an end.

# %%
env = wd.EnvWrapper(Ridge(), num_envs=2000, reset_pool_size=None, seed=1)
env.reset()
print("step  timestep  observed y        final y           terminated  truncated")
before = None
for number in range(60):
    observations, rewards, terminated, truncated, info = env.step()
    y, final_y = (tensor[3, 0].tolist() for tensor in (observations, info["final_observations"]))
    ended = bool(terminated[3] or truncated[3])
    line = f"{number:4}  {env.ctx['timestep'][3]:8}  {y[0]:6.3f} {y[1]:6.3f}  "
    line += f"   {final_y[0]:6.3f} {final_y[1]:6.3f}  " if ended else " " * 18
    line += f"   {bool(terminated[3])!s:10}  {bool(truncated[3])}"
    if ended:
        print(before, line, sep="\n")
    elif before is not None and "True" in before:
        print(line, "...", sep="\n")
    before = line

# %% [markdown]
# In the line with `True`, `timestep` is already 0 and the observed `y` is that of the *new* expedition. The last
# observations of the old one are in `info["final_observations"]`: there, one of the two is beyond 1. The loop needs
# no reset, and no replica waits for another. `EnvWrapper(..., auto_reset=False)` leaves the reset to you:
# `env.reset(where=terminated | truncated)`.
#
# ## Terminated or truncated?
#
# An episode that **terminated** is over by the rules: the climbers fell, and no reward will follow. One that was
# **truncated** was cut off by the time limit, here 50 steps (`episode_length`); the climbers would have received
# further rewards.
#
# The difference matters to learning, as the value of a state is the sum of all future rewards. The climbers of a calm
# ridge always receive 1, so with a discount of 0.95 each state is worth $1 / (1 - 0.95) = 20$. The picture shows the
# value targets if truncation is treated as termination, and if the value of the last observation is bootstrapped.

# %%
gamma = 0.95


def discounted(rewards, value_after):
    """Return the sum of discounted rewards from each step on."""
    found, value = [], value_after
    for reward in reversed(rewards):
        value = reward + gamma * value
        found.append(value)
    return found[::-1]


rewards_of_episode = [1.0] * 50
_, axes = plt.subplots(figsize=(6, 2.4), dpi=80, layout="tight")
axes.plot(discounted(rewards_of_episode, 0.0), color="tab:red", label="treated as terminated: nothing follows")
axes.plot(discounted(rewards_of_episode, 1 / (1 - gamma)), color="tab:blue", label="treated as truncated")
axes.set(xlabel="step of the episode", ylabel="value", ylim=(0, 22))
axes.legend(fontsize=8)
plt.show()

# %% [markdown]
# The climbers cannot see the time, so the red targets would contradict each other for one and the same observation. All algorithms
# of WarpDrive use the blue ones: they take the value of `final_observations` where an episode was truncated, and 0 where it
# terminated.
#
# ## Where start states come from
#
# `initial_state` is a Python function, which would be too slow to call at each reset. It is called `reset_pool_size`
# times in advance; for each episode, a replica draws a state of this **pool** on the device. The default is 1; with
# None, 500 states are drawn if `initial_state` is random.
#
# A `reset` kernel runs after the state was copied from the pool, and can draw a new start state for each episode on
# the device.


# %%
@wd.kernel
def reset(y, rng):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    y[env, agent] = wd.random.uniform(rng, env, agent) - np.float32(0.5)


class RidgeWithReset(Ridge):
    reset = reset


pools = {
    "pool of 5": wd.EnvWrapper(Ridge(), num_envs=2000, reset_pool_size=5),
    "pool of 500": wd.EnvWrapper(Ridge(), num_envs=2000, reset_pool_size=None),
    "reset kernel": wd.EnvWrapper(RidgeWithReset(), num_envs=2000),
}
_, panels = plt.subplots(1, 3, figsize=(6.5, 2.3), dpi=80, layout="tight", sharey=True)
for panel, (name, ridges) in zip(panels, pools.items(), strict=True):
    starts = ridges.reset()[:, 0].cpu().numpy()  # of the first climber: its own y, and the other's
    panel.plot(starts[:, 0], starts[:, 1], ".", markersize=2)
    panel.set(title=name, xlabel="y of climber 0", aspect="equal", xlim=(-0.6, 0.6), ylim=(-0.6, 0.6))
    print(f"{name}: {len(np.unique(starts, axis=0))} different starts in 2000 episodes")
panels[0].set_ylabel("y of climber 1")
plt.show()

# %% [markdown]
# ## Episode statistics
#
# Returns and lengths are counted on the device, too. `info["episode_return"]` and `info["episode_length"]` hold those of each
# replica's last finished episode, and `episode_statistics()` the sums over all that ended since the last call. With the wind of
# each replica, this answers the question for climbers who step at random:

# %%
env.reset()
env.episode_statistics()  # what was counted before is forgotten
for _ in range(200):
    *_, info = env.step()
statistics = env.episode_statistics()
episodes = int(statistics["episodes"])
print(f"{episodes} episodes, {statistics['length'] / episodes:.1f} steps on average")
print(f"{statistics['terminated'] / episodes:.1%} of them ended with a fall")

wind = env.ctx["wind"].cpu().numpy()
_, axes = plt.subplots(figsize=(6, 2.4), dpi=80, layout="tight")
axes.plot(wind, info["episode_length"].cpu(), ".", markersize=3, alpha=0.5)
axes.set(xlabel="wind of the ridge", ylabel="length of its last episode")
plt.show()

# %% [markdown]
# Climbers who step at random fall, on calm ridges later than on windy ones.
#
# ## Recording
#
# `env.record` plays one episode in selected replicas, from a reset to its end, and copies every array of every step
# to the host. Then it restores the state of all replicas, so that recording does not affect training. `act` is a
# policy: a function that returns actions, or writes logits. The one below steers to the middle of the ridge.


# %%
def to_the_middle(env):
    y = env.observations("climber")[..., 0]
    return 1 - torch.sign(y).int() * (y.abs() > 0.1)


chosen = [int(np.argmin(np.abs(wind - wanted))) for wanted in (0.02, 0.12, 0.2, 0.28)]
recording = env.record(chosen, act=to_the_middle)
print("y:", recording.states["y"].shape, "steps + 1, replicas, climbers")
print("rewards:", recording.rewards.shape, "steps, replicas, climbers")
for index, replica in enumerate(recording.replicas):
    end = "a climber fell" if recording.terminated[index] else "truncated"
    print(f"ridge {replica} with wind {wind[replica]:.2f}: {recording.lengths[index]} steps, {end}")

# %% [markdown]
# A recording has the arrays of the environment in `states`, and `actions`, `rewards`, `log_probabilities`, `lengths`,
# `terminated` and `truncated`. Shorter episodes are padded to the longest: their last state is repeated, and rewards
# are 0. `recording.played` is the mask of the steps that were played.

# %%
_, panels = plt.subplots(1, 4, figsize=(7, 2.2), dpi=80, layout="tight", sharey=True)
for index, panel in enumerate(panels):
    episode = recording.episode(index)  # without padding
    panel.axhspan(-1, 1, color="0.92")
    panel.plot(episode.states["y"][:, 0, 0], color="tab:red")
    panel.plot(episode.states["y"][:, 0, 1], color="tab:blue")
    panel.set(title=f"wind {wind[chosen[index]]:.2f}", xlabel="step", xlim=(0, 50), ylim=(-1.5, 1.5))
panels[0].set_ylabel("y")
plt.show()

# %% [markdown]
# `replay` draws a recording, with the environment's `draw` and `scenery`. It also takes an `EnvWrapper`, a `Trainer`, or the
# folder of a run. `output` writes files: a GIF, or an HTML page with buttons and a slider that needs no network.

# %%
recording.save("ridge.npz")
page = wd.replay(wd.Recording.load("ridge.npz"), ["ridge.gif", "ridge.html"], env=Ridge(), width=480, theme="light")
page

# %% [markdown]
# ## A trained policy
#
# `trainer.fetch_episode` records the policies of a `Trainer` in the same way. Start states and winds follow from the
# seed and the number of a replica, so all recordings below are of the same 500 ridges. Train PPO for 400,000 steps,
# and compare all three policies:

# %%
config = {
    "name": "ridge",
    "trainer": {"num_envs": 500, "train_batch_size": 10_000, "total_steps": 400_000, "seed": 1},
    "policy": {"climber": {"algorithm": "ppo", "lr": 2e-3, "gamma": 0.95, "model": {"hidden": [32, 32]}}},
}
ridges = wd.EnvWrapper(Ridge(), num_envs=500, reset_pool_size=None, seed=1)
trainer = wd.Trainer(ridges, config)
summary = trainer.train()

# %%
ridges.act_at_random("climber")
recordings = {
    "random": ridges.record(range(500)),
    "to the middle": ridges.record(range(500), act=to_the_middle),
    "trained": trainer.fetch_episode(replicas=500, deterministic=True),
}
wind = ridges.ctx["wind"].cpu().numpy()
classes = np.minimum((wind / 0.05).astype(int), 5)  # six classes of wind
_, axes = plt.subplots(figsize=(6, 2.6), dpi=80, layout="tight")
for name, found in recordings.items():
    arrived = [found.truncated[classes == number].mean() for number in range(6)]
    axes.plot(0.05 * np.arange(6) + 0.025, arrived, ".-", label=name)
    print(f"{name}: {found.truncated.mean():.0%} of the expeditions reach the end of the ridge")
axes.set(xlabel="wind", ylabel="fraction that arrives", ylim=(0, 1.05))
axes.legend(fontsize=8)
plt.show()

# %% [markdown]
# Up to a wind of about 0.15 nearly all expeditions with either of the two steering policies arrive. PPO has learned
# to stay in the middle, and does about as well as the scripted policy.
#
# ## What was learned
#
# - A replica is reset in the step in which its episode ends; `final_observations` has the last observations.
# - After termination no rewards follow; after truncation, the value of the final observation is bootstrapped.
# - Start states come from a pool that `initial_state` fills once, or from a kernel `reset` on the device.
# - `wd.PerReplica` gives replicas constants of their own; returns and lengths are counted on the device.
# - `record` and `fetch_episode` return all arrays of an episode without affecting the simulation; `replay` draws
#   them.
#
# ## Exercises
#
# **Exercise 1.** Define `answer`, an `EnvWrapper` of 1000 ridges that begin in exactly ten different start states.

# %% tags=["exercise"]
answer = None

# %% tags=["check"]
if answer is None:
    print("Exercise 1: not answered yet")
else:
    different = len(torch.unique(answer.reset()[:, 0], dim=0))
    if (answer.num_envs, different) == (1000, 10):
        print("Exercise 1: correct")
    else:
        print(f"Exercise 1: {answer.num_envs} ridges begin in {different} different states, expected 1000 and 10")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# answer = wd.EnvWrapper(Ridge(), num_envs=1000, reset_pool_size=10)
# ```
#
# </details>

# %% [markdown]
# **Exercise 2.** Complete `target`, the one-step target of the value of a state: the reward of the step, plus `gamma` times the
# value of the next observation where the episode can go on. `final_value` is the value of the final observation, `next_value` that
# of the observation which `step` returns. All are tensors with one element per replica.


# %% tags=["exercise"]
def target(reward, terminated, truncated, next_value, final_value, gamma=0.9):
    return None


# %% tags=["check"]
cases = {
    "goes on": (False, False, 1.0 + 0.9 * 10),
    "terminated": (True, False, 1.0),
    "truncated": (False, True, 1.0 + 0.9 * 20),
    "terminated in its last step": (True, True, 1.0),
}
ended, cut = (torch.tensor([case[i] for case in cases.values()]) for i in (0, 1))
found = target(torch.ones(4), ended, cut, torch.full((4,), 10.0), torch.full((4,), 20.0))
if found is None:
    print("Exercise 2: not answered yet")
else:
    for (name, (_, _, expected)), value in zip(cases.items(), found.tolist(), strict=True):
        if abs(value - expected) > 1e-5:
            print(f"Exercise 2: {name}: the target is {value:.2f}, expected {expected:.2f}")
            break
    else:
        print("Exercise 2: correct")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def target(reward, terminated, truncated, next_value, final_value, gamma=0.9):
#     value = torch.where(truncated, final_value, next_value)
#     return reward + gamma * torch.where(terminated, 0.0, value)
# ```
#
# </details>

# %% [markdown]
# **Exercise 3.** Define `distance`, an array with one number per replica of `recordings["trained"]`: the mean of `|y|` over both
# climbers and all states *after* the steps of its episode, without the padding.

# %% tags=["exercise"]
distance = None

# %% tags=["check"]
trained = recordings["trained"]
if distance is None:
    print("Exercise 3: not answered yet")
else:
    episodes = [trained.episode(index).states["y"] for index in range(trained.num_replicas)]
    expected = np.array([np.abs(y[1:]).mean() for y in episodes])
    if np.shape(distance) != expected.shape:
        print(f"Exercise 3: found the shape {np.shape(distance)}, expected {expected.shape}")
    elif not np.allclose(distance, expected, atol=1e-4):
        worst = np.abs(distance - expected).argmax()
        print(f"Exercise 3: found {distance[worst]:.3f} for replica {worst}, expected {expected[worst]:.3f}")
    else:
        print("Exercise 3: correct")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# trained = recordings["trained"]
# y = np.abs(trained.states["y"][1:]).mean(axis=-1)  # [steps, replicas]
# distance = (y * trained.played).sum(axis=0) / trained.lengths
# ```
#
# </details>

# %% [markdown]
# ## Where next
#
# - [Your own environment](05_own_environment.ipynb) covers all parts of an environment, and tests.
# - [Training](07_training.ipynb): curves of a run, and what to tune.
# - [Writing environments](../docs/guides/authoring.md#start-states-and-saved-states) describes start states, saved
#   states and recordings in full.
