# %% [markdown]
# # Training: reading curves, and what to tune
#
# A training run writes about thirty metrics after each update. Which of them show whether it goes well? And if it
# does not, which setting should you change?
#
# This notebook trains CartPole with PPO: each run takes well under a second, so that every claim can be an experiment
# with three seeds. You will read the curves of a good run, then change the learning rate, the batch size, the
# discount and the entropy bonus one at a time, and see the effects on the curves. Resuming, evaluation and sweeps
# follow at the end. It takes about 25 seconds on two cores; no GPU is needed.

# %%
# In a hosted notebook (Colab, Kaggle): upload a source checkout or wheel of WarpDrive, and run the next line without its #.
# %pip install --quiet "./warpdrive"

# %%
import os
import statistics

import matplotlib.pyplot as plt
import numpy as np
import torch

import warpdrive as wd

# %% [markdown]
# ## A good run
#
# In `cartpole` a pole is balanced on a cart: a reward of 1 for every step, until it falls or 500 steps are over. The
# run configuration is an object here; `config.save("cartpole.yaml")` writes the YAML file that `warpdrive train
# cartpole.yaml` reads. `evaluation` lets the policy play 50 whole episodes in separate replicas after every second
# update.

# %%
GOOD = {"lr": 1e-3, "gamma": 0.98, "gae_lambda": 0.9, "epochs": 8, "minibatches": 8, "entropy_coef": 0.01}


def configuration(seed=0, num_envs=64, train_batch_size=2048, total_steps=40_960, every=None, **ppo):
    return wd.RunConfig(
        name="tuning",
        env="cartpole",
        trainer=wd.TrainerConfig(
            num_envs=num_envs,
            train_batch_size=train_batch_size,
            total_steps=total_steps,
            seed=seed,
            evaluation=wd.EvaluationConfig(num_episodes=50, every=every),
        ),
        policy={"agent": wd.PPOConfig(**(GOOD | ppo))},
        saving=wd.SavingConfig(tensorboard=False),
    )


trainer = wd.Trainer(configuration(total_steps=61_440, every=2))
summary = trainer.train()
sorted(path.name for path in summary.run_folder.iterdir())

# %% [markdown]
# `metrics.csv` in the run folder has one row per update; its columns are explained in
# [Metrics](../docs/reference/metrics.md).


# %%
def read_metrics(run_folder):
    return np.genfromtxt(run_folder / "metrics.csv", delimiter=",", names=True, deletechars="")


metrics = read_metrics(summary.run_folder)
panels = {
    "charts/episodic_return/agent": "return",
    "losses/entropy/agent": "entropy, nats",
    "losses/approx_kl/agent": "approximate KL, nats",
    "losses/clipfrac/agent": "clip fraction",
    "losses/explained_variance/agent": "explained variance",
    "losses/value_loss/agent": "value loss",
}
_, axes = plt.subplots(2, 3, figsize=(9, 4), dpi=70, layout="tight", sharex=True)
for panel, (name, title) in zip(axes.flat, panels.items(), strict=True):
    panel.plot(metrics["env_steps"] / 1000, metrics[name])
    panel.set_title(title, fontsize=10)
evaluated = np.isfinite(metrics["eval/episodic_return/agent"])
axes[0, 0].plot(metrics["env_steps"][evaluated] / 1000, metrics["eval/episodic_return/agent"][evaluated], ".-")
axes[0, 0].legend(["training", "evaluation"], fontsize=8)
for panel in axes[1]:
    panel.set_xlabel("thousand environment steps")
plt.show()

