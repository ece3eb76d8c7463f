# %% [markdown]
# # Your own models, losses and algorithms
#
# CartPole is symmetric: if the state is mirrored, the best action is mirrored, too. A standard neural network has to
# learn both halves of the task. This notebook builds the symmetry into the *model*, into the *loss* of PPO, and into
# a custom *algorithm*, and compares each with the built-in one.
#
# It takes about 25 seconds on two cores; no GPU is needed.

# %%
# In a hosted notebook (Colab, Kaggle): upload a source checkout or wheel of WarpDrive, and run the next line without its #.
# %pip install --quiet "./warpdrive"

# %%
import matplotlib.pyplot as plt
import numpy as np
import torch
from gymnasium import spaces
from torch import nn

import warpdrive as wd

# %% [markdown]
# ## Baseline
#
# All experiments of this notebook differ only in the policy's section: the algorithm and the model. The function
# below trains in 64 replicas of `cartpole` and returns the curve of the episode length, as a moving average over ten
# updates. The longest episode is 500 steps.

# %%
PPO = {"algorithm": "ppo", "lr": 1e-3, "gamma": 0.98, "epochs": 4, "minibatches": 4}


def train(name, policy, total_steps=56_320, seed=0):
    """Train in cartpole; return the trainer, the environment steps, the episode lengths and all metrics."""
    config = wd.RunConfig(
        name=name,
        env="cartpole",
        trainer=wd.TrainerConfig(num_envs=64, train_batch_size=1024, total_steps=total_steps, seed=seed),
        policy={"agent": policy},
    )
    trainer = wd.Trainer(config)
    summary = trainer.train(progress=False)
    metrics = np.genfromtxt(summary.run_folder / "metrics.csv", delimiter=",", names=True, deletechars="")
    lengths = metrics["charts/episodic_length"]
    smooth = [np.nanmean(lengths[max(0, row - 9) : row + 1]) for row in range(len(lengths))]
    print(f"{name}, seed {seed}: {smooth[-1]:.0f} steps per episode at the end")
    return trainer, metrics["env_steps"], smooth, metrics


curves = {"perceptron": [train("perceptron", {**PPO, "model": {"hidden": [32, 32]}}, seed=seed) for seed in range(2)]}

# %% [markdown]
# ## In the model: symmetry by construction
#
# A model is a subclass of `wd.ActorCritic` with two methods: `logits`, one number per action, and `values`, one
# number per observation. This one has a network `push` for the logit of a push to the right. The logit of a push to
# the left is that of the mirrored observation, in which position, velocity, angle and angular velocity have changed
# their signs. The value is symmetric.


# %%
class Mirrored(wd.ActorCritic):
    """Actor-critic that treats an observation and its mirror image alike."""

    def __init__(self, observation_space, num_logits, width: int = 32):
        super().__init__()
        size = observation_space.shape[0]
        self.push, self.value = (
            nn.Sequential(nn.Linear(size, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))
            for _ in range(2)
        )

    def logits(self, observations):  # [..., 4] -> [..., 2]: push to the left, push to the right
        return torch.cat([self.push(-observations), self.push(observations)], dim=-1)

    def values(self, observations):  # [..., 4] -> [...]
        return (self.value(observations) + self.value(-observations)).squeeze(-1)


wd.register_model("mirrored", Mirrored)

# %% [markdown]
# ### Check the model before training
#
# Most mistakes in models are shapes and devices, and many of them raise no error: a value of shape `[64, 1]` where
# `[64]` is expected *broadcasts* to `[64, 64]` in the loss, and the policy learns nothing. `wd.CheckDevice` wraps a
# model and checks every call. Here it finds that mistake.


# %%
class Careless(Mirrored):
    """The same with a mistake."""

    def values(self, observations):
        return self.value(observations) + self.value(-observations)


seen, actions = spaces.Box(-np.inf, np.inf, (4,), np.float32), spaces.Discrete(2)
for model in (Careless(seen, 2), Mirrored(seen, 2)):
    checked = wd.CheckDevice(model, seen, actions)
    try:
        logits, values = checked(torch.randn(64, 4))
        print(f"{type(model).__name__}: logits {tuple(logits.shape)}, values {tuple(values.shape)}")
    except wd.WarpDriveError as error:
        print(error)

# %% [markdown]
# Another mistake is a tensor that is not registered as a buffer, and therefore not moved to a GPU with the model.
# PyTorch's device `meta`, on which tensors have shapes but no memory, reveals it on a machine without one.


# %%
class LeftBehind(Mirrored):
    """The same with another mistake."""

    def __init__(self, observation_space, num_logits):
        super().__init__(observation_space, num_logits)
        self.scale = torch.tensor([1.0, 0.5, 5.0, 0.5])  # right: self.register_buffer("scale", torch.tensor(...))

    def logits(self, observations):
        return super().logits(observations * self.scale)


