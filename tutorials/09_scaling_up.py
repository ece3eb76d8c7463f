# %% [markdown]
# # Scaling up: one device, many, many machines
#
# How many replicas should a run have, how long should its rollouts be, and when do a second process, a GPU or a
# second machine help? You can measure the answers on your own machine.
#
# This notebook measures how throughput and memory depend on the number of replicas, fits a model with two parameters,
# and shows that two processes compute the same as one. It takes about 20 seconds on two cores; no GPU is needed. On a
# machine with a GPU the same cells measure it.

# %%
# In a hosted notebook (Colab, Kaggle): upload a source checkout or wheel of WarpDrive, and run the next line without its #.
# %pip install --quiet "./warpdrive"

# %%
import subprocess
import sys
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch

import warpdrive as wd

# %% [markdown]
# ## Throughput and the number of replicas
#
# `tag_gridworld` with four taggers and a runner. `step_rollout` samples actions, steps all replicas, resets those that
# have ended and records everything, in one launch. Each size takes a fraction of a second.


# %%
def replicas(num_envs):
    return wd.EnvWrapper(wd.make("tag_gridworld", num_taggers=4), num_envs=num_envs, seed=1)


def seconds_per_step(num_envs, duration=0.15):
    """Return the duration of a step of all replicas: the shortest of many, which other programs disturb least."""
    env = replicas(num_envs)
    rollout = env.allocate_rollout(16)
    durations, end = [], time.perf_counter() + duration
    while time.perf_counter() < end or len(durations) < 64:
        if rollout.steps_recorded % 16 == 0:
            rollout.begin()
        start = time.perf_counter()
        env.step_rollout(rollout)
        if env.device.type == "cuda":
            torch.cuda.synchronize()
        durations.append(time.perf_counter() - start)
    return min(durations)


sizes = np.array([1, 4, 16, 64, 256, 1024, 4096, 16384])
durations = np.array([seconds_per_step(size) for size in sizes])
for size, duration in zip(sizes, durations, strict=True):
    print(f"{size:6} replicas: {size / duration:12,.0f} environment steps per second")

# %% [markdown]
# Each launch has a fixed cost, whether it steps one replica or a thousand. Two parameters describe the curve, a fixed
# duration `a` per step and a duration `b` per replica: **duration = a + b x replicas**. They are fitted to the sizes
# up to 1024.

# %%
small = sizes <= 1024
design = np.stack([np.ones(small.sum()), sizes[small]], axis=1) / durations[small, None]
a, b = np.linalg.lstsq(design, np.ones(small.sum()), rcond=None)[0]  # least relative errors
print(f"a = {1e6 * a:.1f} microseconds per step, b = {1e9 * b:.0f} nanoseconds per replica")
print(f"half of the highest throughput with a / b = {a / b:.0f} replicas, 90 % with {9 * a / b:.0f}")

_, axes = plt.subplots(figsize=(6, 2.8), dpi=80, layout="tight")
axes.loglog(sizes, sizes / durations, "o", label="measured")
many = np.logspace(0, np.log10(sizes[-1]), 100)
axes.loglog(many, many / (a + b * many), label="replicas / (a + b x replicas)")
axes.axhline(1 / b, color="grey", linestyle=":", label="1 / b")
axes.set(xlabel="replicas", ylabel="steps per second")
axes.legend(fontsize=8)
plt.show()

# %% [markdown]
# Beyond some multiple of `a / b`, more replicas hardly increase throughput; they take memory, and make updates rarer.
# The points fall below the line where the arrays leave the processor's caches, and where a step takes so long that
# other programs interrupt it.
#
# **When does a GPU pay off?** A GPU has thousands of threads, so its `b` is small, while a launch and a
# synchronisation cost at least as much as on a CPU, so `a / b` is large. It pays off with many replicas, many agents,
# or large models, but not for a hundred replicas of CartPole, where `a` dominates. Measure both before you decide.
#
# ## Results do not depend on the number of replicas
#
# Random numbers depend on the seed and on the index of a replica, not on the other replicas. So replica 7 takes the
# same steps among 10 replicas as among 1000:

# %%
few, many = replicas(10), replicas(1000)
for _ in range(200):
    few.step()
    many.step()
names = ["loc_x", "loc_y", "timestep", "rewards"]
print({name: bool(torch.equal(few.ctx[name], many.ctx[name][:10])) for name in names})

# %% [markdown]
# Therefore `num_envs` does not affect the simulation, and a bug seen in replica 7 of 10,000 can be reproduced with 8
# replicas.
#
# ## Memory and the length of rollouts
#
# State needs memory once per replica, a rollout once per replica *and step*: observations, actions, rewards,
# log-probabilities. `memory_report` gives the bytes of each array of the environment, `nbytes` those of a rollout.