# %% [markdown]
# Read the curves in this order:
#
# | curve | good | a sign of trouble |
# | --- | --- | --- |
# | **return** | rises, then is flat at the best possible value (here 500) | flat from the start; rises and collapses |
# | **entropy** | falls slowly; the policy becomes more certain (two actions chosen at random: ln 2 = 0.69) | near 0 after a few updates: it has stopped exploring; never falls: it learns nothing, or the bonus is too large |
# | **approximate KL** | 0.002 to 0.02: how far an update moves the policy | below 0.0005: steps are too small; above 0.05: too large |
# | **clip fraction** | 0.02 to 0.2: samples whose probability changed by more than `clip` | 0: the limit is never reached; above 0.4: most of the update is cut off |
# | **explained variance** | rises towards 1: the value function predicts the returns | below 0: worse than a constant |
# | **value loss** | falls here; elsewhere it may rise with the return, as there is more to predict | by itself it says little |
#
# The two curves of the return differ. Training counts the episodes that ended during an update, and short ones end
# first; the evaluation plays whole episodes. Trust the evaluation.

# %%
print("explained variance of the last updates:", metrics["losses/explained_variance/agent"][-4:].round(2))
print("return of the last updates:           ", metrics["charts/episodic_return/agent"][-4:].round(0))

# %% [markdown]
# A drop of the explained variance when the task is solved is normal: if nearly all returns are equal, there is hardly
# any variance left to explain.
#
# ## Seeds first
#
# Before any comparison, see how much runs differ with the seed alone. `train` below trains a configuration with three
# seeds, evaluates each run and keeps the metrics.

# %%
runs = {}


def train(name, **settings):
    folders, returns = [], []
    for seed in range(3):
        trainer = wd.Trainer(configuration(seed, **settings))
        folders.append(trainer.train(progress=False).run_folder)
        returns.append(trainer.evaluate(num_episodes=100, progress=False).mean_return["agent"])
    runs[name] = [read_metrics(folder) for folder in folders]
    print(f"{name:28} mean return {statistics.mean(returns):4.0f}, seeds: {[round(each) for each in returns]}")
    return statistics.mean(returns)


METRICS = ("charts/episodic_return", "losses/entropy", "losses/approx_kl")


def compare(others, metrics=METRICS):
    _, axes = plt.subplots(1, len(metrics), figsize=(3 * len(metrics), 2.4), dpi=70, layout="tight")
    for panel, metric in zip(axes, metrics, strict=True):
        for name in ["good settings", *others]:
            curves = np.ma.masked_invalid([run[f"{metric}/agent"] for run in runs[name]])
            steps = runs[name][0]["env_steps"] / 1000
            (line,) = panel.plot(steps, curves.mean(axis=0), label=name)
            panel.fill_between(steps, curves.min(axis=0), curves.max(axis=0), color=line.get_color(), alpha=0.2)
        panel.set_title(metric.partition("/")[2], fontsize=10)
        panel.set_xlabel("thousand steps")
        if metric == "losses/approx_kl":
            panel.set_yscale("symlog", linthresh=1e-6)
            panel.set_yticks([0, 1e-4, 1e-2, 1])
    axes[0].legend(fontsize=8)
    plt.show()


good = train("good settings")
compare([])

# %% [markdown]
# The band goes from the lowest to the highest of the three runs. All of them solve the task, but at different times,
# by chance. So never compare two settings by one run each. `warpdrive plot runs/tuning/*` draws such bands, for runs
# that differ only in `trainer.seed`.
#
# ## Learning rate
#
# The learning rate is the first setting to tune. Here it is a hundred times smaller and larger:

# %%
for lr in (1e-5, 1e-1):
    train(f"lr {lr:g}", lr=lr)
compare(["lr 1e-05", "lr 0.1"])

# %% [markdown]
# The return alone does not show which of the two is too low and which is too high. The other curves do:
#
# - **too low**: KL is orders of magnitude below 0.002, and the entropy stays at its maximum. The policy hardly
#   changes.
# - **too high**: KL is above 1 instead of about 0.02, and the entropy falls to 0 within a few updates: the policy has
#   become deterministic, does not explore any more, and cannot recover. From then on KL is 0, too.
#
# Change the learning rate by factors of 3, in the direction that KL indicates. Two more settings limit the size of an
# update: `target_kl` skips the remaining gradient steps when KL exceeds it, and `lr: [[0, 1e-3], [1e6, 0]]` lets the
# learning rate fall.
#
# ## Batch size and number of replicas
#
# `train_batch_size` counts environment steps per update: `num_envs` replicas times the length of a rollout. With the
# same `total_steps`, a larger batch means fewer updates.

