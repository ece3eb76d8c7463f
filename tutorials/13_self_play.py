# %% [markdown]
# # Self-play, and how strong a policy is
#
# In self-play, a policy is trained against past versions of itself. This tutorial trains a player of a small game in
# this way, and then measures **how strong the policy has become**: by ratings from a league of its versions, and
# against a scripted opponent. Finally it shows a game in which ratings are not informative, and what to look at
# instead.
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
from numba import cuda

import warpdrive as wd
from warpdrive.training import league
from warpdrive.training.opponents.elo import expected_score, league_ratings, performance_rating

# %% [markdown]
# ## The game
#
# Two players move simultaneously on a board of 9 x 9 cells. The first on the cell of the coin wins a point from the
# other, and the next coin appears at a random cell; if both arrive together, neither wins. The game is zero-sum, so
# the return of an episode shows who was better.


# %%
@wd.kernel
def step(x, y, coin, actions, rewards, rng, size):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    action = actions[env, agent]  # stay, right, left, up, down
    x[env, agent] = min(max(x[env, agent] + (action == 1) - (action == 2), 0), size - 1)
    y[env, agent] = min(max(y[env, agent] + (action == 3) - (action == 4), 0), size - 1)
    cuda.syncthreads()
    here = x[env, agent] == coin[env, 0] and y[env, agent] == coin[env, 1]
    other = x[env, 1 - agent] == coin[env, 0] and y[env, 1 - agent] == coin[env, 1]
    if here and not other:
        rewards[env, agent] = 1
    if other and not here:
        rewards[env, agent] = -1
    cuda.syncthreads()
    if agent == 0 and (here or other):
        coin[env, 0] = wd.random.integer(rng, env, agent, size)
        coin[env, 1] = wd.random.integer(rng, env, agent, size)


# %% [markdown]
# Both players have the same kind of observation: the coin relative to the player and to the opponent, and the
# player's own position. Therefore one policy can play both sides.


# %%
@wd.kernel
def observe(x, y, coin, observations, scale):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    observations[env, agent, 0] = np.float32(coin[env, 0] - x[env, agent]) * scale
    observations[env, agent, 1] = np.float32(coin[env, 1] - y[env, agent]) * scale
    observations[env, agent, 2] = np.float32(coin[env, 0] - x[env, 1 - agent]) * scale
    observations[env, agent, 3] = np.float32(coin[env, 1] - y[env, 1 - agent]) * scale
    observations[env, agent, 4] = np.float32(x[env, agent]) * scale
    observations[env, agent, 5] = np.float32(y[env, agent]) * scale


@wd.kernel
def draw(shapes, x, y, coin):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    wd.draw.circle(shapes, 0, x[env, agent], y[env, agent], 0.4, wd.draw.RED if agent == 0 else wd.draw.BLUE)
    if agent == 0:
        wd.draw.circle(shapes, 1, coin[env, 0], coin[env, 1], 0.25, wd.draw.YELLOW)


# %% [markdown]
# Each player has its own policy tag, so that different policies can act for them.


# %%
class Coins(wd.Environment):
    """Two players race for coins."""

    name = "coins"
    step, observe, draw, shapes_per_agent = step, observe, draw, 2
    num_agents, episode_length, size = 2, 60, 9
    scale = np.float32(1 / 9)
    view = (-0.7, 8.7, -0.7, 8.7)
    policy_tags = {"red": [0], "blue": [1]}
    observation_space = spaces.Box(-1.0, 1.0, (6,), np.float32)
    action_space = spaces.Discrete(5)

    def initial_state(self, rng):
        x, y, coin = rng.integers(0, self.size, (3, 2), dtype=np.int32)
        return {"x": x, "y": y, "coin": coin}


wd.register("coins", Coins)


# %% [markdown]
# ## A scripted opponent
#
# With `algorithm: function`, a Python function acts for a tag. It gets the observations of all replicas as a tensor,
# and returns actions. This one walks to the coin on a shortest path. How well does it play against random moves?


