# %% [markdown]
# # Checking and debugging kernels
#
# A kernel runs in thousands of threads at once, and some of its mistakes raise no error: two threads that write the
# same element, an index just outside of an array, arithmetic that is silently float64, a NaN in one of a million
# numbers. On the CPU backend most of them even give the right result.
#
# This notebook has a small game with four such mistakes, finds them with the checks, fixes them one by one, and then
# debugs a running kernel. It takes about 15 seconds on two cores; no GPU is needed.

# %%
# In a hosted notebook (Colab, Kaggle): upload a source checkout or wheel of WarpDrive, and run the next line without its #.
# %pip install --quiet "./warpdrive"

# %%
import subprocess
import sys
import traceback
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from gymnasium import spaces
from numba import cuda

import warpdrive as wd

# %% [markdown]
# ## A race
#
# Six squirrels each put a nut under a tree. One thread is one squirrel, and `tree[agent]` is its tree. Three of them
# choose tree 0.


# %%
@wd.kernel
def store(nuts, tree):
    agent = cuda.threadIdx.x
    nuts[tree[agent]] += 1


tree = np.array([0, 2, 0, 1, 2, 0])
nuts = np.zeros(3, np.int32)
store[1, 6](nuts, tree)
print("nuts under the trees:", nuts)

# %% [markdown]
# Three, one and two is correct, but a GPU may have another result. `nuts[...] += 1` is three operations: read, add,
# write. The threads of a warp execute them together, so the three squirrels at tree 0 may all read 0, and all write
# 1.
#
# `wd.check_launch` runs the same launch in an interpreter that records every memory access of every thread, on copies
# of the arrays:

# %%
report = wd.check_launch(store, 1, 6, np.zeros(3, np.int32), tree)
print(report)

# %% [markdown]
# The report names the threads, the element and the line, and suggests a fix. Its data are available to tests:

# %%
race = report.races[0]
print(report.clean, race.array, race.index, race.threads, race.count)

# %% [markdown]
# **Why is a race invisible on a CPU?** The CPU backend executes the threads of a block one after the other, from one
# barrier to the next, as a loop. So no thread ever runs between the read and the write of another one, and no number
# of runs would show the race.
#
# How much would a GPU lose? NumPy can show it: `nuts[tree] += 1` reads all elements before it writes any, as threads
# that run in lockstep would, and `np.add.at` adds one by one.

# %%
generator = np.random.default_rng(0)
numbers = np.arange(1, 33)
kept = []
for number in numbers:
    lockstep = 0
    for _ in range(300):
        nuts = np.zeros(16, int)
        nuts[generator.integers(0, 16, number)] += 1
        lockstep += nuts.sum()
    kept.append(lockstep / 300 / number)

_, axes = plt.subplots(figsize=(6, 2.4), dpi=80, layout="tight")
axes.plot(numbers, np.ones(32), label="one after the other")
axes.plot(numbers, kept, label="in lockstep")
axes.set(xlabel="squirrels at 16 trees", ylabel="fraction of nuts that count", ylim=(0, 1.05))
axes.legend(loc="lower left")
plt.show()

# %% [markdown]
# With few squirrels hardly a nut is lost, with 32 more than half of them are. A race may have no visible effect in a
# small test, and may not make training fail: rewards are just slightly wrong. This is why the check examines accesses
# instead of results.
#
# The fix is an atomic addition, which no other thread can interrupt:


# %%
@wd.kernel
def store(nuts, tree):
    agent = cuda.threadIdx.x
    cuda.atomic.add(nuts, tree[agent], 1)


print(wd.check_launch(store, 1, 6, np.zeros(3, np.int32), tree))

# %% [markdown]
# ## A game with four mistakes
#
# Now a whole environment. Squirrels walk between the trees of a ring and put a nut under the tree where they are; the
# more nuts are there, the higher the reward. They see the nuts under the trees to the left and to the right, as
# fractions of those under the three trees.


# %%
@wd.kernel
def step(place, nuts, actions, rewards, num_trees):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    place[env, agent] = (place[env, agent] + actions[env, agent] - 1) % num_trees
    tree = place[env, agent]
    nuts[env, tree] += 1
    rewards[env, agent] = 0.1 * nuts[env, tree]


@wd.kernel
def observe(place, nuts, observations):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    tree = place[env, agent]
    left, here, right = nuts[env, tree - 1], nuts[env, tree], nuts[env, tree + 1]
    total = np.float32(left + here + right)
    observations[env, agent, 0] = np.float32(left) / total
    observations[env, agent, 1] = np.float32(right) / total