# %%
train("8 replicas x 32 steps", num_envs=8, train_batch_size=256)
train("512 replicas x 32 steps", num_envs=512, train_batch_size=512 * 32)
train("512 replicas x 8 steps", num_envs=512, train_batch_size=512 * 8)
names = ["8 replicas x 32 steps", "512 replicas x 32 steps", "512 replicas x 8 steps"]
print({name: f"{len(runs[name][0])} updates" for name in names})
_, axes = plt.subplots(figsize=(6, 2.6), dpi=70, layout="tight")
for name in [names[1], names[2], "good settings"]:
    curves = np.array([run["charts/episodic_return/agent"] for run in runs[name]])
    axes.plot(runs[name][0]["env_steps"] / 1000, np.nanmean(curves, axis=0), ".-", label=name)
axes.set(xlabel="thousand environment steps", ylabel="return")
axes.legend(fontsize=8)
plt.show()

# %% [markdown]
# 512 replicas use a GPU much better than 64, but with rollouts of 32 steps there are only three updates, too few to
# learn, however accurate each gradient is. Large batches need shorter rollouts or more environment steps, which a
# fast device provides. Conversely, 8 replicas learn in the fewest steps, but use a device worst.
#
# Choose `num_envs` for the device (`warpdrive autoscale` measures it) and the rollout length for some hundred
# updates, and increase the learning rate with the batch. `epochs` and `minibatches` determine the gradient steps per
# batch: here 8 x 8 = 64.
#
# ## Discount
#
# `gamma` determines the horizon of a policy: about 1 / (1 - gamma) steps. CartPole's pole falls some tens of steps
# after a mistake.

# %%
train("gamma 0.5", gamma=0.5)
compare(["gamma 0.5"], ("charts/episodic_return", "losses/explained_variance", "losses/entropy"))

# %% [markdown]
# With 0.5 the horizon is two steps. The policy learns more slowly, because most effects of an action on the pole come
# later than that. The entropy falls as before, so it does not show the cause, but the explained variance does: the
# return over two steps is the same almost everywhere, and there is nothing to predict. If a policy is short-sighted,
# raise `gamma`; if returns are noisy and learning is slow, lower it. 0.9 to 0.999 are usual.
#
# ## Entropy bonus
#
# `entropy_coef` rewards entropy, so that a policy does not become deterministic too early.

# %%
train("entropy_coef 0", entropy_coef=0.0)
train("entropy_coef 1", entropy_coef=1.0)
compare(["entropy_coef 0", "entropy_coef 1"])

# %% [markdown]
# CartPole does not need it: 0 does about as well as the 0.01 of the good settings. With 1 the policy stays so random
# that the pole falls, and the entropy hardly decreases. Use 0.001 to 0.02 where the entropy collapses before the
# return has risen; with several agents that learn against each other this is common.
#
# ## Sweeps
#
# `warpdrive sweep` trains a grid or random search in parallel processes, with a table and a picture at the end:
#
# ```bash
# warpdrive sweep cartpole policy.agent.lr=[1e-4,1e-3,1e-2] policy.agent.gamma=[0.9,0.98]
# warpdrive sweep cartpole "policy.agent.lr=loguniform(1e-4,1e-2)" "policy.agent.clip=uniform(0.1,0.3)" --trials 20
# warpdrive sweep cartpole "policy.agent.epochs=integer(2,10)" --engine optuna --trials 30
# ```
#
# Each trial is evaluated at its end, Ctrl-C ends all of them with a checkpoint, and `--resume` continues
# ([sweeps](../docs/guides/sweeps.md)). Sweep a few settings that you expect to matter, in this order: `lr`, the
# rollout length, `entropy_coef`, `gamma`.
#
# ## Stopping and resuming
#
# A run that was stopped or killed can be resumed from its last checkpoint. Here a run is trained for half of the
# steps and then resumed, and compared with a run that was never interrupted.