# %%
env = replicas(1000)
per_replica = sum(env.ctx.memory_report().values()) / 1000
per_step = env.allocate_rollout(64).nbytes / 1000 / 64
print(f"state: {per_replica:.0f} bytes per replica; rollout: {per_step:.0f} bytes per replica and step")

lengths = np.array([8, 16, 32, 64, 128])
_, axes = plt.subplots(figsize=(6, 2.6), dpi=80, layout="tight")
for gigabytes, colour in [(1, "tab:blue"), (4, "tab:orange"), (16, "tab:green")]:
    axes.loglog(
        lengths, gigabytes * 1e9 / (per_replica + per_step * lengths), ".-", color=colour, label=f"{gigabytes} GB"
    )
axes.set(xlabel="steps per rollout", ylabel="replicas that fit", xticks=lengths, xticklabels=lengths)
axes.minorticks_off()
axes.legend(fontsize=8)
plt.show()

# %% [markdown]
# Memory is hardly ever the limit for small observations, and soon is for images. The update needs more on top:
# activations of the model for each row of a minibatch.
#
# ## Time spent in training
#
# `perf/rollout_seconds` and `perf/update_seconds` are the durations of rollouts and updates.


# %%
def configuration(num_envs, steps=16, updates=4, **trainer):
    return wd.RunConfig(
        name="scaling",
        env={"name": "tag_gridworld", "num_taggers": 4, "random_starts": True},
        trainer=wd.TrainerConfig(
            num_envs=num_envs, train_batch_size=num_envs * steps, total_steps=num_envs * steps * updates, **trainer
        ),
        policy={"tagger": wd.PPOConfig(minibatches=4, epochs=2), "runner": wd.PPOConfig(minibatches=4, epochs=2)},
        saving=wd.SavingConfig(tensorboard=False),
    )


def read_metrics(run_folder):
    return np.genfromtxt(run_folder / "metrics.csv", delimiter=",", names=True, deletechars="")


for num_envs in (16, 128, 1024):
    metrics = read_metrics(wd.Trainer(configuration(num_envs)).train(progress=False).run_folder)
    rollout, update = (metrics[f"perf/{name}_seconds"].min() for name in ("rollout", "update"))
    print(
        f"{num_envs:5} replicas: rollout {1000 * rollout:6.1f} ms, update {1000 * update:6.1f} ms, "
        f"{num_envs * 16 / (rollout + update):9,.0f} environment steps per second"
    )

# %% [markdown]
# With many replicas the updates take longer than the rollouts. Such a run becomes faster by fewer `epochs`, a smaller
# model or fewer rows, not by a faster simulation.
#
# `warpdrive autoscale` searches `num_envs` and the rollout length with the highest throughput of *training* on this
# machine, each size in a process of its own, within the memory that is free:
#
# ```bash
# warpdrive autoscale tag_gridworld                  # writes tag_gridworld_autoscaled.yaml, .png and .json
# warpdrive train tag_gridworld_autoscaled.yaml
# warpdrive train tag_gridworld --auto_scale         # both at once
# ```
#
# With a larger batch there are fewer updates for the same number of steps ([Training](07_training.ipynb) shows what
# that does), so the command warns if few are left.
#
# ## Several processes
#
# ```bash
# warpdrive train tag_gridworld -n 4                   # four GPUs, one process each
# warpdrive train tag_gridworld --num_processes 2      # two processes on the CPU
# ```
#
# `num_envs` and `train_batch_size` are totals: each process has its share of the replicas, computes the gradients of
# its rows, and the sums over all processes make the step. **N processes compute the same as one**, up to the rounding
# of float32 sums in another order. The following cell compares two processes with one:

# %%
config = configuration(16, steps=10, updates=8, seed=3)
config.save("scaling.yaml")
command = [sys.executable, "-m", "warpdrive", "train", "scaling.yaml", "--num_processes", "2", "--no-report", "--quiet"]
done = subprocess.run(command, capture_output=True, text=True, check=True)
two = read_metrics(Path(done.stdout.split()[-1]))
one = read_metrics(wd.Trainer(config).train(progress=False).run_folder)

print("return of the taggers, one process: ", one["charts/episodic_return/tagger"].round(4))
print("return of the taggers, two processes:", two["charts/episodic_return/tagger"].round(4))

# %%
_, axes = plt.subplots(figsize=(6, 2.6), dpi=80, layout="tight")
for name in ("policy_loss", "value_loss", "entropy", "grad_norm"):
    first, second = (run[f"losses/{name}/tagger"] for run in (one, two))
    axes.semilogy(
        np.arange(1, len(one) + 1), np.abs(first - second) / np.maximum(np.abs(first), 0.1) + 1e-9, ".-", label=name
    )
