# %% [markdown]
# # Your own environment
#
# Three robots harvest an orchard: they move over a grid, and whoever reaches a ripe fruit picks it. Can they learn to
# share the work?
#
# This tutorial develops this environment from an empty class to a trained policy: state, rules, observations and
# pictures, with checks that find mistakes, and a NumPy reference to which the kernels are compared. At the end it is
# a file that the command line can train. It takes about 20 seconds on two cores; no GPU is needed.

# %%
# In a hosted notebook (Colab, Kaggle): upload a source checkout or wheel of WarpDrive, and run the next line without its #.
# %pip install --quiet "./warpdrive"

# %%
import numpy as np
from gymnasium import spaces
from numba import cuda

import warpdrive as wd

# %% [markdown]
# ## An empty class
#
# An environment is a class. `EnvWrapper` reports what is missing, one attribute after the other, and what is expected
# of it.


# %%
class Empty(wd.Environment):
    name = "empty"


def error_of(make):
    """Return the message of the error that a call raises."""
    try:
        make()
    except (wd.WarpDriveError, AssertionError) as error:
        return str(error)
    return "no error"


print(error_of(lambda: wd.EnvWrapper(Empty())))

# %% [markdown]
# ## State and rules
#
# The state of a replica is everything on which its next step depends: the cells of the robots, which cells have
# fruit, and how many fruits remain. Arrays of agents have one element per robot; the others are shared by all robots
# of a replica.
#
# The class defines the constants, and `initial_state` returns a start state. `step` is still missing.

# %%
MOVES = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]], np.int32)  # stay, and the four directions


# %%
class Orchard(wd.Environment):
    """Robots harvest fruit in a square orchard."""

    name = "orchard"
    termination_meaning = "all fruit was picked"

    def __init__(self, num_robots=3, side=8, num_fruits=12, episode_length=40):
        self.num_agents, self.side, self.num_fruits = num_robots, side, num_fruits
        self.episode_length = episode_length
        self.policy_tags = {"robot": range(num_robots)}
        self.observation_space = spaces.Box(-1.0, 1.0, (4,), np.float32)
        self.action_space = spaces.Discrete(len(MOVES))

    def initial_state(self, rng):
        fruit = np.zeros(self.side * self.side, np.bool_)
        fruit[rng.choice(fruit.size, self.num_fruits, replace=False)] = True
        return {
            "x": rng.integers(0, self.side, self.num_agents, dtype=np.int32),
            "y": rng.integers(0, self.side, self.num_agents, dtype=np.int32),
            "fruit": fruit.reshape(self.side, self.side),
            "remaining": np.int32(self.num_fruits),
        }


# %% [markdown]
# The rules are a kernel, which describes what *one robot* does in a step. Its parameters are bound by name: to the
# arrays of `initial_state`, to those of the library (`actions`, `rewards`, `terminated`, `observations`, `timestep`,
# ...), and to attributes of the instance. A first attempt:


# %%
@wd.kernel
def first_attempt(x, y, fruit, remaining, actions, observations, rewards, terminated, side):
    env, robot = cuda.blockIdx.x, cuda.threadIdx.x
    move = actions[env, robot]
    x[env, robot] = min(max(x[env, robot] + MOVES[move, 0], 0), side - 1)
    y[env, robot] = min(max(y[env, robot] + MOVES[move, 1], 0), side - 1)
    if fruit[env, y[env, robot], x[env, robot]]:
        fruit[env, y[env, robot], x[env, robot]] = False
        rewards[env, robot] = 1
        remaining[env] -= 1
    if remaining[env] == 0:
        terminated[env] = True


class FirstAttempt(Orchard):
    step = first_attempt

    def initial_state(self, rng):  # observations come below: zeros, for now
        return {**super().initial_state(rng), "observations": np.zeros((self.num_agents, 4), np.float32)}


env = wd.EnvWrapper(FirstAttempt(), num_envs=1000, reset_pool_size=None, seed=1)
observations, rewards, *_ = env.step()
print(f"{int(rewards.sum())} fruits were picked in 1000 replicas")

