# %% [markdown]
# # The runtime: arrays, kernels and launches
#
# How strongly must fireflies be coupled before they flash in unison? In the Kuramoto model, each firefly has a phase
# that turns at its own speed, and is pulled towards the phases of the others. This tutorial simulates 96 swarms of
# 256 fireflies at once, each with a different coupling, and finds the threshold.
#
# It introduces the components of WarpDrive's environments: arrays on a device, kernels, device functions, barriers,
# shared memory and launches. Nothing is trained. It takes about 10 seconds on two cores; no GPU is needed.

# %%
# In a hosted notebook (Colab, Kaggle): upload a source checkout or wheel of WarpDrive, and run the next line without its #.
# %pip install --quiet "./warpdrive"

# %%
import math

import matplotlib.pyplot as plt
import numpy as np
import torch
from numba import cuda, float32

import warpdrive as wd

# %% [markdown]
# ## Arrays on a device
#
# A `DeviceContext` holds named arrays on one device. Arrays of the replicas' state are declared first, each with the
# shape of *one* replica, and then allocated together, with the number of replicas as the first dimension.

# %%
SWARMS, FIREFLIES = 96, 256
device = "cuda" if torch.cuda.is_available() else "cpu"

context = wd.DeviceContext(device, num_envs=SWARMS)
context.declare("phase", (FIREFLIES,), np.float32)
context.declare("speed", (FIREFLIES,), np.float32)
context.declare("coupling", (), np.float32)
context.declare("order", (), np.float32)
context.allocate()

for name in context:
    print(f"{name:10} {tuple(context[name].shape)!s:10} {context[name].dtype}")

# %% [markdown]
# `context[name]` is a PyTorch tensor that shares its memory with the array that kernels read and write. It can be
# filled by any PyTorch operation.

# %%
torch.manual_seed(0)
phase, speed, coupling, order = (context[name] for name in ("phase", "speed", "coupling", "order"))
phase.uniform_(-math.pi, math.pi)
speed.normal_()
coupling.copy_(torch.linspace(0, 4, SWARMS))
print(f"phases between {phase.min():.2f} and {phase.max():.2f}")
print("the same memory:", phase.data_ptr() == context["phase"].data_ptr())

# %% [markdown]
# `memory_report()` lists the size of each array in bytes; `bytes_per_env` is the size of one replica.

# %%
for name, size in context.memory_report().items():
    print(f"{name:10} {size:8,} bytes")
print(f"one swarm  {context.bytes_per_env:8,} bytes")

# %% [markdown]
# ## A kernel, and its launch
#
# A kernel is a function that many threads execute at the same time. Threads are grouped into **blocks**:
# `k[blocks, threads](...)` launches `blocks * threads` of them. A thread learns from `cuda.blockIdx.x` and
# `cuda.threadIdx.x` which one it is.
#
# The kernel below turns each firefly at its own speed. `turned` is a device function, which kernels call and which
# may return a value; a kernel returns nothing and writes into arrays.


# %%
@wd.device_function
def turned(angle, by):
    """Add two angles; the result is between -pi and pi."""
    total = angle + by
    return total - float32(2 * math.pi) * math.floor(total * float32(0.5 / math.pi) + float32(0.5))


@wd.kernel
def turn(phase, speed, time_step):
    swarm, firefly = cuda.blockIdx.x, cuda.threadIdx.x
    phase[swarm, firefly] = turned(phase[swarm, firefly], speed[swarm, firefly] * time_step)


before = phase.clone()
turn[SWARMS, FIREFLIES](phase, speed, np.float32(0.1))
expected = torch.remainder(before + 0.1 * speed + math.pi, 2 * math.pi) - math.pi
print(f"largest difference from PyTorch: {(phase - expected).abs().max():.1e}")

# %% [markdown]
# The launch compiled the kernel for the types of its arguments and for the device of the arrays. Arguments may be
# NumPy arrays, tensors and numbers.
#
# If threads are independent of each other, `forall(n)` chooses the number of blocks. Each thread gets its index in
# the whole grid by `cuda.grid(1)`. There may be more threads than tasks, so the kernel has to check the index.


# %%
@wd.kernel
def fill_with_squares(values):
    place = cuda.grid(1)
    if place < values.size:
        values[place] = place * place


squares = np.zeros(1000, np.int64)
fill_with_squares.forall(len(squares))(squares)
print(squares[:6], "...", squares[-1])