# %%
half = wd.Trainer(configuration(total_steps=20_480)).train(progress=False)
print("stopped at", half.env_steps, "steps")
resumed = wd.Trainer.resume(half.run_folder, ["trainer.total_steps=40960"])
whole = read_metrics(resumed.train(progress=False).run_folder)

never_stopped = runs["good settings"][0]
names = [name for name in whole.dtype.names if not name.startswith("perf/")]
equal = all(np.array_equal(whole[name], never_stopped[name], equal_nan=True) for name in names)
print(f"{len(whole)} updates; all {len(names)} columns but the timings are bitwise equal: {equal}")

# %% [markdown]
# On the CPU backend this is exact: weights, optimizer, random generators and the state of every replica are in the
# checkpoint. In a shell it is `warpdrive train --resume runs/tuning trainer.total_steps=40960`.
#
# ## Evaluation
#
# During training actions are sampled from the policy; `deterministic=True` takes the most probable action instead.
# Compare both with random actions:

# %%
trainer = wd.Trainer.load(half.run_folder)
for name, options in {
    "random actions": {"random": ["agent"]},
    "sampled": {},
    "most probable": {"deterministic": True},
}.items():
    result = trainer.evaluate(num_episodes=300, **options)
    print(f"{name:16} return {result.mean_return['agent']:5.1f}, {result.terminated_fraction:.0%} of the poles fell")

# %% [markdown]
# `Trainer.load` took the resumed run's last checkpoint. `which="best"` takes the one with the best evaluation, if there
# were evaluations during training; for a policy without a trainer, use `wd.load_policy`.

# %%
wd.replay(trainer.fetch_episode(seed=1, max_steps=60), width=320)

# %% [markdown]
# ## Threads
#
# PyTorch splits an operator over its threads, which *spin* until all have finished. If another program uses one of
# the cores, the other threads wait for it in each of the thousands of small operators of an update.
# `trainer.torch_threads` is the number of these threads; by default it is 1 on machines with up to four cores, where
# a second thread gains less than it risks.

# %%
print("cores:", os.cpu_count(), "| threads of PyTorch by default:", torch.get_num_threads())
print("trainer.torch_threads:", trainer.config.trainer.torch_threads, "(None: 1 with up to four cores)")
print("trainer.update:", trainer.config.trainer.update)

# %% [markdown]
# Set `torch_threads: 1` if several runs share a machine, and also if results must be reproduced bit for bit on
# machines with other numbers of cores: the rounding of PyTorch's sums depends on the number of threads. The
# simulation does not depend on it. For most models `update: auto` runs gradient steps as native code instead, which
# splits large minibatches over the cores.
#
# ## What was learned
#
# - Look at return, entropy, KL, clip fraction and explained variance, in this order; evaluations are not biased
#   towards short episodes.
# - Compare settings over several seeds only.
# - KL far below 0.002: raise `lr`. KL far above 0.05, entropy at 0: lower it.
# - More replicas need more steps or shorter rollouts: count the updates.
# - Resuming is exact; set `torch_threads` to 1 on a busy machine.
#
# ## Exercises
#
# **Exercise 1.** Three of the runs above, in another order, and without their returns. Which is which? Define
# `diagnosis`, a dictionary with one of `"lr too low"`, `"lr too high"`, `"entropy_coef too high"` for each of `"A"`,
# `"B"` and `"C"`.

# %%
causes = {"lr 1e-05": "lr too low", "lr 0.1": "lr too high", "entropy_coef 1": "entropy_coef too high"}
shuffled = [str(name) for name in np.random.default_rng(1).permutation(list(causes))]
_, axes = plt.subplots(1, 3, figsize=(9, 2.4), dpi=70, layout="tight")
for letter, name in zip("ABC", shuffled, strict=True):
    for panel, metric in zip(axes, ("entropy", "clipfrac", "explained_variance"), strict=True):
        panel.plot(runs[name][1]["env_steps"] / 1000, runs[name][1][f"losses/{metric}/agent"], label=letter)
        panel.set_title(metric, fontsize=10)