# %%
def greedy(observations, env, tag):
    """Walk to the coin, along the longer way first."""
    to_x, to_y = observations[..., 0], observations[..., 1]
    along_x, along_y = torch.where(to_x > 0, 1, 2), torch.where(to_y > 0, 3, 4)
    return torch.where(to_x.abs() >= to_y.abs(), along_x, along_y)


def play(red, blue, episodes=1000):
    """Play with two sections of a run configuration; return the fractions of episodes that red won and lost."""
    small = wd.TrainerConfig(num_envs=100, train_batch_size=1000, total_steps=1000)
    trainer = wd.Trainer(wd.RunConfig(env="coins", trainer=small, policy={"red": red, "blue": blue}))
    returns = np.array(trainer.evaluate(episodes, progress=False).episode_returns["red"])
    return (returns > 0).mean(), (returns < 0).mean()


rule = wd.FunctionConfig(function=greedy)
for label, blue in {"random steps": wd.RandomConfig(), "itself": rule}.items():
    won, lost = play(rule, blue)
    print(f"the rule against {label}: wins {won:.0%}, loses {lost:.0%}")

# %% [markdown]
# ## Self-play with past versions
#
# Red learns; blue is `self_play` of red: past versions of its policy, of which several act at a time, each in a part
# of the replicas. Several past versions are used, since a policy that trains against the latest one only may lose to
# earlier ones. Every third update adds a version, and the last ten are kept.

# %%
ppo = {"lr": [[0, 3e-3], [500_000, 3e-4]], "gamma": 0.95, "epochs": 4, "minibatches": 4, "entropy_coef": 0.003}
config = wd.RunConfig(
    name="coins",
    env="coins",
    trainer=wd.TrainerConfig(
        num_envs=256,
        train_batch_size=256 * 16,
        total_steps=120 * 256 * 16,
        evaluation=wd.EvaluationConfig(every=10, num_episodes=400),
    ),
    policy={
        "red": wd.PPOConfig(**ppo, model={"hidden": [32, 32]}),
        "blue": wd.SelfPlayConfig(of="red", snapshot_every=3, pool_size=10),
    },
    saving=wd.SavingConfig(checkpoint_every=15, keep_last=100, keep_best=False),
)
trainer = wd.Trainer(config)
summary = trainer.train()

# %% [markdown]
# The return does not measure success: against equally strong opponents it is 0. Evaluations therefore estimate an
# **Elo rating** from the episodes against past versions, whose ratings are known. The initial policy has 0, and 400
# points more mean winning ten times as often.

# %%
metrics = np.genfromtxt(summary.run_folder / "metrics.csv", delimiter=",", names=True, deletechars="")
rated = ~np.isnan(metrics["eval/elo/red"])
_, panels = plt.subplots(1, 2, figsize=(7, 2.4), dpi=80, layout="tight")
panels[0].plot(metrics["env_steps"][rated] / 1000, metrics["eval/elo/red"][rated], "o-", color="tab:red")
panels[0].set(xlabel="thousand environment steps", ylabel="Elo rating in training")
ended = ~np.isnan(metrics["charts/episodic_return/red"])
panels[1].plot(metrics["env_steps"][ended] / 1000, metrics["charts/episodic_return/red"][ended], color="tab:grey")
_ = panels[1].set(xlabel="thousand environment steps", ylabel="return in training", ylim=(-10, 10))

# %% [markdown]
# ## A league of all versions
#
# The checkpoints of the run are its versions. All play against each other, in pairs of episodes from the same start
# states with exchanged sides. The table of their scores is the **payoff matrix**: 1 for a win, 1/2 for a draw.