class Forest(wd.Environment):
    """Squirrels store nuts together."""

    name = "forest"
    step, observe = step, observe

    def __init__(self, num_agents=6, num_trees=8, episode_length=20):
        self.num_agents, self.num_trees, self.episode_length = num_agents, num_trees, episode_length
        self.policy_tags = {"squirrel": range(num_agents)}
        self.observation_space = spaces.Box(0.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Discrete(3)

    def initial_state(self, rng):
        place = rng.integers(0, self.num_trees, self.num_agents, np.int32)
        return {"place": place, "nuts": np.zeros(self.num_trees, np.int32)}


# %% [markdown]
# `wd.testing.check_environment` is the check for environments. It fuses the kernels with those of the library, as in a
# real step, steps them with random actions through whole episodes, and raises an `AssertionError` with all findings:
# one line in your test suite is enough. `nan=True` reports NaN in any array.


# %%
def check(environment):
    try:
        wd.testing.check_environment(environment, nan=True)
    except AssertionError as error:
        print(str(error).replace(str(Path(wd.__file__).parent), "warpdrive"))
    else:
        print("nothing found")


check(Forest())

# %% [markdown]
# Read the findings from the top down:
#
# - two `races`: the addition in `step`, and the reward, which is read while others still add;
# - `bounds`: the index `tree + 1`, and before it `tree - 1`, leave the array where the ring closes;
# - `float64`: the literal `0.1`, and everything calculated with it;
# - `order`: results that depend on which thread comes first, probably because of the races, as the findings say. Some
#   lines are those of the library, which copies the rewards;
# - `nan`: 0 divided by 0 if there are no nuts.
#
# ## Fixing them, one at a time
#
# **The races.** The addition becomes atomic, and a barrier after it separates the additions from the readings:
# `cuda.syncthreads()` waits until all squirrels of this replica have stored their nut.
#
# **float64.** In Python, `0.1` is a float64, and a float32 multiplied by it is one as well. A constant outside of the
# kernel that is `np.float32` keeps the arithmetic in float32. On most GPUs float64 is much slower.

# %%
PER_NUT = np.float32(0.1)


@wd.kernel
def fixed_step(place, nuts, actions, rewards, num_trees):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    place[env, agent] = (place[env, agent] + actions[env, agent] - 1) % num_trees
    tree = place[env, agent]
    cuda.atomic.add(nuts, (env, tree), 1)
    cuda.syncthreads()
    rewards[env, agent] = PER_NUT * np.float32(nuts[env, tree])


class BetterForest(Forest):
    """Forest without races."""

    step = fixed_step


check(BetterForest())

# %% [markdown]
# The findings of `order` are gone together with the races. **Bounds**: the trees are a ring, so the neighbours are
# taken modulo their number. A negative index counts from the end in Python, and here as well, but not in CUDA C; the
# check reports it, because it is usually a mistake.


# %%
@wd.kernel
def observe_ring(place, nuts, observations, num_trees):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    tree = place[env, agent]
    left, here = nuts[env, (tree - 1) % num_trees], nuts[env, tree]
    right = nuts[env, (tree + 1) % num_trees]
    total = np.float32(left + here + right)
    observations[env, agent, 0] = np.float32(left) / total
    observations[env, agent, 1] = np.float32(right) / total


class RingForest(BetterForest):
    """Forest without races and with indices on the ring."""

    observe = observe_ring


check(RingForest())

# %% [markdown]
# Now that no index is out of bounds, the environment is also stepped, and `spaces` reports that observations at the
# start of an episode are NaN.
#
# ## Debugging a kernel
#
# Why is `total` zero? `wd.debug` runs a kernel as plain Python, one thread at a time up to its next barrier, on the
# given NumPy arrays. `print` and f-strings work:


# %%
@wd.kernel
def observe_aloud(place, nuts, observations, num_trees):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    tree = place[env, agent]
    left, here = nuts[env, (tree - 1) % num_trees], nuts[env, tree]
    right = nuts[env, (tree + 1) % num_trees]
    total = np.float32(left + here + right)
    print(f"replica {env}, squirrel {agent} at tree {tree}: {left} + {here} + {right} = {total}")
    assert total > 0, f"no nuts around tree {tree}"
    observations[env, agent, 0] = np.float32(left) / total
    observations[env, agent, 1] = np.float32(right) / total


place = np.array([[2, 3, 2], [1, 2, 6]], np.int32)
nuts = np.array([[0, 1, 3, 1, 0, 0, 0, 0], [2, 1, 1, 0, 0, 0, 0, 0]], np.int32)
observations = np.zeros((2, 3, 2), np.float32)
try:
    wd.debug(observe_aloud)[2, 3](place, nuts, observations, 8)
except AssertionError as error:
    print(f"{type(error).__name__}: {error}", *getattr(error, "__notes__", []))
    print("at", traceback.extract_tb(error.__traceback__)[-1].line)

# %% [markdown]
# The traceback of the exception ends at the line in the kernel and, from Python 3.11 on, with a note that names the
# thread.
#
# `breakpoint()` opens the debugger, in which you step through *one thread* at a time. So that this notebook runs
# unattended, a function replaces the debugger here and prints the local variables of the kernel.


# %%
def print_variables():
    variables = sys._getframe(1).f_locals
    print({name: int(variables[name]) for name in ("env", "agent", "tree", "left", "here", "right")})


@wd.kernel
def observe_stopping(place, nuts, num_trees):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    tree = place[env, agent]
    left, here = nuts[env, (tree - 1) % num_trees], nuts[env, tree]
    right = nuts[env, (tree + 1) % num_trees]
    if left + here + right == 0:
        breakpoint()


former, sys.breakpointhook = sys.breakpointhook, print_variables
wd.debug(observe_stopping)[2, 3](place, nuts, 8)
sys.breakpointhook = former

# %% [markdown]
# At the start of each episode there are no nuts near any squirrel. The fix is a value for this case.

# %%
ZERO, ONE = np.float32(0), np.float32(1)


@wd.kernel
def fixed_observe(place, nuts, observations, num_trees):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    tree = place[env, agent]
    left, here = nuts[env, (tree - 1) % num_trees], nuts[env, tree]
    right = nuts[env, (tree + 1) % num_trees]
    total = max(np.float32(left + here + right), ONE)
    observations[env, agent, 0] = np.float32(left) / total
    observations[env, agent, 1] = np.float32(right) / total


class FixedForest(RingForest):
    """Forest without mistakes."""

    observe = fixed_observe


check(FixedForest())

# %% [markdown]
# ## On the command line
#
# `warpdrive check` does the same for a registered environment or for a file, with `--nan`, `--steps` and `--json`.
# Its exit code is 1 if there are findings, for continuous integration. Here it is started from Python; in a terminal,
# run `warpdrive check tag_gridworld num_taggers=2 grid_length=5`.

# %%
command = [
    sys.executable,
    "-m",
    "warpdrive",
    "check",
    "tag_gridworld",
    "num_taggers=2",
    "grid_length=5",
    "--steps",
    "20",
]
done = subprocess.run(command, capture_output=True, text=True)
print(done.stdout, done.stderr, f"exit code {done.returncode}")

# %% [markdown]
# Check environments with few agents and few replicas: the interpreter takes microseconds for each access, and
# mistakes in a kernel nearly always occur with four agents as well. Only code that is executed is checked: if a
# branch needs two agents close to each other, use a small map.
#
# ## What was learned
#
# - The CPU backend runs threads one after the other between barriers, so results do not reveal a race.
#   `wd.check_launch` and `wd.testing.check_environment` examine the accesses instead.
# - A race is fixed by an atomic operation, by a barrier between writing and reading, or by letting one thread write.
# - Indices are checked against the shape, float64 is found by type inference, NaN by its first write (`nan=True`).
# - Fix what the report lists first; `order` and findings in lines of the library are often consequences.
# - `wd.debug` runs a kernel as Python, with prints, breakpoints, and exceptions that name the thread.
#
# ## Exercises
#
# **Exercise 1.** Each squirrel knows its distance to the fox; `nearest[0]` should become the smallest. The kernel has
# a race. Define `find_nearest` again, without findings.


# %%
def plain_find_nearest(distance, nearest):
    agent = cuda.threadIdx.x
    nearest[0] = min(nearest[0], distance[agent])


print(wd.check_launch(plain_find_nearest, 1, 4, np.array([5, 3, 8, 4], np.float32), np.full(1, 9, np.float32)))


# %% tags=["exercise"]
@wd.kernel
def find_nearest(distance, nearest):
    agent = cuda.threadIdx.x
    nearest[0] = nearest[0] if agent >= 0 else distance[agent]  # replace this line


# %% tags=["check"]
def check_find_nearest():
    for seed in range(5):
        distance = np.random.default_rng(seed).uniform(0, 10, 32).astype(np.float32)
        nearest = np.full(1, 99, np.float32)
        find_nearest[1, 32](distance, nearest)
        if nearest[0] == 99:
            return "not answered yet"
        if nearest[0] != distance.min():
            return f"found {nearest[0]:.3f}, expected {distance.min():.3f}"
        report = wd.check_launch(find_nearest, 1, 32, distance, np.full(1, 99, np.float32))
        if not report.clean:
            return f"the kernel still has findings: {report}"
    return "correct"


print("Exercise 1:", check_find_nearest())

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# @wd.kernel
# def find_nearest(distance, nearest):
#     agent = cuda.threadIdx.x
#     cuda.atomic.min(nearest, 0, distance[agent])
# ```
#
# </details>

# %% [markdown]
# **Exercise 2.** This kernel should replace every element but the first and the last by the mean of itself and its
# two neighbours *before* the launch. It has a race, indices out of bounds and float64. Define `smooth` again, without
# findings, for one block with a thread per element.


# %%
def plain_smooth(x):
    i = cuda.threadIdx.x
    x[i] = (x[i - 1] + x[i] + x[i + 1]) / 3


print(wd.check_launch(plain_smooth, 1, 5, np.arange(5, dtype=np.float32)))


# %% tags=["exercise"]
@wd.kernel
def smooth(x):
    i = cuda.threadIdx.x
    x[i] = x[i]  # replace this line


# %% tags=["check"]
def check_smooth():
    x = np.random.default_rng(0).uniform(0, 1, 50).astype(np.float32)
    expected = x.copy()
    expected[1:-1] = np.convolve(x, np.full(3, 1 / 3), "valid")
    found = x.copy()
    smooth[1, 50](found)
    if (found == x).all():
        return "not answered yet"
    if not np.allclose(found, expected, atol=1e-6):
        worst = np.abs(found - expected).argmax()
        return f"x[{worst}] is {found[worst]:.4f}, expected {expected[worst]:.4f}"
    report = wd.check_launch(smooth, 1, 50, x)
    return "correct" if report.clean else f"the kernel still has findings: {report}"


print("Exercise 2:", check_smooth())

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# THIRD = np.float32(1 / 3)
#
#
# @wd.kernel
# def smooth(x):
#     i = cuda.threadIdx.x
#     value = x[i]
#     if i > 0 and i < x.shape[0] - 1:
#         value = (x[i - 1] + x[i] + x[i + 1]) * THIRD
#     cuda.syncthreads()  # all have read
#     x[i] = value
# ```
#
# </details>

# %% [markdown]
# **Exercise 3.** One of 2400 numbers becomes NaN. Which block and which thread write it? Find out with
# `wd.check_launch` or `wd.debug`, and set `culprit = (block, thread)`.


# %%
@wd.kernel
def root(x, y):
    y[cuda.blockIdx.x, cuda.threadIdx.x] = wd.math.sqrt(x[cuda.blockIdx.x, cuda.threadIdx.x] - x[0, 0])


x = np.random.default_rng(8).uniform(0.1, 1, (60, 40)).astype(np.float32)
x[0, 0] = np.partition(x, 1, axis=None)[1]

# %% tags=["exercise"]
culprit = None

# %% tags=["check"]
if culprit is None:
    print("Exercise 3: not answered yet")
else:
    expected = tuple(int(place) for place in np.argwhere(x < x[0, 0])[0])
    print("Exercise 3:", "correct" if tuple(culprit) == expected else f"found {culprit}, expected another one")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# found = wd.check_launch(root, 60, 40, x, np.zeros_like(x), nan=True).nan[0]
# culprit = (found.blocks[0], found.threads[0])
# ```
#
# </details>

# %% [markdown]
# ## Where next
#
# - [Checks](../docs/guides/checks.md): every finding with an example, programs of `numba.cuda`, and what is not
#   reported.
# - [Kernels](../docs/reference/kernels.md): what the kernel language supports.
# - [Kernels in CUDA C](06_cuda_c.ipynb), which are compared with equivalent Python kernels.
# - [Scaling up](09_scaling_up.ipynb): more replicas, processes and machines.
