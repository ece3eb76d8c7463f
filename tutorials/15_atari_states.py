# %% [markdown]
# # Seeding the device from the CPU
#
# In Freeway, a chicken gains a point when it has crossed a road of ten lanes. Random play hardly ever gets that far.
# A thousand consoles that play at random do not either. A search on the CPU reaches the other side within seconds,
# but does not result in a policy.
#
# This tutorial combines the two. A search in [ale-py](https://ale.farama.org) finds a way across the road; its states
# become the start states of a thousand consoles on the device; and the policy that is trained there is evaluated
# **from the beginning** of the game. It takes about half a minute on two cores; no GPU is needed.

# %%
# In a hosted notebook (Colab, Kaggle): upload a source checkout or wheel of WarpDrive, and run the next line without its #.
# %pip install --quiet "./warpdrive[atari]"

# %%
import ale_py
import matplotlib.pyplot as plt
import numpy as np
import torch

import warpdrive as wd

# %% [markdown]
# ## A sparse reward
#
# `atari/freeway` emulates the console on the device, one thread per replica. A step has four frames, and the actions
# are 0 (stay), 1 (up) and 2 (down). Byte 14 of the memory is the height of the chicken: 6 at the bottom, 177 at the
# other side.
#
# How far does random play get in 20 steps?

# %%
HEIGHT = 14
freeway = {"obs_type": "ram", "repeat_action_probability": 0.0, "frame_stack": 2}
beginning = wd.EnvWrapper(wd.make("atari/freeway", **freeway), num_envs=500, reset_pool_size=10, seed=1)


def heights(env):
    """Return the height of the chicken of each replica."""
    return env.ctx["ram"][:, HEIGHT].cpu().numpy().copy()  # on a CPU, .numpy() alone shows later steps


def play_at_random(env, steps):
    """Play random actions from a reset, and return the highest place and the points of each replica."""
    env.reset()
    highest, points = heights(env), np.zeros(env.num_envs)
    for _ in range(steps):
        _, rewards, *_ = env.step()  # random actions
        highest, points = np.maximum(highest, heights(env)), points + rewards[:, 0].cpu().numpy()
    return highest, points


highest, points = play_at_random(beginning, 20)
print(f"{beginning.num_envs} replicas gain {points.sum():.0f} points; the best one reaches a height of {highest.max()}")

# %% [markdown]
# ## A search on the host
#
# ale-py can clone a state and return to it. This suffices for a simple search: try a few random action sequences from
# the current state, and continue from the one that ends highest. All states on the way are stored.

# %%
ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
ale = ale_py.ALEInterface()
ale.setFloat("repeat_action_probability", 0.0)
ale.loadROM(ale_py.roms.get_rom_path("freeway"))
STAY, UP, DOWN = ale.getMinimalActionSet()


def burst(rng, steps=4):
    """Play random actions, of four frames each; return points, final height and the states after each step."""
    points, passed = 0, []
    for action in rng.choice([STAY, UP, DOWN], steps):
        points += sum(ale.act(action) for _ in range(4))
        passed.append(ale.cloneState())
    return points, int(ale.getRAM()[HEIGHT]), passed


rng = np.random.default_rng(1)
states, frames, points = [ale.cloneState()], 0, 0
while points == 0:
    tries = []
    for _ in range(8):
        ale.restoreState(states[-1])
        tries.append(burst(rng))
    frames += 8 * 16
    points, _, passed = max(tries, key=lambda found: found[:2])
    states += passed
    ale.restoreState(states[-1])
print(f"a point after {len(states)} steps; the search took {frames} frames")

# %% [markdown]
# ## To the device
#
# `wd.atari.from_ale` converts a state of ale-py to the arrays of a console: memory, registers of the chips, memory of
# the cartridge. `start_states` is a list of them, from which each episode draws one. States after the point are
# omitted, as the chicken is then at the bottom again.

# %%
starts = [wd.atari.from_ale(state) for state in states]
path = np.array([start["ram"][HEIGHT] for start in starts])
starts = starts[: path.argmax() + 1]
seeded = wd.EnvWrapper(
    wd.make("atari/freeway", **freeway, start_states=starts), num_envs=1000, reset_pool_size=200, seed=1
)
after, points = play_at_random(seeded, 10)
print(f"{len(starts)} start states; {seeded.num_envs} replicas gain {points.sum():.0f} points in 10 random steps")