# %% [markdown]
# It runs, but is it correct? On a CPU the threads of a block run one after the other between two barriers, so the
# rewards look plausible. On a GPU they run simultaneously: two robots can pick the same fruit, and both subtract from
# `remaining`.
#
# `wd.testing.check_environment` interprets the kernels access by access, and finds such races without a GPU. Use a
# small orchard, in which robots meet and which is checked quickly.

# %%
small = {"num_robots": 3, "side": 3, "num_fruits": 4, "episode_length": 10}
print(error_of(lambda: wd.testing.check_environment(FirstAttempt(**small))))

# %% [markdown]
# Each finding names the line, the threads, and a fix. They raise three questions that every multi-agent environment
# has to answer, as all agents act simultaneously:
#
# - **Who gets the fruit?** Of several robots on a cell, the one with the lowest index. (If it depended on which
#   thread is first, results would differ between runs.)
# - **When may a robot read the state?** After all have moved, and before any robot changes what is read: a barrier on
#   either side.
# - **Who updates shared numbers?** Several threads subtract from one number by an atomic operation; a single thread
#   sets `terminated`.


# %%
@wd.kernel
def step(x, y, fruit, remaining, actions, rewards, terminated, side):
    env, robot = cuda.blockIdx.x, cuda.threadIdx.x
    move = actions[env, robot]
    column = min(max(x[env, robot] + MOVES[move, 0], 0), side - 1)
    row = min(max(y[env, robot] + MOVES[move, 1], 0), side - 1)
    x[env, robot], y[env, robot] = column, row
    cuda.syncthreads()  # all have moved
    picks = fruit[env, row, column]
    for other in range(robot):
        if x[env, other] == column and y[env, other] == row:
            picks = False  # it belongs to a robot with a lower number
    cuda.syncthreads()  # all have looked
    if picks:
        fruit[env, row, column] = False
        rewards[env, robot] = 1
        cuda.atomic.sub(remaining, env, 1)
    cuda.syncthreads()  # all have picked
    if robot == 0 and remaining[env] == 0:
        terminated[env] = True


# %% [markdown]
# ## Observations
#
# The whole orchard would be 64 numbers and more; here a robot observes the way to the nearest fruit and to the
# nearest other robot, in units of the side. `observe` runs after each step and after each reset.


# %%
@wd.kernel
def observe(x, y, fruit, observations, side, num_agents):
    env, robot = cuda.blockIdx.x, cuda.threadIdx.x
    column, row, scale = x[env, robot], y[env, robot], np.float32(1) / np.float32(side)
    nearest, dx, dy = 2 * side, 0, 0
    for i in range(side):
        for j in range(side):
            distance = abs(j - column) + abs(i - row)
            if fruit[env, i, j] and distance < nearest:
                nearest, dx, dy = distance, j - column, i - row
    observations[env, robot, 0] = np.float32(dx) * scale
    observations[env, robot, 1] = np.float32(dy) * scale
    nearest, dx, dy = 2 * side, 0, 0
    for other in range(num_agents):
        distance = abs(x[env, other] - column) + abs(y[env, other] - row)
        if other != robot and distance < nearest:
            nearest, dx, dy = distance, x[env, other] - column, y[env, other] - row
    observations[env, robot, 2] = np.float32(dx) * scale
    observations[env, robot, 3] = np.float32(dy) * scale


# %% [markdown]
# ## A reference in NumPy
#
# The checks find threads that interfere, but do not know the rules: a robot that moves left instead of right passes
# all of them. So the rules are written a second time, as simply as possible, for one replica and without threads.
# `reference_step` returns the state after a step, with observations, rewards and `terminated`. It is used in tests
# only.