# %%
checkpoints = sorted((summary.run_folder / "checkpoints").glob("step_*"), key=lambda path: int(path.name[5:]))
players = [league.load_player(path) for path in checkpoints]
names, labels = [player.name for player in players], [f"{int(path.name[5:]) // 1000}k" for path in checkpoints]
pairs = [(one, other) for index, one in enumerate(players) for other in players[:index]]
matches = league.play_matches(trainer, pairs, episodes=100)
score = np.full((len(players), len(players)), 0.5)
for match in matches:
    one, other = names.index(match.one), names.index(match.other)
    score[one, other], score[other, one] = match.score, 1 - match.score
elo = np.array(league.ratings(names, matches))

# %%
_, (left, right) = plt.subplots(1, 2, figsize=(7, 3), dpi=80, layout="tight")
image = left.imshow(score, cmap="RdBu", vmin=0, vmax=1)
left.set(xticks=range(len(labels)), yticks=range(len(labels)), yticklabels=labels, xlabel="against", ylabel="version")
left.set_xticklabels(labels, rotation=90)
plt.colorbar(image, ax=left, label="score")
right.plot(elo, "o-")
right.set(xticks=range(len(labels)), xlabel="version (environment steps)", ylabel="Elo rating, mean 0")
_ = right.set_xticklabels(labels, rotation=90)

# %% [markdown]
# The picture is blue below the diagonal: later versions beat earlier ones. The ratings summarise the table by one
# number per player, from which the expected score of a match follows. On the command line,
# `warpdrive evaluate runs/coins/*/checkpoints/step_* --league` prints the same ratings.
#
# ## Evaluation against the scripted opponent
#
# A rating among versions of one policy does not tell how strong they are against others. So the versions play against
# the scripted opponent, which was not used in training. A trained policy with frozen weights is a section with
# `to_train=False` and `load`.

# %%
against_rule = []
for path in checkpoints:
    frozen = wd.PPOConfig(**ppo, to_train=False, load=str(path), model={"hidden": [32, 32]})
    against_rule.append(play(frozen, rule, episodes=2000))
won, lost = np.array(against_rule).T
rating = performance_rating(list(elo), list(1 - won - 0.5 * (1 - won - lost)), [2000] * len(elo))
print(f"the rule has a rating of {rating:.0f}, the last version {elo[-1]:.0f}")

# %%
_, axes = plt.subplots(figsize=(6, 2.4), dpi=80, layout="tight")
axes.plot(labels, won, "o-", color="tab:red", label="won by the policy")
axes.plot(labels, lost, "o-", color="tab:blue", label="won by the rule")
axes.set(xlabel="version (environment steps)", ylabel="episodes", ylim=(0, 1))
_ = axes.legend()

# %% [markdown]
# The first version loses almost every episode. The last one wins more episodes than it loses, so it has learned to
# walk to the coin, and something more (see exercise 1). `performance_rating` is the rating at which these results are
# the expected ones: the rating of the scripted opponent in the league.
#
# Here the last version is red and the scripted opponent is blue:

# %%
frozen = wd.PPOConfig(**ppo, to_train=False, load=str(checkpoints[-1]), model={"hidden": [32, 32]})
small = wd.TrainerConfig(num_envs=100, train_batch_size=1000, total_steps=1000)
examination = wd.Trainer(wd.RunConfig(env="coins", trainer=small, policy={"red": frozen, "blue": rule}))
wd.replay(examination, seed=4, width=240, deterministic=True)

# %% [markdown]
# ## A game without a best player
#
# In rock, paper, scissors, every action beats one and loses to another. Which version is the strongest now? A policy
# plays against its latest version only (`pool_size=1`), and we record its probabilities before each update.


# %%
@wd.kernel
def throw(actions, rewards, observations):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    ahead = (actions[env, agent] - actions[env, 1 - agent] + 3) % 3
    rewards[env, agent] = 1 if ahead == 1 else -1 if ahead == 2 else 0
    observations[env, agent, 0] = 1


