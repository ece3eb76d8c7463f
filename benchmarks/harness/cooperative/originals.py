"""Original environments, from their own packages, behind one interface; and episodes of trained policies in them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Agents = list[Any]
"""One item for each learning agent, in the order of their ids."""
FIRST_EPISODE = 1000
"""The seed of the first episode."""
CHECKOUT = "EPYMARL"
"""Environment variable with the path of a checkout of EPyMARL, which has the networks of the opponents."""


class Original(Protocol):
    """Instance of an original environment; agents that do not learn act within it.

    Attributes:
        tags: The policy tag of each agent that learns.
    """

    tags: Sequence[str]

    def reset(self, seed: int) -> Agents:
        """Begin an episode and return the observations."""

    def step(self, actions: Agents) -> tuple[Agents, float, bool]:
        """Return the observations, the sum of the rewards, and True if the episode has ended."""


class Matrix:
    """Repeated game in normal form: two agents, a common payoff, 25 steps, observations of zeros.

    Rules and names are those of ``MatrixGame`` in uoe-agents/matrix-games, which is in no package index.
    """

    def __init__(self, payoff: Sequence[Sequence[float]]) -> None:
        self.payoff, self.tags = payoff, ("agent", "agent")
        self.count = 0

    def reset(self, seed: int) -> Agents:
        """See ``Original``."""
        self.count = 0
        return [np.zeros(2, np.float32)] * 2

    def step(self, actions: Agents) -> tuple[Agents, float, bool]:
        """See ``Original``."""
        self.count += 1
        reward = self.payoff[int(actions[0])][int(actions[1])]
        return [np.zeros(2, np.float32)] * 2, 2.0 * reward, self.count >= 25


class _Tuples:
    """Environment of Gymnasium with a tuple of observations and of rewards."""

    env: Any

    def __init__(self, players: int) -> None:
        self.tags = ("agent",) * players

    def reset(self, seed: int) -> Agents:
        """See ``Original``."""
        return list(self.env.reset(seed=seed)[0])

    def step(self, actions: Agents) -> tuple[Agents, float, bool]:
        """See ``Original``."""
        seen, rewards, terminated, truncated, _ = self.env.step([int(action) for action in actions])
        return list(seen), float(np.sum(rewards)), bool(np.all(terminated) or truncated)


class Foraging(_Tuples):
    """``ForagingEnv`` of ``lbforaging`` with the settings of its registered ids, and episodes of 50 steps."""

    def __init__(self, players: int, max_num_food: int, field_size: int, sight: int, force_coop: bool = False) -> None:
        from lbforaging.foraging.environment import ForagingEnv

        super().__init__(players)
        self.env = ForagingEnv(
            players=players,
            min_player_level=1,
            max_player_level=2,
            min_food_level=1,
            max_food_level=None,
            field_size=(field_size, field_size),
            max_num_food=max_num_food,
            sight=sight,
            max_episode_steps=50,
            force_coop=force_coop,
            grid_observation=False,
            penalty=0.0,
        )


class Warehouse(_Tuples):
    """``Warehouse`` of ``rware`` by its registered id, whose episodes have 500 steps."""

    def __init__(self, kind: str) -> None:
        import gymnasium
        import rware  # noqa: F401  registers the ids

        self.env = gymnasium.make(kind, disable_env_checker=True).unwrapped
        super().__init__(self.env.n_agents)


class Particles:
    """Environment of ``mpe2``; agents that do not learn are controlled by EPyMARL's network ``opponent``.

    Observations are padded with zeros to the longest, and actions that an agent does not have are masked.
    """

    def __init__(self, module: str, tag: str, opponent: str | None = None) -> None:
        import importlib

        self.env = importlib.import_module(f"mpe2.{module}").parallel_env(max_cycles=25)
        self.env.reset(seed=0)
        self.names = [name for name in self.env.agents if tag in ("agent", _tag(name))]
        self.tags = (tag,) * len(self.names)
        self.opponent = pretrained(opponent) if opponent else None
        self.seen: Mapping[str, Any] = {}
        self.length = max(self.env.observation_space(name).shape[0] for name in self.names)
        counts = [self.env.action_space(name).n for name in self.names]
        if min(counts) < max(counts):
            self.action_mask = np.arange(max(counts)) < np.array(counts)[:, None]

    def reset(self, seed: int) -> Agents:
        """See ``Original``."""
        self.seen = self.env.reset(seed=seed)[0]
        return self._observations()

    def step(self, actions: Agents) -> tuple[Agents, float, bool]:
        """See ``Original``."""
        chosen = {name: int(action) for name, action in zip(self.names, actions, strict=True)}
        for name in self.env.agents:
            if name not in chosen:
                assert self.opponent is not None
                chosen[name] = int(self.opponent(self.seen[name][None])[0])
        self.seen, rewards, terminated, truncated, _ = self.env.step(chosen)
        done = all(terminated.values()) or all(truncated.values())
        return self._observations(), sum(rewards[name] for name in self.names), done

    def _observations(self) -> Agents:
        return [np.pad(self.seen[name], (0, self.length - len(self.seen[name]))) for name in self.names]


def _tag(name: str) -> str:
    """Return our policy tag of an agent of ``mpe2``, in tasks with adversaries."""
    return "adversary" if name.startswith("adversary") else "good_agent"


@cache
def pretrained(name: str) -> Callable[[npt.NDArray[Any]], npt.NDArray[np.int64]]:
    """Return the policy of ``"prey"`` or ``"adversary"`` that EPyMARL ships: observations ``[n, size]`` to actions.

    Its network was trained with the actions of the former particle environments, in which 1 and 2 are right and left,
    3 and 4 up and down. ``mpe2`` exchanges both pairs.

    Raises:
        SystemExit: If ``EPYMARL`` is not set, or is no checkout.
    """
    import torch
    from torch.nn.functional import batch_norm, linear, relu

    file = {"prey": "prey_params.pt", "adversary": "adv_params.pt"}[name]
    path = Path(os.environ.get(CHECKOUT, ".")) / "src" / "envs" / "pretrained" / file
    if not path.exists():
        raise SystemExit(f"{path}: not found; set {CHECKOUT} to a checkout of github.com/uoe-agents/epymarl")
    saved = torch.load(path, weights_only=True, map_location="cpu")["agent_params"]
    p = saved[-1 if name == "prey" else 0]["policy"]
    exchanged = np.array([0, 2, 1, 4, 3])

    @torch.no_grad()
    def act(observations: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        x = torch.as_tensor(np.asarray(observations, np.float32))
        x = batch_norm(x, p["in_fn.running_mean"], p["in_fn.running_var"], p["in_fn.weight"], p["in_fn.bias"])
        x = relu(linear(x, p["fc1.weight"], p["fc1.bias"]))
        x = relu(linear(x, p["fc2.weight"], p["fc2.bias"]))
        return exchanged[linear(x, p["fc3.weight"], p["fc3.bias"]).argmax(-1).numpy()]

    return act


class Kitchen:
    """``OvercookedGridworld`` of ``overcooked_ai_py``: features, sparse rewards, episodes of 400 steps.

    ``OvercookedEnv``, which only counts steps and rewards of it, cannot be imported with NumPy 2.
    """

    def __init__(self, layout: str) -> None:
        self.grid, self.features, self.joint = _gridworld(layout)
        self.tags, self.count = ("agent", "agent"), 0

    def reset(self, seed: int) -> Agents:
        """See ``Original``. The start state is always the same."""
        self.state, self.count = self.grid.get_standard_start_state(), 0
        return self.features(self.state)

    def step(self, actions: Agents) -> tuple[Agents, float, bool]:
        """See ``Original``. The reward is that of the team, for both players."""
        self.state, info = self.grid.get_state_transition(self.state, self.joint(actions))
        self.count += 1
        return self.features(self.state), 2.0 * sum(info["sparse_reward_by_agent"]), self.count >= 400


@cache
def _gridworld(layout: str) -> tuple[Any, Callable[[Any], Agents], Callable[[Agents], Any]]:
    """Return the package's kitchen, its features of a state, and the package's joint action for numbers."""
    import warpdrive as wd
    from warpdrive.envs.overcooked import reference  # imports the package without gym

    env = wd.make("overcooked", layout=layout, encoding="featurize_state")
    grid = reference.original(env)
    reference.encoded(env, grid.get_standard_start_state())  # creates the planner
    from overcooked_ai_py.mdp.actions import Action

    def features(state: Any) -> Agents:
        return list(reference.encoded(env, state))

    return grid, features, lambda actions: [Action.INDEX_TO_ACTION[int(action)] for action in actions]


def play(
    make: Callable[[], Original],
    policies: Mapping[str, Any],
    episodes: int,
    deterministic: bool,
    first: int = FIRST_EPISODE,
) -> npt.NDArray[np.float64]:
    """Play episodes in an original environment, all at the same time.

    Args:
        make: Creates an instance of the environment.
        policies: Results of ``wd.load_policy``, by policy tag.
        episodes: The number of episodes, each with its own seed.
        deterministic: If True, agents take the most probable action, otherwise a random one.
        first: The seed of the first episode.

    Returns:
        The sum of the rewards of all learning agents in each episode, ``[episodes]``.
    """
    envs = [make() for _ in range(episodes)]
    seen = [env.reset(first + number) for number, env in enumerate(envs)]
    tags = list(envs[0].tags)
    agents_of = {tag: [i for i, other in enumerate(tags) if other == tag] for tag in dict.fromkeys(tags)}
    totals, playing = np.zeros(episodes), set(range(episodes))
    for policy in policies.values():
        policy.reset()
    while playing:
        chosen: list[list[Any]] = [[None] * len(tags) for _ in envs]
        for tag, agents in agents_of.items():  # ended episodes keep their rows: recurrent policies count them
            rows = np.stack([[np.asarray(each[agent]) for agent in agents] for each in seen])
            mask = getattr(envs[0], "action_mask", None)
            if mask is not None:
                mask = np.broadcast_to(mask[agents], (episodes, len(agents), mask.shape[1]))
            actions = policies[tag].act(rows, deterministic=deterministic, action_mask=mask)
            for number, row in enumerate(actions):
                for agent, action in zip(agents, row, strict=True):
                    chosen[number][agent] = action
        for number in list(playing):
            seen[number], reward, done = envs[number].step(chosen[number])
            totals[number] += reward
            if done:
                playing.remove(number)
    return totals