# %%
class OrchardRules(Orchard):
    step, observe = step, observe

    def reference_step(self, state, actions):
        x = np.clip(state["x"] + MOVES[actions, 0], 0, self.side - 1)
        y = np.clip(state["y"] + MOVES[actions, 1], 0, self.side - 1)
        fruit, rewards = state["fruit"].copy(), np.zeros(self.num_agents, np.float32)
        for robot in range(self.num_agents):  # in the order of their numbers
            rewards[robot] = fruit[y[robot], x[robot]]
            fruit[y[robot], x[robot]] = False
        after = {"x": x, "y": y, "fruit": fruit, "remaining": fruit.sum(), "timestep": state["timestep"] + 1}
        observations = self.reference_observe(after)
        return {**after, "observations": observations, "rewards": rewards, "terminated": not fruit.any()}

    def reference_observe(self, state):
        cells = np.stack([state["x"], state["y"]], axis=1)
        ripe = np.argwhere(state["fruit"])[:, ::-1]  # row by row, as (column, row)
        seen = np.zeros((self.num_agents, 4), np.float32)
        for robot, cell in enumerate(cells):
            for place, targets in ((0, ripe), (2, np.delete(cells, robot, axis=0))):
                if len(targets):
                    ways = targets - cell
                    seen[robot, place : place + 2] = ways[np.abs(ways).sum(axis=1).argmin()] / self.side
        return seen


# %%
print(error_of(lambda: wd.testing.check_environment(OrchardRules(**small))))

# %% [markdown]
# No error: there are no races and no out-of-bounds accesses, and on all backends of this machine the kernels agree
# with the reference. In a project this line is a test,
# `def test_orchard(): wd.testing.check_environment(OrchardRules(...))`.
#
# Would it have noticed a mistake? Here the reference rewards the robot with the *highest* index:


# %%
class WrongRules(OrchardRules):
    def reference_step(self, state, actions):
        after = super().reference_step(state, actions)
        x, y = after["x"], after["y"]
        for robot in np.flatnonzero(after["rewards"]):
            last = np.flatnonzero((x == x[robot]) & (y == y[robot])).max()
            after["rewards"][[robot, last]] = after["rewards"][[last, robot]]
        return after


print(error_of(lambda: wd.testing.check_environment(WrongRules(**small))))

# %% [markdown]
# ## Pictures
#
# In the kernel `draw` every robot draws itself. A second one, `draw_things`, draws other objects: here each robot's
# thread draws the fruit of its share of the cells. `view` is the part of the world that is shown.


# %%
@wd.kernel
def draw(shapes, x, y):
    env, robot = cuda.blockIdx.x, cuda.threadIdx.x
    wd.draw.circle(shapes, 0, np.float32(x[env, robot]), np.float32(y[env, robot]), 0.35, wd.draw.BLUE)
    wd.draw.trail(shapes, 0, 5)