try:
    wd.CheckDevice(LeftBehind(seen, 2).to("meta"), seen, actions).logits(torch.randn(64, 4, device="meta"))
except wd.WarpDriveError as error:
    print(error)

# %% [markdown]
# In a run, `check_device: true` in the section of the model does the same. A registered model is named by its `type`;
# the other keys of the section are arguments of its constructor.

# %%
mirrored = {**PPO, "model": {"type": "mirrored", "width": 32, "check_device": True}}
curves["mirrored model"] = [train("mirrored_model", mirrored, seed=seed) for seed in range(2)]


# %%
def plot(curves, **settings):
    """Draw a line for each run, in one colour for runs that differ by their seed."""
    _, axes = plt.subplots(figsize=(6, 2.6), dpi=80, layout="tight")
    for index, (label, runs) in enumerate(curves.items()):
        for number, (_, steps, lengths, _) in enumerate(runs):
            axes.plot(steps, lengths, color=f"C{index}", label=label if number == 0 else None)
    axes.set(xlabel="environment steps", ylabel="episode length", **settings)
    axes.legend(loc="upper left")


plot(curves)

# %% [markdown]
# With both seeds, the symmetric model ends higher than the perceptrons: it has to learn only half of the states.
#
# ## In the loss: a penalty for asymmetry
#
# Alternatively, change the loss: derive a class from `wd.PPO` and extend `loss`. It gets a `wd.Batch` of rows;
# `batch.masked_mean` is the mean over the rows of agents that are in the episode, with several processes this
# process's part of it. We add the squared difference between the probabilities in a state and the exchanged ones in
# its mirror image. `update` is called once per rollout; there we measure the remaining difference.


# %%
class SymmetricPPO(wd.PPO):
    """PPO with a penalty for acting differently in mirrored states."""

    coefficient = 1.0

    def asymmetry(self, observations):
        here, mirrored = self.model.logits(observations), self.model.logits(-observations)
        return (here.softmax(-1) - mirrored.softmax(-1).flip(-1)).square().sum(-1)

    def loss(self, batch, advantages):
        loss, terms = super().loss(batch, advantages)
        return loss + self.coefficient * batch.masked_mean(self.asymmetry(batch.observations)), terms

    def update(self, batch, generator):
        losses = super().update(batch, generator)
        with torch.no_grad():
            left = self.asymmetry(batch.observations).mean()
        return {**losses, "asymmetry": wd.mean_over_processes(left)}


class MeasuredPPO(SymmetricPPO):
    """Ordinary PPO, whose asymmetry is measured."""

    coefficient = 0.0


# %% [markdown]
# `wd.mean_over_processes` is needed if several processes train together, as each has a part of the replicas. In a
# single process it returns the number itself.

# %%
penalised = {
    name: train(name, {**PPO, "function": algorithm, "model": {"hidden": [32, 32]}}, total_steps=40_960)
    for name, algorithm in {"without_penalty": MeasuredPPO, "with_penalty": SymmetricPPO}.items()
}

# %%
_, panels = plt.subplots(1, 2, figsize=(7, 2.6), dpi=80, layout="tight")
for name, (_, steps, lengths, metrics) in penalised.items():
    panels[0].plot(steps, metrics["losses/asymmetry/agent"])
    panels[1].plot(steps, lengths, label=name.replace("_", " "))
panels[0].set(xlabel="environment steps", ylabel="asymmetry")
panels[1].set(xlabel="environment steps", ylabel="episode length")
_ = panels[1].legend(loc="upper left")

# %% [markdown]
# The policies of ordinary PPO are asymmetric during training. The penalty keeps the asymmetry near zero from the
# start, and the policy balances longer. A custom loss is slower: on the CPU, built-in losses run as native code,
# custom ones in PyTorch.
#
# ## In the algorithm: a custom update
#
# `algorithm: custom` passes each rollout to a function, or to an object that keeps an optimizer. This one is a policy
# gradient with a baseline, and uses the symmetry for *data augmentation*: it also learns from every step mirrored,
# with the action exchanged.
#
# `wd.gae` estimates advantages from rewards and values; `policy.batch(rollout)` calls it and returns everything that
# a loss needs. In this example with three steps, only the last step has a reward, and the advantages of earlier
# actions are smaller for each step in between.

# %%
rewards, values = torch.tensor([0.0, 0.0, 1.0]), torch.zeros(4)
terminated = torch.tensor([False, False, True])
wd.gae(rewards, values, terminated, gamma=0.9, gae_lambda=0.5)