class RockPaperScissors(wd.Environment):
    """Each action beats the one before it: 0 rock, 1 paper, 2 scissors."""

    name, step = "rock_paper_scissors", throw
    num_agents, episode_length = 2, 1
    policy_tags = {"red": [0], "blue": [1]}
    observation_space, action_space = spaces.Box(0.0, 1.0, (1,), np.float32), spaces.Discrete(3)

    def initial_state(self, rng):
        return {"observations": np.ones((2, 1), np.float32)}


# %%
class Notes(wd.Callback):
    """Probabilities of red's actions before each rollout."""

    def on_rollout_start(self, trainer):
        with torch.no_grad():
            logits = trainer.policies["red"].model.logits(torch.ones(1, 1))
        probabilities.append(logits.softmax(-1)[0].tolist())


# %%
probabilities = []
config = {
    "name": "rock_paper_scissors",
    "trainer": {"num_envs": 500, "train_batch_size": 1000, "total_steps": 400_000, "reset_pool_size": 1},
    "policy": {
        "red": {"algorithm": "a2c", "lr": 2e-3, "gamma": 0.0, "entropy_coef": 0.1, "model": {"hidden": [16]}},
        "blue": {"algorithm": "self_play", "of": "red", "pool_size": 1, "snapshot_every": 1, "at_once": 1},
    },
}
env = wd.EnvWrapper(RockPaperScissors(), num_envs=500)
wd.Trainer(env, config).train(callbacks=[Notes()])
probabilities = np.array(probabilities)

# %% [markdown]
# From the probabilities of two versions, the payoff follows without playing: `beats[i, j]` is the reward of action
# `i` against action `j`. With it we compute the payoff matrix of forty versions and their Elo ratings. We also
# compute the **exploitability** of a policy: the mean score per game of the best opponent against it.

# %%
beats = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])
versions = probabilities[200::5]
payoff = versions @ beats @ versions.T
ratings = league_ratings((0.5 + payoff / 2).tolist(), np.full(payoff.shape, 100).tolist())
print(f"largest payoff {payoff.max():.2f}; ratings from {min(ratings):.0f} to {max(ratings):.0f}")


# %%
def exploitability(policy):
    """Return what the best response wins against the probabilities of a policy."""
    return (beats @ policy).max()


average = np.cumsum(probabilities, axis=0) / np.arange(1, len(probabilities) + 1)[:, None]
_, panels = plt.subplots(1, 3, figsize=(8, 2.6), dpi=80, layout="tight")
for action, label in enumerate(("rock", "paper", "scissors")):
    panels[0].plot(probabilities[:, action], label=label)
panels[0].set(title="probabilities", xlabel="update", ylim=(0, 1))
panels[0].legend(loc="upper left")
panels[1].imshow(payoff, cmap="RdBu", vmin=-0.5, vmax=0.5)
panels[1].set(title="payoff matrix", xlabel="against", ylabel="version")
panels[2].plot([exploitability(policy) for policy in probabilities], label="latest version")
panels[2].plot([exploitability(policy) for policy in average], label="mean of all versions")
panels[2].set(title="exploitability", xlabel="update", ylim=(0, 0.8))
_ = panels[2].legend(loc="upper left")

# %% [markdown]
# The policy cycles: each version beats the previous one, and loses to later ones until the cycle closes. The payoff
# matrix shows stripes instead of a triangle. Ratings assume that strength is transitive, so they say little about
# these matches. The latest version becomes more and more exploitable, but the *mean* of all versions hardly is. This
# is why opponents are drawn from a pool of past versions, and why ratings should be read together with the payoff
# matrix.
#
# ## What was learned
#
# - `algorithm: self_play` lets past versions of a policy act; `snapshot_every`, `pool_size` and `at_once` choose
#   them.
# - `algorithm: function` is a scripted opponent, `to_train: false` with `load` a policy of another run.
# - In self-play the return stays near zero. Progress is visible in Elo ratings, in a league, and against other
#   opponents.
# - Ratings summarise the payoff matrix well if strength is transitive. Look at the matrix.
# - If it is not, the mixture of past versions is the stronger player.
#
# ## Exercises
#
# **Exercise 1.** The scripted opponent always walks to the coin, even if the other player is nearer. Write a better
# one, `patient(observations, env, tag)`: if its distance to the coin (number of steps) is at most the other's, walk
# to the coin as `greedy` does; else walk towards the middle of the board, to be near the next coin. The middle is 4 /
# 9 in the units of observations 4 and 5.