# %% [markdown]
# ## Barriers and shared memory
#
# Fireflies see each other. In the model, swarm $s$ pulls on firefly $i$ with its *mean field*
# $r_s e^{i\psi_s} = \frac{1}{N} \sum_j e^{i\theta_j}$:
#
# $$\dot\theta_i = \omega_i + K_s \, r_s \sin(\psi_s - \theta_i)$$
#
# $r$ is the *order parameter*: nearly 0 if phases are scattered, 1 if all fireflies flash at the same moment. The mean over
# a swarm needs two more tools:
#
# - **Shared memory**, `cuda.shared.array`: an array that the threads of a block share.
# - **A barrier**, `cuda.syncthreads()`: no thread of the block continues before all have arrived. Without it, a
#   thread could read values that others have not written yet.


# %%
@wd.device_function
def block_sum(values, thread):
    """Leave the sum of a shared array in its first element."""
    half = FIREFLIES // 2
    while half > 0:
        cuda.syncthreads()
        if thread < half:
            values[thread] += values[thread + half]
        half //= 2
    cuda.syncthreads()


@wd.kernel
def synchronise(phase, speed, coupling, order, time_step, num_steps):
    swarm, firefly = cuda.blockIdx.x, cuda.threadIdx.x
    cosines = cuda.shared.array(FIREFLIES, float32)
    sines = cuda.shared.array(FIREFLIES, float32)
    theta, mean_order = phase[swarm, firefly], float32(0)
    for step in range(num_steps):
        cosines[firefly], sines[firefly] = wd.math.cos(theta), wd.math.sin(theta)
        block_sum(cosines, firefly)
        block_sum(sines, firefly)
        x, y = cosines[0] / float32(FIREFLIES), sines[0] / float32(FIREFLIES)
        pull = y * wd.math.cos(theta) - x * wd.math.sin(theta)  # r sin(psi - theta)
        theta = turned(theta, (speed[swarm, firefly] + coupling[swarm] * pull) * time_step)
        if step >= num_steps // 2:
            mean_order += wd.math.sqrt(x * x + y * y) * float32(2) / float32(num_steps)
        cuda.syncthreads()  # before others overwrite what this thread reads
    phase[swarm, firefly] = theta
    if firefly == 0:
        order[swarm] = mean_order


# %% [markdown]
# The sum is a tree: 128 threads add pairs, then 64, and so on, with a barrier between the levels. Barriers may be in loops and
# in device functions. The phase `theta` is a variable of each thread, a register on a GPU; it is written to the array at the
# end, once.
#
# To verify it, compare 20 steps (before rounding errors grow) with NumPy, which computes a whole swarm at once:


# %%
def reference(phase, speed, coupling, time_step, num_steps):
    theta = phase.astype(np.float64)
    for _ in range(num_steps):
        field = np.exp(1j * theta).mean(axis=1, keepdims=True)
        theta += time_step * (speed + coupling[:, None] * np.imag(field * np.exp(-1j * theta)))
    return theta


start = phase.clone()
synchronise[SWARMS, FIREFLIES](phase, speed, coupling, order, np.float32(0.05), 20)
expected = reference(start.cpu().numpy(), speed.cpu().numpy(), coupling.cpu().numpy(), 0.05, 20)
difference = np.angle(np.exp(1j * (phase.cpu().numpy() - expected)))
print(f"largest difference from NumPy after 20 steps: {np.abs(difference).max():.1e}")

# %% [markdown]
# ## Why a block is a replica
#
# Threads of a block can wait for each other and have fast shared memory; threads of different blocks cannot, which is
# why a GPU can run blocks in any order on all its multiprocessors, and a CPU on all its cores. Agents of an
# environment interact in every step, replicas never. Hence **one block is one replica, one thread is one agent**.
#
# Therefore the result of a replica does not depend on other replicas. Swarm 60 alone, in a launch with a single
# block, has bitwise the same result as among 96:

# %%
phase.copy_(start)
synchronise[SWARMS, FIREFLIES](phase, speed, coupling, order, np.float32(0.05), 20)
alone, only = start[60:61].clone(), slice(60, 61)
synchronise[1, FIREFLIES](alone, speed[only], coupling[only], order[only].clone(), np.float32(0.05), 20)
print("swarm 60, alone and among 96: equal bits:", torch.equal(alone[0], phase[60]))