_, (left, right) = plt.subplots(1, 2, figsize=(7, 2.4), dpi=80, layout="tight")
left.plot(path, color="tab:blue")
left.set(xlabel="step of the search", ylabel="height")
bins = np.arange(0, 181, 10)
right.hist(highest, bins, alpha=0.7, density=True, label="20 steps from the beginning")
right.hist(after, bins, alpha=0.7, density=True, label="10 steps from states of the search")
right.set(xlabel="highest place of a replica", ylabel="density")
right.legend(fontsize=7)
plt.show()

# %% [markdown]
# With half as many random steps, some replicas gain a point: those that began close to the other side.
#
# With `obs_type="ram"` no picture is drawn. To show the states, six other consoles draw their screen, a step later:

# %%
shown = wd.make("atari/freeway", obs_type="rgb", repeat_action_probability=0.0, start_states=starts)
screens = wd.EnvWrapper(shown, num_envs=6, reset_pool_size=50, seed=4)
screens.reset()
screens.step(np.zeros((6, 1), np.int64))
pictures = screens.observations("agent")[:, 0].cpu().numpy().transpose(0, 2, 3, 1)  # replica, line, column, colour
_, panels = plt.subplots(2, 3, figsize=(7, 4), dpi=80, layout="tight")
for panel, picture, height in zip(panels.flat, pictures, heights(screens), strict=True):
    panel.imshow(picture, aspect=0.57)
    panel.set(title=f"height {height}", xticks=[], yticks=[])
plt.show()

# %% [markdown]
# The left chicken is the agent.
#
# ## Learning from the states of the search
#
# Train PPO twice for the same number of frames. In one run, episodes begin in the last 20 states of the search, and
# are truncated after 64 frames. In the other, they begin at the beginning of the game, and have 256 frames, of which
# going straight up takes 172.


# %%
def train(name, starts, frames):
    """Train a policy in episodes of so many frames; return it, and the points per episode during training."""
    env = wd.make("atari/freeway", **freeway, max_num_frames_per_episode=frames, start_states=starts)
    config = {
        "name": name,
        "trainer": {"num_envs": 128, "train_batch_size": 128 * 16, "total_steps": 8 * 128 * 16, "seed": 1},
        "policy": {
            "agent": {
                "algorithm": "ppo",
                "lr": 5e-3,
                "gamma": 0.98,
                "clip": 0.3,
                "entropy_coef": 0.0,
                "model": {"hidden": [32], "scale_observations": True},
            }
        },
    }
    pool = 10 if starts is None else 100  # a state at the beginning takes a second of the game to make
    summary = wd.Trainer(wd.EnvWrapper(env, num_envs=128, reset_pool_size=pool, seed=1), config).train()
    metrics = np.genfromtxt(summary.run_folder / "metrics.csv", delimiter=",", names=True, deletechars="")
    return wd.load_policy(summary.run_folder, seed=1), metrics["env_steps"], metrics["charts/episodic_return/agent"]


trained = {"states of the search": train("seeded", starts[-20:], 64), "beginning": train("beginning", None, 256)}

# %% [markdown]
# Evaluate both from the beginning of the game, for 800 frames:


# %%
def play(policy, replicas=8, steps=200):
    """Play from the beginning; return the points of each replica, and the heights after each step."""
    env = wd.EnvWrapper(wd.make("atari/freeway", **freeway), num_envs=replicas, reset_pool_size=10, seed=3)
    observations, points, places = env.reset(), np.zeros(replicas), []
    for _ in range(steps):
        observations, rewards, *_ = env.step(policy.act(observations.cpu().numpy()))
        points += rewards[:, 0].cpu().numpy()
        places.append(heights(env))
    return points, np.array(places)


_, (left, right) = plt.subplots(1, 2, figsize=(7, 2.4), dpi=80, layout="tight")
results = {}
for (name, (policy, steps, returns)), colour in zip(trained.items(), ("tab:blue", "tab:grey"), strict=True):
    results[name], places = play(policy)
    print(f"trained from the {name}: {results[name].mean():.1f} points in 800 frames from the beginning")
    ended = ~np.isnan(returns)
    left.plot(4 * steps[ended] / 1000, returns[ended], "o-", markersize=3, color=colour, label=f"from the {name}")
    right.plot(4 * np.arange(len(places)), places[:, 0], color=colour)