# %% tags=["exercise"]
def patient(observations, env, tag):
    """Walk to the coin, or to the middle of the board."""
    return greedy(observations, env, tag)  # even if the other is nearer


# %% tags=["check"]
test = torch.rand(500, 1, 6, generator=torch.Generator().manual_seed(0)) * 2 - 1
if torch.equal(patient(test, None, "red"), greedy(test, None, "red")):
    print("Exercise 1: not answered yet")
else:
    won, lost = play(wd.FunctionConfig(function=patient), rule)
    if won > lost + 0.05:
        print("Exercise 1: correct")
    else:
        print(f"Exercise 1: wins {won:.0%} and loses {lost:.0%} against the rule, expected more wins")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def patient(observations, env, tag):
#     """Walk to the coin, or to the middle of the board."""
#     coin_x, coin_y, other_x, other_y, x, y = observations.unbind(-1)
#     nearer = coin_x.abs() + coin_y.abs() <= other_x.abs() + other_y.abs()
#     to_x, to_y = torch.where(nearer, coin_x, 4 / 9 - x), torch.where(nearer, coin_y, 4 / 9 - y)
#     walk = greedy(torch.stack([to_x, to_y], dim=-1), env, tag)
#     arrived = ~nearer & (to_x.abs() < 0.01) & (to_y.abs() < 0.01)
#     return torch.where(arrived, 0, walk)
# ```
#
# </details>

# %% [markdown]
# **Exercise 2.** A newcomer scores 64 % against a player who is rated 1200. Define `newcomer`: the rating at which
# this score is the expected one. A rating `r` is expected to score 1 / (1 + 10^((opponent - r) / 400)).

# %% tags=["exercise"]
newcomer = None

# %% tags=["check"]
if newcomer is None:
    print("Exercise 2: not answered yet")
elif abs(expected_score(newcomer, 1200) - 0.64) < 0.001:
    print("Exercise 2: correct")
else:
    print(f"Exercise 2: {newcomer:.0f} is expected to score {expected_score(newcomer, 1200):.1%}, not 64 %")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# newcomer = 1200 + 400 * np.log10(0.64 / 0.36)
# ```
#
# </details>

# %% [markdown]
# **Exercise 3.** In another game of three actions, winning with scissors counts twice: scissors win 2 against paper,
# and paper loses 2. Define `safe`: the probabilities of rock, paper and scissors that no opponent can exploit. (In
# such a game every action of the opponent gets the same against them: 0.)

# %% tags=["exercise"]
safe = None

# %% tags=["check"]
if safe is None:
    print("Exercise 3: not answered yet")
else:
    double = np.array([[0, -1, 1], [1, 0, -2], [-1, 2, 0]])
    found = float((double @ np.asarray(safe, float)).max())
    if abs(sum(safe) - 1) > 1e-6 or min(safe) < 0:
        print(f"Exercise 3: {safe} are no probabilities")
    elif found > 1e-6:
        print(f"Exercise 3: found an exploitability of {found:.3f}, expected 0")
    else:
        print("Exercise 3: correct")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# # rock: scissors - paper = 0; paper: rock - 2 scissors = 0; together 1
# safe = [0.5, 0.25, 0.25]
# ```
#
# </details>

# %% [markdown]
# ## Where next
#
# - [Coming from WarpDrive 2](14_coming_from_warpdrive2.ipynb).
# - [Self-play and opponents](../docs/guides/self_play.md): every key, matches between runs, leagues on the command
#   line.
# - [`battle`](../docs/environments/battle.md): self-play with thousands of agents per team.