# %% [markdown]
# ## The experiment
#
# One launch takes 1000 steps of 0.05 time units in every swarm: 24.6 million updates of a firefly. The dashed line
# is Kuramoto's threshold for an infinite swarm whose speeds are normally distributed,
# $K_c = 2 / (\pi g(0)) = \sqrt{8/\pi}$ (Strogatz, *From Kuramoto to Crawford*, Physica D 143, 2000).

# %%
synchronise[SWARMS, FIREFLIES](phase, speed, coupling, order, np.float32(0.05), 1000)
threshold = math.sqrt(8 / math.pi)
strengths, orders = coupling.cpu().numpy(), order.cpu().numpy()

_, axes = plt.subplots(figsize=(6, 2.6), dpi=80, layout="tight")
axes.plot(strengths, orders, ".", color="tab:blue")
axes.axvline(threshold, color="grey", linestyle="--")
axes.set(xlabel="coupling K", ylabel="order parameter r", ylim=(0, 1))
plt.show()
print(f"mean order below half the threshold: {orders[strengths < threshold / 2].mean():.2f}")
print(f"mean order above twice the threshold: {orders[strengths > 2 * threshold].mean():.2f}")

# %% [markdown]
# Each dot is a swarm. Below the threshold the phases stay scattered (the rest is what 256 random phases add up to); above
# it a part of the swarm locks together, and grows with the coupling. The phases of three swarms at the end:

# %%
chosen = [10, 45, 90]
_, panels = plt.subplots(1, 3, figsize=(6, 2.2), dpi=80, layout="tight")
for panel, swarm in zip(panels, chosen, strict=True):
    angles = phase[swarm].cpu().numpy()
    panel.plot(np.cos(angles), np.sin(angles), "o", color="tab:orange", alpha=0.2, markeredgewidth=0)
    panel.set(title=f"K = {strengths[swarm]:.1f}, r = {orders[swarm]:.2f}", aspect="equal", xticks=[], yticks=[])
    panel.set(xlim=(-1.2, 1.2), ylim=(-1.2, 1.2))
plt.show()

# %% [markdown]
# ## The same runtime under an environment
#
# An `EnvWrapper` has such a context, `env.ctx`, with the arrays of the environment and those of the library: actions,
# rewards, logits, episode statistics.

# %%
env = wd.EnvWrapper(env_name="cartpole", num_envs=1000, reset_pool_size=100, seed=1)
report = env.ctx.memory_report()
for name in sorted(report, key=report.get, reverse=True)[:6]:
    print(f"{name:26} {tuple(env.ctx[name].shape)!s:14} {report[name]:8,} bytes")
print(f"{len(report)} arrays, {sum(report.values()):,} bytes")

# %% [markdown]
# `step` returns tensors of this context without copies, and writes to an array affect the next step. The state of
# replicas can be saved, loaded and cloned. Here replica 0 is copied to all others; as the state includes the random
# streams, all poles fall alike from then on.

# %%
observations, rewards, *_ = env.step()
print("rewards are the array itself:", rewards.data_ptr() == env.ctx["rewards"].data_ptr())
env.ctx.clone_env(0, range(1, 1000))
for _ in range(5):
    observations, *_ = env.step()
print("all replicas are equal after five random steps:", bool((observations == observations[0]).all()))

# %% [markdown]
# ## What was learned
#
# - A `DeviceContext` holds named arrays on a device; `context[name]` is a tensor that shares their memory.
# - `k[blocks, threads](...)` launches a kernel. It is compiled for the device on which its arrays are.
# - Threads of a block share memory and wait for each other at barriers; blocks are independent. So a block is a
#   replica, and a thread is an agent.
# - A replica's result does not depend on how many others run beside it.
# - Environments are built on the same arrays and kernels; `env.ctx.memory_report()` lists their sizes.
#
# ## Exercises
#
# **Exercise 1.** Define `answer`, a context for 10 replicas on the CPU with two arrays: `location`, 5 agents with two
# coordinates each, float32, and `alive`, 5 booleans, all of them true.

# %% tags=["exercise"]
answer = None

# %% tags=["check"]
if answer is None:
    print("Exercise 1: not answered yet")
elif {"location", "alive"} - set(answer):
    print(f"Exercise 1: found the arrays {list(answer)}, expected location and alive")
