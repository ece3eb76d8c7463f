# %% [markdown]
# # Training with PyTorch Lightning
#
# If you already use PyTorch Lightning's loggers, callbacks, checkpoints and strategies, you can train WarpDrive's
# environments and algorithms with them, with the same results as with WarpDrive's own trainer.
#
# This notebook trains CartPole with `lightning.Trainer`, writes a callback that stops the run when the task is solved,
# reads the logger's metrics, resumes from a checkpoint of Lightning, and shows that the result is bit for bit that of
# WarpDrive's own trainer. It takes about 20 seconds on two cores; no GPU is needed.

# %%
# In a hosted notebook (Colab, Kaggle): upload a source checkout or wheel of WarpDrive, and run the next line without its #.
# %pip install --quiet "./warpdrive[lightning]"

# %%
import logging
import warnings
from pathlib import Path

import lightning
import matplotlib.pyplot as plt
import numpy as np
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger

import warpdrive as wd
from warpdrive.training.lightning import RolloutData, WarpDriveModule

logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
warnings.filterwarnings("ignore", module="lightning")

# %% [markdown]
# ## Two objects
#
# `WarpDriveModule` is a `LightningModule`: it holds the policies and takes a run configuration, with the same keys as
# everywhere else. `RolloutData` is a `LightningDataModule`: it collects rollouts with the current policy. What
# Lightning calls a *batch* is a rollout, a *training step* is an update of all policies, and an *epoch* is a whole
# run.


# %%
def configuration(total_steps=40_960):
    return wd.RunConfig(
        name="cartpole",
        env="cartpole",
        trainer=wd.TrainerConfig(num_envs=64, train_batch_size=2048, total_steps=total_steps, seed=1, update="torch"),
        policy={"agent": wd.PPOConfig(lr=1e-3, gamma=0.98, gae_lambda=0.9, epochs=8, minibatches=8)},
    )


def fit(module, callbacks=(), ckpt_path=None, logger=False):
    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="gpu" if torch.cuda.is_available() else "cpu",
        devices=1,
        logger=logger,
        log_every_n_steps=1,
        callbacks=list(callbacks),
        enable_checkpointing=any(isinstance(each, ModelCheckpoint) for each in callbacks),
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, RolloutData(module), ckpt_path=ckpt_path)
    return trainer


module = WarpDriveModule(configuration())
print(type(module).__mro__[1].__name__, "-", module.config.name)

# %% [markdown]
# `update="torch"` lets PyTorch take the gradient steps, as Lightning handles backward passes, precision and other
# processes. Rollouts remain native code.
#
# ## A callback, a logger, a checkpoint
#
# All metrics of `metrics.csv` are logged with Lightning's `log_dict`, under the same names, so that callbacks find
# them in `trainer.callback_metrics`. This one prints progress:


# %%
class PrintProgress(lightning.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if (batch_idx + 1) % 5 == 0:
            found = trainer.callback_metrics
            print(
                f"update {batch_idx + 1:3}, {int(found['env_steps']):6} steps: "
                f"return {found['charts/episodic_return/agent']:5.1f}, entropy {found['losses/entropy/agent']:.2f}"
            )


logger = CSVLogger("logs", name="cartpole")
keep = ModelCheckpoint("checkpoints", filename="{step}", every_n_train_steps=10 * 8 * 8, save_top_k=-1)
trainer = fit(module, [PrintProgress(), keep], logger=logger)

# %% [markdown]
# Lightning counts gradient steps as `step`: an update of 8 epochs with 8 minibatches is 64 of them, so this
# checkpoint is written every 10 updates. The logger's file:

# %%
logger.save()
metrics = np.genfromtxt(f"{logger.log_dir}/metrics.csv", delimiter=",", names=True, deletechars="")
steps = metrics["env_steps"]

_, axes = plt.subplots(1, 3, figsize=(9, 2.4), dpi=70, layout="tight")
for panel, name in zip(axes, ("charts/episodic_return", "losses/entropy", "losses/approx_kl"), strict=True):
    panel.plot(steps / 1000, metrics[f"{name}/agent"])
    panel.set_title(name.partition("/")[2], fontsize=10)
    panel.set_xlabel("thousand environment steps")
plt.show()

# %% [markdown]
# Lightning's loggers for TensorBoard, Weights & Biases or MLflow work in the same way.
#
# ## Comparison with WarpDrive's trainer
#
# Train the same configuration with WarpDrive's own trainer, and compare all weights and the state of all replicas:

# %%
own = wd.Trainer(configuration())
own.train(progress=False)


def same_bits(first, second):
    weights = [each.policies["agent"].model.state_dict() for each in (first, second)]
    equal = all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    return equal, torch.equal(first.env.ctx.save_state(), second.env.ctx.save_state())


print("equal weights, equal replicas:", same_bits(module.engine, own))

# %% [markdown]
# They are bitwise equal. `module.engine` is a `wd.Trainer`, which collects the rollouts and computes the losses; only
# gradient steps are taken by Lightning. Evaluation, replays and saving work as usual.

# %%
result = module.engine.evaluate(num_episodes=200, progress=False)
print(f"return {result.mean_return['agent']:.1f} over {result.episodes} episodes")
module.engine.save("policy")
print("actions of the saved policy:", wd.load_policy("policy").act(np.zeros((3, 4), np.float32)))

# %%
wd.replay(module.engine.fetch_episode(seed=2, max_steps=60), width=320)

# %% [markdown]
# ## Resuming
#
# A checkpoint of Lightning contains the whole state of the training: weights, optimizers, generators, and every
# replica in the middle of its episode. A new module continues from the checkpoint after update 10:

# %%
print("checkpoints:", sorted(path.name for path in Path("checkpoints").iterdir()))
resumed = WarpDriveModule(configuration())
fit(resumed, ckpt_path="checkpoints/step=640.ckpt")
print("equal weights, equal replicas:", same_bits(resumed.engine, own))

# %% [markdown]
# The resumed run is bitwise equal to the uninterrupted one.
#
# ## Stopping early
#
# `trainer.should_stop` ends a run after the current update. A callback may set it depending on any metric, here the
# mean return of recent episodes:


# %%
class StopWhenSolved(lightning.Callback):
    def __init__(self, enough):
        self.enough = enough

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        found = trainer.callback_metrics["charts/episodic_return/agent"]
        if found >= self.enough:
            print(f"stopped after {module.engine.env_steps} steps with a return of {found:.0f}")
            trainer.should_stop = True


solved = WarpDriveModule(configuration(total_steps=100_000))
stopped = fit(solved, [StopWhenSolved(200)])

# %% [markdown]
# ## Several devices
#
# `lightning.Trainer(devices=2, strategy="ddp")` starts two processes, each with half of the replicas, and averages
# gradients. With several policies the strategy is `ddp_find_unused_parameters_true`. Advantages are normalised within
# each process, which differs from `warpdrive train -n 2`, where two processes compute the same as one ([Scaling
# up](09_scaling_up.ipynb)). Use Lightning's strategies if your cluster is set up for them, and the command otherwise.
# Processes cannot be started from a notebook; put the two objects into a script.
#
# ## What was learned
#
# - `WarpDriveModule(config)` and `RolloutData(module)` are the arguments of `lightning.Trainer.fit`; a batch is a
#   rollout, an epoch a run.
# - Metrics have the names of `metrics.csv`, for callbacks and every logger of Lightning.
# - Results are bitwise those of `wd.Trainer` with `update: torch`, also after resuming from a checkpoint of
#   Lightning.
# - `module.engine` is a `wd.Trainer`, for evaluation, replay and saving.
#
# ## Exercises
#
# **Exercise 1.** Write a callback `LargestKL` whose attribute `value` is the largest `losses/approx_kl/agent` of all
# updates of a run.


# %% tags=["exercise"]
class LargestKL(lightning.Callback):
    value = None


# %% tags=["check"]
def check_largest_kl():
    callback = LargestKL()
    fit(WarpDriveModule(configuration(total_steps=10_240)), [callback])
    if callback.value is None:
        return "not answered yet"
    expected = metrics["losses/approx_kl/agent"][:5].max()
    return (
        "correct" if np.isclose(float(callback.value), expected) else f"found {callback.value}, expected {expected:.5f}"
    )


print("Exercise 1:", check_largest_kl())

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# class LargestKL(lightning.Callback):
#     value = None
#
#     def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
#         found = float(trainer.callback_metrics["losses/approx_kl/agent"])
#         self.value = found if self.value is None else max(self.value, found)
# ```
#
# </details>

# %% [markdown]
# **Exercise 2.** Training returns are biased towards short episodes. Write a callback `Evaluate` that evaluates the
# policy over 50 episodes after every second update, and appends pairs of environment steps and mean return to its
# list `found`. `module.engine.evaluate` does not affect training.


# %% tags=["exercise"]
class Evaluate(lightning.Callback):
    def __init__(self):
        self.found = []


# %% tags=["check"]
def check_evaluate():
    callback, module = Evaluate(), WarpDriveModule(configuration(total_steps=4 * 2048))
    fit(module, [callback])
    if not callback.found:
        return "not answered yet"
    at = [int(steps) for steps, _ in callback.found]
    if at != [2 * 2048, 4 * 2048]:
        return f"evaluated after {at} steps, expected {[2 * 2048, 4 * 2048]}"
    expected = module.engine.evaluate(num_episodes=50, progress=False).mean_return["agent"]
    found = float(callback.found[-1][1])
    return "correct" if np.isclose(found, expected) else f"the last return is {found:.2f}, expected {expected:.2f}"


print("Exercise 2:", check_evaluate())

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# class Evaluate(lightning.Callback):
#     def __init__(self):
#         self.found = []
#
#     def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
#         if (batch_idx + 1) % 2 == 0:
#             result = module.engine.evaluate(num_episodes=50, progress=False)
#             self.found.append((module.engine.env_steps, result.mean_return["agent"]))
# ```
#
# </details>

# %% [markdown]
# ## Where next
#
# - [Training: reading curves, and what to tune](07_training.ipynb).
# - [Other libraries](11_other_libraries.ipynb): Gymnasium, PettingZoo, TorchRL, Stable-Baselines3.
# - [Training runs](../docs/guides/training.md): WarpDrive's own callbacks, loggers and checkpoints.