left.set(xlabel="thousand frames", ylabel="points per episode")
left.legend(fontsize=7)
right.set(xlabel="frame, from the beginning", ylabel="height")
plt.show()

# %% [markdown]
# When episodes began at the beginning, no replica gained a point in training, so there was nothing to learn from.
# From the states of the search, points are gained in the first rollouts. The policy learned close to the other side
# that going up is good, which holds on the whole road.
#
# In other games the beginning requires other actions than the end. Then the start states can be moved backwards
# during training, from the end of a demonstration to its beginning (Salimans and Chen 2018,
# [arXiv:1812.03381](https://arxiv.org/abs/1812.03381)). Alternatively, the search itself explores, and returns to the
# most promising of its states (Go-Explore, Ecoffet et al. 2021,
# [arXiv:2004.12919](https://arxiv.org/abs/2004.12919)).
#
# ## What was learned
#
# - Many replicas do not help if none of them ever gets a reward.
# - `wd.atari.from_ale` converts a state of ale-py, which a search, a player or a script has reached.
# - With `start_states`, episodes begin in such states, close to rewards.
# - Evaluate the policy from the beginning of the game.
#
# ## Exercises
#
# **Exercise 1.** Define `late`: an `EnvWrapper` of 200 replicas with the parameters `freeway` in which every episode begins at a
# height of more than 100.

# %% tags=["exercise"]
late = None

# %% tags=["check"]
if late is None:
    print("Exercise 1: not answered yet")
else:
    late.reset()
    lowest = heights(late).min()
    if late.num_envs == 200 and lowest > 100:
        print("Exercise 1: correct")
    else:
        print(f"Exercise 1: {late.num_envs} replicas, the lowest at {lowest}; expected 200 above 100")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# last = [start for start in starts if start["ram"][HEIGHT] > 100]
# late = wd.EnvWrapper(wd.make("atari/freeway", **freeway, start_states=last), num_envs=200, reset_pool_size=50)
# ```
#
# </details>

# %% [markdown]
# **Exercise 2.** States can be written into consoles that run. Complete `put`: it copies the arrays of `start` (`ram`, `registers`
# and `cartridge_ram`) to the replicas `first` to `last - 1` of `env`, and leaves the others as they are.


# %% tags=["exercise"]
def put(env, start, first, last):
    return None


# %% tags=["check"]
highest_start = starts[-1]
kept = beginning.ctx["ram"].clone()
put(beginning, highest_start, 100, 200)
if (beginning.ctx["ram"] == kept).all():
    print("Exercise 2: not answered yet")
else:
    others = torch.ones(beginning.num_envs, dtype=torch.bool)
    others[100:200] = False
    copied = ("ram", "registers", "cartridge_ram")
    same = all((beginning.ctx[name][100:200].cpu().numpy() == highest_start[name]).all() for name in copied)
    if same and (beginning.ctx["ram"][others] == kept[others]).all():
        print("Exercise 2: correct")
    else:
        print("Exercise 2: found other arrays than those of the start in replicas 100 to 199, or changes in others")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def put(env, start, first, last):
#     for name in ("ram", "registers", "cartridge_ram"):
#         env.ctx[name][first:last] = env.ctx[name].new_tensor(start[name])
# ```
#
# </details>

# %% [markdown]
# **Exercise 3.** A state that a replica has reached can be continued in ale-py. Define `back`, the state of ale-py of
# replica 150 of `beginning`. `wd.atari.to_ale(arrays, template)` converts arrays; `states[0]` is a template. The
# check plays the same four frames in both.

# %% tags=["exercise"]
back = None

# %% tags=["check"]
if back is None:
    print("Exercise 3: not answered yet")
else:
    ale.restoreState(ale_py.ALEState(back.serialize()))
    for _ in range(4):
        ale.act(UP)
    beginning.step(np.ones((beginning.num_envs, 1), np.int64))
    if (ale.getRAM() == beginning.ctx["ram"][150].cpu().numpy()).all():
        print("Exercise 3: correct")
    else:
        print("Exercise 3: the memories differ after four frames")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# back = wd.atari.to_ale(beginning.state(150), states[0])
# ```
#
# </details>

# %% [markdown]
# ## Where next
#
# - [Atari games](../docs/guides/atari.md): options, accuracy, speed, and adding a game.
# - [`atari`](../docs/environments/atari.md): every argument.
# - [Resetting and recording](04_resetting_and_recording.ipynb): pools of start states in general.