elif (found := [tuple(answer[name].shape) for name in ("location", "alive")]) != [(10, 5, 2), (10, 5)]:
    print(f"Exercise 1: the shapes are {found}, expected (10, 5, 2) and (10, 5)")
elif answer.bytes_per_env != 5 * 2 * 4 + 5:
    print(f"Exercise 1: a replica has {answer.bytes_per_env} bytes, expected {5 * 2 * 4 + 5}")
elif not answer["alive"].all():
    print(f"Exercise 1: {int(answer['alive'].sum())} of 50 agents are alive, expected all")
else:
    print("Exercise 1: correct")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# answer = wd.DeviceContext("cpu", num_envs=10)
# answer.declare("location", (5, 2), np.float32)
# answer.declare("alive", (5,), np.bool_)
# answer.allocate()
# answer["alive"].fill_(True)
# ```
#
# </details>

# %% [markdown]
# **Exercise 2.** Complete `rotate`: in each row, the value of thread `i` moves to place `i + 1`, and the last one to place 0.
# The rows are in global memory: take care that no thread overwrites a value before another has read it.


# %% tags=["exercise"]
@wd.kernel
def rotate(values):
    row, i = cuda.blockIdx.x, cuda.threadIdx.x
    mine = values[row, i]
    values[row, i] = mine


# %% tags=["check"]
original = np.random.default_rng(2).integers(0, 100, (7, 40)).astype(np.int32)
rotated = original.copy()
rotate[7, 40](rotated)
races = wd.check_launch(rotate, 7, 40, original.copy())
if not races.clean:
    print(f"Exercise 2: threads interfere: {races}")
elif np.array_equal(rotated, original):
    print("Exercise 2: not answered yet")
elif not np.array_equal(rotated, np.roll(original, 1, axis=1)):
    print(f"Exercise 2: the first row starts with {rotated[0, :4]}, expected {np.roll(original, 1, axis=1)[0, :4]}")
else:
    print("Exercise 2: correct")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# @wd.kernel
# def rotate(values):
#     row, i = cuda.blockIdx.x, cuda.threadIdx.x
#     mine = values[row, i]
#     cuda.syncthreads()  # all have read
#     values[row, (i + 1) % values.shape[1]] = mine
# ```
#
# </details>

# %% [markdown]
# **Exercise 3.** Complete `largest`, which is launched with 64 threads per block: `result[row]` becomes the largest of the 64
# values of the row. Use shared memory and a tree, as `block_sum` does.


# %% tags=["exercise"]
@wd.kernel
def largest(values, result):
    row, i = cuda.blockIdx.x, cuda.threadIdx.x
    shared = cuda.shared.array(64, float32)
    shared[i] = values[row, i]
    # here: the tree
    if i == 0:
        result[row] = shared[0]


# %% tags=["check"]
rows = torch.rand(50, 64, generator=torch.Generator().manual_seed(3))
maxima = torch.zeros(50)
largest[50, 64](rows, maxima)
expected = rows.amax(dim=1)
races = wd.check_launch(largest, 2, 64, rows[:2], maxima[:2].clone())
if not races.clean:
    print(f"Exercise 3: threads interfere: {races}")
elif torch.equal(maxima, rows[:, 0]):
    print("Exercise 3: not answered yet")
elif wrong := [row for row in range(50) if maxima[row] != expected[row]]:
    print(f"Exercise 3: row {wrong[0]} has {maxima[wrong[0]]:.4f}, expected {expected[wrong[0]]:.4f}")
else:
    print("Exercise 3: correct")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# @wd.kernel
# def largest(values, result):
#     row, i = cuda.blockIdx.x, cuda.threadIdx.x
#     shared = cuda.shared.array(64, float32)
#     shared[i] = values[row, i]
#     half = 32
#     while half > 0:
#         cuda.syncthreads()
#         if i < half:
#             shared[i] = max(shared[i], shared[i + half])
#         half //= 2
#     if i == 0:
#         result[row] = shared[0]
# ```
#
# </details>

# %% [markdown]
# ## Where next
#
# - [Sampling actions](03_sampling_actions.ipynb): random numbers and actions on the device.
# - [Checking kernels](08_checking_kernels.ipynb): how to find races, out-of-bounds accesses and wrong types.
# - [The kernel language](../docs/reference/kernels.md) is the reference of what kernels may contain.