@wd.kernel
def draw_fruit(things, fruit, side, num_agents):
    env, robot = cuda.blockIdx.x, cuda.threadIdx.x
    for cell in range(robot, side * side, num_agents):
        column, row = cell % side, cell // side
        if fruit[env, row, column]:
            wd.draw.circle(things, cell // num_agents, np.float32(column), np.float32(row), 0.2, wd.draw.ORANGE)


# %%
class OrchardInColour(OrchardRules):
    """Robots harvest fruit in a square orchard."""

    draw, draw_things = draw, draw_fruit

    @property
    def view(self):
        return -0.7, self.side - 0.3, -0.7, self.side - 0.3

    @property
    def things_per_agent(self):
        return -(-self.side * self.side // self.num_agents)


# %%
env = wd.EnvWrapper(OrchardInColour(), num_envs=500, reset_pool_size=None, seed=1)
wd.replay(env, replicas=2, width=420)

# %% [markdown]
# These robots move at random, and leave much of the fruit on the trees.
#
# ## Training
#
# All robots share one policy, as they have the same tag. Each is rewarded for the fruits that it picks itself.

# %%
config = {
    "name": "orchard",
    "trainer": {"num_envs": 500, "train_batch_size": 10_000, "total_steps": 120_000},
    "policy": {"robot": {"algorithm": "ppo", "lr": 2e-3, "gamma": 0.95, "model": {"hidden": [64, 64]}}},
}
trainer = wd.Trainer(env, config)
summary = trainer.train()

# %%
random = trainer.fetch_episode(replicas=500, random=["robot"])
trained = trainer.fetch_episode(replicas=500)


def describe(name, recording):
    """Print how much is harvested, how fast, and how often robots stand on one cell."""
    picked = recording.rewards.sum(axis=(0, 2)).mean()
    cells = recording.states["x"] + 8 * recording.states["y"]
    together = np.mean(
        [(cells[..., i] == cells[..., j])[1:][recording.played].mean() for i, j in [(0, 1), (0, 2), (1, 2)]]
    )
    print(
        f"{name:8} {picked:4.1f} of 12 fruits in {recording.lengths.mean():4.1f} steps; "
        f"two robots are on the same cell in {together:.0%} of the steps"
    )


describe("random", random)
describe("trained", trained)
wd.replay(trained.of_replicas([0, 1]), env=env.env, width=420)

# %% [markdown]
# Training succeeded, but the animation shows a limit: robots that have met stay together. Both see the same nearest
# fruit, so both walk there, and only one can pick it. Their observations do not tell them whose fruit it is.
#
# ## Better observations
#
# Now a robot observes the nearest of those fruits to which no other robot is nearer; of equally near robots the one
# with the lowest index counts. `step` stays as it is, and the reference is changed accordingly.


# %%
@wd.device_function
def is_mine(x, y, env, robot, column, row, num_agents):
    """Return True if no other robot is nearer to a cell."""
    mine = abs(x[env, robot] - column) + abs(y[env, robot] - row)
    for other in range(num_agents):
        distance = abs(x[env, other] - column) + abs(y[env, other] - row)
        if distance < mine or (distance == mine and other < robot):
            return False
    return True


@wd.kernel
def observe_share(x, y, fruit, observations, side, num_agents):
    env, robot = cuda.blockIdx.x, cuda.threadIdx.x
    column, row, scale = x[env, robot], y[env, robot], np.float32(1) / np.float32(side)
    nearest, dx, dy = 2 * side, 0, 0
    for i in range(side):
        for j in range(side):
            distance = abs(j - column) + abs(i - row)
            if fruit[env, i, j] and distance < nearest and is_mine(x, y, env, robot, j, i, num_agents):
                nearest, dx, dy = distance, j - column, i - row
    observations[env, robot, 0] = np.float32(dx) * scale
    observations[env, robot, 1] = np.float32(dy) * scale


# %%
class SharedOrchard(OrchardInColour):
    """Robots that see the nearest fruit of their own share."""

    observe = observe_share

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reference_observe(self, state):
        cells = np.stack([state["x"], state["y"]], axis=1)
        ripe = np.argwhere(state["fruit"])[:, ::-1]
        owner = np.abs(ripe[:, None] - cells[None]).sum(axis=2).argmin(axis=1)  # of equals the first
        seen = np.zeros((self.num_agents, 2), np.float32)
        for robot in set(owner.tolist()):
            ways = ripe[owner == robot] - cells[robot]
            seen[robot] = ways[np.abs(ways).sum(axis=1).argmin()] / self.side
        return seen


# %%
print(error_of(lambda: wd.testing.check_environment(SharedOrchard(**small))))

# %%
import matplotlib.pyplot as plt

shared_trainer = wd.Trainer(wd.EnvWrapper(SharedOrchard(), num_envs=500, reset_pool_size=None, seed=1), config)
summary = shared_trainer.train()
shared = shared_trainer.fetch_episode(replicas=500)
describe("trained", trained)
describe("shared", shared)

_, axes = plt.subplots(figsize=(6, 2.5), dpi=80, layout="tight")
for name, recording in {"random": random, "nearest fruit": trained, "nearest fruit of its share": shared}.items():
    axes.plot(recording.states["remaining"].mean(axis=1), label=name)
axes.set(xlabel="step", ylabel="fruits that remain", ylim=(0, 12.2), xlim=(0, 40))
axes.legend(fontsize=8)
plt.show()

# %%
wd.replay(shared.of_replicas([0, 1]), env=SharedOrchard(), width=420)

# %% [markdown]
# These are the same two orchards as above, and now the robots separate. Over 500 orchards they need fewer steps, and
# hardly ever stand on the same cell.
#
# ## A file for the command line
#
# To use an environment on the command line, put it into a file. Here the file is assembled from the cells above: `In`
# is IPython's list of executed cells. In a run configuration, `path/to/file.py:Class` takes the place of a name. The
# command below trains it. `warpdrive check orchard.py:SharedOrchard num_robots=3 side=3` runs the checks.

# %%
import json
import subprocess
import sys
from pathlib import Path

kernels = [f"@wd.kernel\ndef {name}" for name in ("step", "observe", "draw")]
begins = ("import numpy", "MOVES", "class Orchard", "class SharedOrchard", "@wd.device_function", *kernels)
Path("orchard.py").write_text("\n\n\n".join(cell for cell in In if cell.startswith(begins)) + "\n")
Path("orchard.yaml").write_text("""
env: {name: "orchard.py:SharedOrchard", num_robots: 5}
trainer: {num_envs: 500, train_batch_size: 10_000, total_steps: 100_000}
policy: {robot: {algorithm: ppo, lr: 0.002, gamma: 0.95}}
""")

command = "-m warpdrive train -q --no-replay --no-report orchard.yaml"
run = subprocess.run([sys.executable, *command.split()], capture_output=True, text=True, check=True).stdout.strip()
for result in json.loads(Path(run, "evaluation.json").read_text()):
    print(f"random tags {result['random']}: {result['terminated_fraction']:.0%} of the orchards are harvested")

# %% [markdown]
# Five robots instead of three require no change of the code: the number of agents is a parameter of the constructor.
# `wd.register("orchard", SharedOrchard)` gives the environment a name; a package registers its environments with the
# entry point `warpdrive.environments`. `warpdrive init my_game` writes an environment to start from, with tests and a
# run configuration.

# %%
wd.register("orchard", SharedOrchard)
env = wd.EnvWrapper(env_name="orchard", env_config={"num_robots": 5}, num_envs=100)
print(env.env.name, env.num_agents, "robots")

# %% [markdown]
# ## What was learned
#
# - An environment is a class with constants, `initial_state`, and a kernel `step`; `observe` and `draw` are kernels,
#   too.
# - Agents act simultaneously: use rules for ties, barriers between writing and reading, and atomic operations for
#   shared numbers.
# - Observations determine what agents can learn.
# - `wd.testing.check_environment` finds races without a GPU, and compares the kernels with `reference_step`.
# - A file and a run configuration suffice for the command line; `wd.register` gives an environment a name.
#
# ## Exercises
#
# **Exercise 1.** Moving costs energy. Complete `step_with_costs`, which has the rules of `step`, and in which each action other than
# 0 (stay) costs 0.25, also if the robot stands at the edge and does not move.


# %% tags=["exercise"]
@wd.kernel
def step_with_costs(x, y, fruit, remaining, actions, rewards, terminated, side):
    env, robot = cuda.blockIdx.x, cuda.threadIdx.x
    move = actions[env, robot]
    column = min(max(x[env, robot] + MOVES[move, 0], 0), side - 1)
    row = min(max(y[env, robot] + MOVES[move, 1], 0), side - 1)
    x[env, robot], y[env, robot] = column, row
    cuda.syncthreads()  # all have moved
    picks = fruit[env, row, column]
    for other in range(robot):
        if x[env, other] == column and y[env, other] == row:
            picks = False
    cuda.syncthreads()  # all have looked
    if picks:
        fruit[env, row, column] = False
        rewards[env, robot] = 1
        cuda.atomic.sub(remaining, env, 1)
    cuda.syncthreads()  # all have picked
    if robot == 0 and remaining[env] == 0:
        terminated[env] = True


# %% tags=["check"]
class OrchardWithCosts(OrchardRules):
    step = step_with_costs


rules = OrchardWithCosts(**small)
costly = wd.EnvWrapper(rules, num_envs=200, reset_pool_size=None, seed=2, auto_reset=False)
states = [costly.state(number) for number in range(200)]
actions = np.random.default_rng(3).integers(0, 5, (200, 3), dtype=np.int32)
found = costly.step(actions)[1].cpu().numpy()
picked = np.stack([rules.reference_step(state, a)["rewards"] for state, a in zip(states, actions, strict=True)])
expected = picked - 0.25 * (actions != 0)
if np.array_equal(found, picked):
    print("Exercise 1: not answered yet")
elif (wrong := np.argwhere(np.abs(found - expected) > 1e-6)).size:
    number, robot = wrong[0]
    print(
        f"Exercise 1: with action {actions[number, robot]} and {picked[number, robot]:g} fruits picked the reward is "
        f"{found[number, robot]:.2f}, expected {expected[number, robot]:.2f}"
    )
else:
    print("Exercise 1: correct")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# @wd.kernel
# def step_with_costs(x, y, fruit, remaining, actions, rewards, terminated, side):
#     env, robot = cuda.blockIdx.x, cuda.threadIdx.x
#     move = actions[env, robot]
#     if move != 0:
#         rewards[env, robot] = -0.25
#     column = min(max(x[env, robot] + MOVES[move, 0], 0), side - 1)
#     row = min(max(y[env, robot] + MOVES[move, 1], 0), side - 1)
#     x[env, robot], y[env, robot] = column, row
#     cuda.syncthreads()  # all have moved
#     picks = fruit[env, row, column]
#     for other in range(robot):
#         if x[env, other] == column and y[env, other] == row:
#             picks = False
#     cuda.syncthreads()  # all have looked
#     if picks:
#         fruit[env, row, column] = False
#         rewards[env, robot] += 1
#         cuda.atomic.sub(remaining, env, 1)
#     cuda.syncthreads()  # all have picked
#     if robot == 0 and remaining[env] == 0:
#         terminated[env] = True
# ```
#
# </details>

# %% [markdown]
# **Exercise 2.** Complete `Depot`, an orchard in which all robots start at the depot, the cell in column 0 and row 0, and in which no
# fruit grows there.


# %% tags=["exercise"]
class Depot(OrchardRules):
    def initial_state(self, rng):
        return super().initial_state(rng)


# %% tags=["check"]
depot = Depot(**small)
starts = [depot.initial_state(np.random.default_rng(seed)) for seed in range(50)]
robots = np.array([[start["x"], start["y"]] for start in starts])
fruits = np.array([start["fruit"].sum() for start in starts])
if robots.any() and any(start["fruit"][0, 0] for start in starts):
    print("Exercise 2: not answered yet")
elif robots.any():
    print(f"Exercise 2: robots start at {robots[0].T.tolist()}, expected [0, 0] for each")
elif any(start["fruit"][0, 0] for start in starts):
    print("Exercise 2: fruit grows at the depot")
elif any(start["fruit"].sum() != start["remaining"] for start in starts):
    print("Exercise 2: `remaining` differs from the number of fruits")
elif fruits.min() < small["num_fruits"] - 1:
    print(f"Exercise 2: found {fruits.min()} fruits, expected {small['num_fruits']}, or one less")
else:
    report = error_of(lambda: wd.testing.check_environment(Depot(**small)))
    print("Exercise 2: correct" if report == "no error" else f"Exercise 2: {report}")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# class Depot(OrchardRules):
#     def initial_state(self, rng):
#         state = super().initial_state(rng)
#         state["x"][:], state["y"][:] = 0, 0
#         state["fruit"][0, 0] = False
#         state["remaining"] = np.int32(state["fruit"].sum())
#         return state
# ```
#
# </details>

# %% [markdown]
# ## Where next
#
# - [The same in CUDA C](06_cuda_c.ipynb): kernels compiled by NVRTC.
# - [Checking kernels](08_checking_kernels.ipynb): more checks, and how to debug a kernel.
# - [Training](07_training.ipynb): the curves of a run, and what to tune.
# - [Writing environments](../docs/guides/authoring.md): images, dictionaries, agents that leave, action masks, global
#   state.