axes.axhline(2**-24, color="grey", linestyle=":", label="float32 rounding")
axes.set(xlabel="update", ylabel="relative difference", ylim=(1e-9, 1))
axes.legend(fontsize=7, ncols=2)
plt.show()

# %% [markdown]
# The losses differ by rounding only (relative to their magnitude, or to 0.1 if it is less). In a long run rounding
# will eventually change a sampled action; from then on the two runs differ as with two seeds. Therefore settings that
# were tuned with one process also suit eight, and a checkpoint of eight processes can be resumed with one.
#
# On the CPU of *one* machine, two processes are usually slower than the threads of one, because gradients have to be
# exchanged. Use several processes for several GPUs or machines.
#
# ## Several machines
#
# Run the same command on each machine. `torchrun` and `srun` set the variables that determine the rank of a process:
#
# ```bash
# # K = 0 on the machine FIRST, 1 on the other
# torchrun --nnodes 2 --nproc-per-node 8 --node-rank $K --master-addr $FIRST --master-port 29400 \
#     -m warpdrive train tag_gridworld trainer.num_envs=32000
# ```
#
# As a Slurm job:
#
# ```bash
# #!/bin/bash
# #SBATCH --nodes=2 --ntasks-per-node=8 --gpus-per-node=8
# export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
# export MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))
# srun bash -c 'RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID \
#     LOCAL_WORLD_SIZE=$SLURM_NTASKS_PER_NODE warpdrive train tag_gridworld'
# ```
#
# Updates limit scaling: each gradient step is an all-reduce, so with many small minibatches processes mostly wait for
# the network. Use more replicas per process and fewer, larger minibatches. These commands have been tested on several
# processes and simulated machines without GPUs; [Scaling](../docs/guides/scaling.md) has the measurements and a model
# that predicts the efficiency.
#
# ## What was learned
#
# - A step takes `a + b x replicas`; use a few times `a / b` replicas, and not many more.
# - The trajectory of a replica depends on the seed and its index only, not on other replicas, processes or cores.
# - Memory grows with replicas x rollout length; `memory_report` counts it. `warpdrive autoscale` searches for the
#   fastest size.
# - Look at `perf/rollout_seconds` and `perf/update_seconds` before you make either faster.
# - N processes compute the same as one. They pay off with several GPUs and machines, and with long updates.
#
# ## Exercises
#
# **Exercise 1.** With the model `duration = a + b * replicas`, how many replicas reach a given fraction of the highest
# throughput `1 / b`? Define `replicas_for(fraction, a, b)`.


# %% tags=["exercise"]
def replicas_for(fraction, a, b):
    return None


# %% tags=["check"]
def check_replicas_for():
    for fraction, a, b in [(0.5, 1e-5, 1e-7), (0.9, 1e-5, 1e-7), (0.75, 2e-4, 1e-9)]:
        found = replicas_for(fraction, a, b)
        if found is None:
            return "not answered yet"
        candidates = np.geomspace(1, 1e8, 2_000_001)
        expected = candidates[np.argmax(candidates * b / (a + b * candidates) >= fraction)]
        if not np.isclose(found, expected, rtol=1e-3):
            return f"{fraction:.0%} with a = {a}, b = {b}: found {found:.0f}, expected {expected:.0f}"
    return "correct"


print("Exercise 1:", check_replicas_for())

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def replicas_for(fraction, a, b):
#     return fraction / (1 - fraction) * a / b
# ```
#
# </details>

# %% [markdown]
# **Exercise 2.** Replicas are divided among processes as evenly as possible, in order, and the first ranks have one
# more if they do not divide. Define `share(num_envs, processes, rank)`, which returns the index of the first replica of
# a rank and how many it has.


# %% tags=["exercise"]
def share(num_envs, processes, rank):
    return None


# %% tags=["check"]
def check_share():
    for num_envs, processes in [(8, 2), (10, 4), (1000, 7), (3, 3)]:
        parts = np.array_split(np.arange(num_envs), processes)
        for rank, part in enumerate(parts):
            found = share(num_envs, processes, rank)
            if found is None:
                return "not answered yet"
            if tuple(found) != (part[0], len(part)):
                return f"rank {rank} of {processes}, {num_envs} replicas: found {found}, expected {(int(part[0]), len(part))}"
    return "correct"


print("Exercise 2:", check_share())

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def share(num_envs, processes, rank):
#     each, more = divmod(num_envs, processes)
#     return rank * each + min(rank, more), each + (rank < more)
# ```
#
# </details>

# %% [markdown]
# ## Where next
#
# - [Scaling](../docs/guides/scaling.md): autoscaling, synchronisation, failures, several machines, predictions for
#   GPUs.
# - [Training with PyTorch Lightning](10_pytorch_lightning.ipynb), whose strategies are another way to several
#   devices.
# - [Security](../docs/project/security.md): requirements for networks of several machines.