# %%
class PolicyGradient:
    """Policy gradient with a baseline; with ``mirrored``, on each step and its mirror image."""

    def __init__(self, policy, mirrored: bool = False, entropy_coef: float = 0.01):
        self.policy, self.mirrored, self.entropy_coef = policy, mirrored, entropy_coef
        self.optimizer = torch.optim.Adam(policy.model.parameters())

    def __call__(self, rollout):
        batch = self.policy.batch(rollout, gae_lambda=0.95)
        seen, actions, returns = batch.observations, batch.actions.long(), batch.returns
        advantages = (batch.advantages - batch.advantages.mean()) / batch.advantages.std()
        if self.mirrored:
            seen, actions = torch.cat([seen, -seen]), torch.cat([actions, 1 - actions])
            returns, advantages = returns.repeat(2), advantages.repeat(2)
        logits, values = self.policy.model(seen)
        chosen = torch.distributions.Categorical(logits=logits)
        policy_loss = -(chosen.log_prob(actions) * advantages).mean()
        value_loss, entropy = (values - returns).square().mean(), chosen.entropy().mean()
        self.optimizer.param_groups[0]["lr"] = self.policy.lr
        self.optimizer.zero_grad()
        (policy_loss + 0.5 * value_loss - self.entropy_coef * entropy).backward()
        nn.utils.clip_grad_norm_(self.policy.model.parameters(), 0.5)
        self.optimizer.step()
        return {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}


# %% [markdown]
# Parameters of the constructor, such as `mirrored`, are keys of the policy's section. The most similar built-in
# algorithm is `a2c`, also with one gradient step per rollout. To make a resumed run continue exactly, add
# `state_dict` and `load_state_dict` for the optimizer.

# %%
common = {"lr": 1e-3, "gamma": 0.98, "model": {"hidden": [32, 32]}}
sections = {
    "a2c (built-in)": {**common, "algorithm": "a2c"},
    "policy gradient": {**common, "algorithm": "custom", "function": PolicyGradient},
    "policy gradient, mirrored": {**common, "algorithm": "custom", "function": PolicyGradient, "mirrored": True},
}
names = {label: label.split(" (")[0].replace(", ", "_").replace(" ", "_") for label in sections}
plot(
    {
        label: [train(names[label], section, total_steps=122_880, seed=seed) for seed in range(2)]
        for label, section in sections.items()
    }
)

# %% [markdown]
# The forty lines above learn as fast as the built-in algorithm, and faster with mirrored steps. All three need more
# steps than PPO, which takes sixteen gradient steps per rollout instead of one.
#
# ## Replay
#
# The policy of the mirrored model:

# %%
trainer = curves["mirrored model"][0][0]
wd.replay(trainer, seed=2, width=360, max_frames=50)

# %% [markdown]
# ## What was learned
#
# - A model is a `wd.ActorCritic` with `logits` and `values`; `wd.register_model` gives it a name, and its arguments
#   are keys of the run configuration.
# - `wd.CheckDevice` reports wrong shapes, dtypes and devices before training.
# - A class derived from `wd.PPO` changes one part of it, such as the loss; `algorithm: custom` replaces the whole
#   update.
# - `wd.Batch` has the rows that a loss needs, `wd.gae` computes advantages, and `wd.mean_over_processes` averages
#   over processes.
# - Knowledge about the task can be built into the model, the loss, or the data. In the model it holds exactly; in the
#   data it is easiest.
#
# ## Exercises
#
# **Exercise 1.** `Mirrored` has two networks. Define a class `Shared` with one: `body`, from observations to `width`
# features by a linear layer and a tanh, *without a bias*, so that mirrored observations have negated features. A
# linear layer without a bias maps the features to the logit of a push to the right, that of a push to the left is its
# negative, and the value is a linear layer of the squared features.


# %% tags=["exercise"]
class Shared(wd.ActorCritic):
    def __init__(self, observation_space, num_logits, width: int = 32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(observation_space.shape[0], width, bias=False), nn.Tanh())

    def logits(self, observations):
        return None

    def values(self, observations):
        return None


# %% tags=["check"]
model, test = Shared(seen, 2), torch.randn(10, 4)
if model.logits(test) is None or model.values(test) is None:
    print("Exercise 1: not answered yet")
else:
    try:
        logits, values = wd.CheckDevice(model, seen, actions)(test)
        mirror_logits, mirror_values = model(-test)
        if not torch.allclose(logits, mirror_logits.flip(-1), atol=1e-6):
            print("Exercise 1: the logits of a mirrored observation are not the exchanged ones")
        elif not torch.allclose(values, mirror_values, atol=1e-6):
            print("Exercise 1: the value of a mirrored observation is another one")
        elif torch.allclose(logits[:, 0], logits[:, 1]):
            print("Exercise 1: both logits are equal, so that the policy cannot choose")
        else:
            print("Exercise 1: correct")
    except wd.WarpDriveError as error:
        print(f"Exercise 1: {error}")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# class Shared(wd.ActorCritic):