axes[0].legend()
plt.show()

# %% tags=["exercise"]
diagnosis = None

# %% tags=["check"]
if diagnosis is None:
    print("Exercise 1: not answered yet")
else:
    expected = {letter: causes[name] for letter, name in zip("ABC", shuffled, strict=True)}
    wrong = [letter for letter in "ABC" if diagnosis.get(letter) != expected[letter]]
    print("Exercise 1:", f"look again at {', '.join(wrong)}" if wrong else "correct")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# # A: nothing is ever clipped, and the entropy is that of two equal probabilities. B: the entropy is 0 after some updates.
# # C: something is learned, as the explained variance shows, but the entropy hardly falls.
# diagnosis = {"A": "lr too low", "B": "lr too high", "C": "entropy_coef too high"}
# ```
#
# </details>

# %% [markdown]
# **Exercise 2.** The explained variance is the fraction of the variance of the returns that the values account for: 1
# minus the variance of (returns - values) divided by the variance of the returns. Define `explained_variance(values,
# returns)` for two NumPy arrays; return NaN if all returns are equal.


# %% tags=["exercise"]
def explained_variance(values, returns):
    return None


# %% tags=["check"]
def check_explained_variance():
    generator = np.random.default_rng(0)
    returns = generator.normal(50, 20, 100_000)
    noise = generator.normal(0, 10, 100_000)
    cases = [
        ("values equal to the returns", returns, returns, 1.0),
        ("the mean as value", np.full_like(returns, returns.mean()), returns, 0.0),
        ("values that are 10 too high", returns + 10, returns, 1.0),
        ("values with noise of half the standard deviation", returns + noise, returns, 0.75),
        ("equal returns", noise, np.ones_like(returns), np.nan),
    ]
    for what, values, given, expected in cases:
        found = explained_variance(values, given)
        if found is None:
            return "not answered yet"
        if not np.isclose(found, expected, atol=0.02, equal_nan=True):
            return f"{what}: found {found:.3f}, expected {expected:.2f}"
    return "correct"


print("Exercise 2:", check_explained_variance())

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def explained_variance(values, returns):
#     variance = returns.var()
#     return 1 - (returns - values).var() / variance if variance > 0 else np.nan
# ```
#
# </details>

# %% [markdown]
# **Exercise 3.** With the good settings and only 15,360 environment steps, the return is about 300. Define `faster`, a
# dictionary of arguments of `configuration` such as `num_envs`, `train_batch_size` and `lr`, with which the mean return
# of three seeds is at least 420 after 15,360 steps.

# %% tags=["exercise"]
faster = {}

# %% tags=["check"]
if not faster:
    print("Exercise 3: not answered yet")
elif unknown := {"seed", "total_steps"} & set(faster):
    print("Exercise 3: these are given:", *unknown)
else:
    returns = []
    for seed in range(3):
        trainer = wd.Trainer(configuration(seed, total_steps=15_360, **faster))
        trainer.train(progress=False)
        returns.append(trainer.evaluate(num_episodes=100, progress=False).mean_return["agent"])
    reached = statistics.mean(returns)
    print("Exercise 3:", "correct" if reached >= 420 else f"found a mean return of {reached:.0f}, expected 420 or more")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# faster = {"num_envs": 8, "train_batch_size": 256, "lr": 2e-3}  # 60 updates instead of 8, of larger steps
# ```
#
# </details>

# %% [markdown]
# ## Where next
#
# - [Training runs](../docs/guides/training.md): run folders, evaluation, callbacks, logging to other services.
# - [Algorithms](../docs/reference/algorithms/index.md): formulas and all settings;
#   [Metrics](../docs/reference/metrics.md): every column.
# - [Scaling up](09_scaling_up.ipynb): more replicas, several processes.
# - [Models, losses and algorithms of your own](12_own_models_and_algorithms.ipynb).