#     def __init__(self, observation_space, num_logits, width: int = 32):
#         super().__init__()
#         self.body = nn.Sequential(nn.Linear(observation_space.shape[0], width, bias=False), nn.Tanh())
#         self.push, self.value = nn.Linear(width, 1, bias=False), nn.Linear(width, 1)
#
#     def logits(self, observations):
#         right = self.push(self.body(observations))
#         return torch.cat([-right, right], dim=-1)
#
#     def values(self, observations):
#         return self.value(self.body(observations).square()).squeeze(-1)
# ```
#
# </details>

# %% [markdown]
# **Exercise 2.** Define `advantages`: what `wd.gae` returns for the tensors below, with a discount of 0.9 and lambda
# 0.8, calculated without it. Start at the last step. The error of a step is its reward plus the discounted value of
# what follows minus the value of where it began; its advantage is its error plus discount times lambda times the
# advantage of the next step. After a terminated step nothing follows.

# %% tags=["exercise"]
rewards = torch.tensor([1.0, 0.0, -1.0, 2.0])
values = torch.tensor([0.5, 0.2, -0.3, 1.0, 0.7])  # one more than rewards
terminated = torch.tensor([False, True, False, False])
advantages = None

# %% tags=["check"]
if advantages is None:
    print("Exercise 2: not answered yet")
else:
    expected = wd.gae(rewards, values, terminated, gamma=0.9, gae_lambda=0.8)
    if torch.allclose(torch.as_tensor(advantages, dtype=torch.float32), expected, atol=1e-5):
        print("Exercise 2: correct")
    else:
        print(f"Exercise 2: found {advantages}, expected {expected}")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# rewards = torch.tensor([1.0, 0.0, -1.0, 2.0])
# values = torch.tensor([0.5, 0.2, -0.3, 1.0, 0.7])  # one more than rewards
# terminated = torch.tensor([False, True, False, False])
# advantages, later = torch.zeros(4), 0.0
# for t in reversed(range(4)):
#     goes_on = 1.0 - float(terminated[t])
#     error = rewards[t] + 0.9 * goes_on * values[t + 1] - values[t]
#     later = advantages[t] = error + 0.9 * 0.8 * goes_on * later
# ```
#
# </details>

# %% [markdown]
# **Exercise 3.** Training does not require gradients. Write the update function `climb(policy, rollout)`: it adds
# noise of standard deviation 0.5 to all parameters of `policy.model`, in place and without a gradient, drawn with
# `generator=policy.generator`, and returns `{"moved": ...}`, the norm of all the noise together.


# %% tags=["exercise"]
def climb(policy, rollout):
    return {}


# %% tags=["check"]
trial = wd.RunConfig(
    env="cartpole",
    trainer=wd.TrainerConfig(num_envs=8, train_batch_size=80, total_steps=80),
    policy={"agent": wd.CustomConfig(function=climb, model={"hidden": [8]})},
)
trainer = wd.Trainer(trial)
before = nn.utils.parameters_to_vector(trainer.policies["agent"].model.parameters()).detach().clone()
trainer.collect()
losses = trainer.update()
after = nn.utils.parameters_to_vector(trainer.policies["agent"].model.parameters()).detach()
reported = next((float(value) for name, value in losses.items() if "moved" in name), None)
if torch.equal(before, after) and reported is None:
    print("Exercise 3: not answered yet")
else:
    distance, typical = float((after - before).norm()), 0.5 * len(before) ** 0.5
    if reported is None or abs(reported - distance) > 1e-3 * distance:
        print(f"Exercise 3: the parameters moved by {distance:.3f}, but reported is {reported}")
    elif abs(distance / typical - 1) > 0.3:
        print(f"Exercise 3: the parameters moved by {distance:.2f}, expected about {typical:.2f}")
    else:
        print("Exercise 3: correct")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# @torch.no_grad()
# def climb(policy, rollout):
#     squares = 0.0
#     for parameter in policy.model.parameters():
#         noise = 0.5 * torch.randn(parameter.shape, generator=policy.generator, device=parameter.device)
#         parameter += noise
#         squares = squares + noise.square().sum()
#     return {"moved": squares**0.5}
# ```
#
# </details>

# %% [markdown]
# ## Where next
#
# - [Self-play](13_self_play.ipynb): past versions as opponents.
# - [Training](07_training.ipynb): how to read the curves of a run.
# - [Models](../docs/guides/models.md): all built-in models, recurrent ones, and the interface of your own.
# - [Algorithms](../docs/reference/algorithms/index.md), and [writing one](../docs/guides/own_algorithm.md): custom
#   updates, populations of models.
