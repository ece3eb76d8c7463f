"""Repeated games in normal form (``MatrixGame`` of the package ``matrixgames``)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.envs.common import drawing, parameters
from warpdrive.envs.matrix_game import reference
from warpdrive.errors import DefinitionError, nearest, shown
from warpdrive.scene.scene import Scene, Text

ZERO, ONE = np.float32(0), np.float32(1)
LARGEST = np.finfo(np.float32).max
MARK = np.float32(0.44)
GAMES: dict[str, Any] = {
    "climbing": [[11, -30, 0], [-30, 7, 0], [0, 6, 5]],
    "climbing-3p": [
        [[11, -30, 0], [-30, 0, 0], [0, 0, 0]],
        [[-30, 0, 0], [0, 7, 0], [0, 0, 0]],
        [[0, 0, 0], [0, 0, 0], [0, 6, 5]],
    ],
    "trivial": [[11, 8, 0], [8, 7, 0], [0, 0, 0]],
    "linear": [[1, 4, 2], [0, 3, 1], [2, 5, 3]],
    "nonlinear": [[0, 3, 1], [0, 0, 0], [0, 6, 2]],
    "linear-2p": [[1, 5], [5, 9]],
    "nonlinear-2p": [[0, 0], [0, 10]],
    "pdilemma": [[-1, -3], [-3, -2]],
}
"""Payoffs of the games of ``matrixgames`` that all agents share, by their ids without ``-nostate-v0``."""


@wd.kernel
def step(
    # state
    last_action,
    # actions
    actions,
    # constants
    payoffs, strides, num_agents, num_actions,
    # out
    rewards,
):  # fmt: skip
    """Look up the payoff of the joint action; masked actions count as the last one, since they are not in the table."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    outcome = np.int32(0)
    for other in range(num_agents):
        outcome += min(actions[env, other], num_actions[other] - 1) * strides[other]
    rewards[env, agent] = payoffs[agent, outcome]
    last_action[env, agent] = min(actions[env, agent], num_actions[agent] - 1)


@wd.kernel
def observe_actions_of_all(last_action, first, num_agents, num_actions, observations):
    """Write the last actions of all agents, one-hot."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for other in range(num_agents):
        for action in range(num_actions[other]):
            is_last = last_action[env, other] == action
            observations[env, agent, first[other] + action] = ONE if is_last else ZERO


@wd.kernel
def draw(shapes, last_action, strides, num_columns, num_rows, num_agents):
    """Draw a disc on the payoff of the last joint action."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if agent == 0 and last_action[env, 0] >= 0:
        outcome = np.int32(0)
        for other in range(num_agents):
            outcome += last_action[env, other] * strides[other]
        row, column = outcome // num_columns, outcome % num_columns
        x, y = np.float32(column), np.float32(num_rows - 1 - row)
        wd.draw.circle(shapes, 0, x, y, MARK, wd.draw.YELLOW)


class MatrixGame(wd.Environment):
    """Play a repeated game in normal form: the climbing game, the penalty game, or any payoff table.

    ## Description

    All agents act simultaneously, and the joint action selects their rewards from a table. There is no other state, so
    the only difficulty is coordination: in the climbing game and the penalty game (Claus and Boutilier 1998) a
    unilateral deviation from the best joint action is punished. The environment is `MatrixGame` of the package
    `matrixgames`, with the episodes of 25 steps of the benchmark of Papoudakis et al. (2021). All agents share the
    policy tag `agent`.

    `payoff` is the name of a game or a table. Rows are the actions of agent 0, columns those of agent 1.

    | payoff | Table | Best return of an agent in 25 steps |
    | --- | --- | --- |
    | `climbing` | `[[11, -30, 0], [-30, 7, 0], [0, 6, 5]]` | 275 |
    | `penalty` | `[[k, 0, 10], [0, 2, 0], [10, 0, k]]`, where k is `penalty` | 250 |
    | `climbing-3p` | climbing for three agents | 275 |
    | `trivial` | `[[11, 8, 0], [8, 7, 0], [0, 0, 0]]` | 275 |
    | `linear` | `[[1, 4, 2], [0, 3, 1], [2, 5, 3]]` | 125 |
    | `nonlinear` | `[[0, 3, 1], [0, 0, 0], [0, 6, 2]]` | 150 |
    | `linear-2p` | `[[1, 5], [5, 9]]` | 225 |
    | `nonlinear-2p` | `[[0, 0], [0, 10]]` | 250 |
    | `pdilemma` | `[[-1, -3], [-3, -2]]` | -25 |

    The names are the ids of `matrixgames` without the suffix: `penalty-100-nostate-v0` is `payoff="penalty",
    penalty=-100`, and `climbing-laststate-v0` is `observe_actions=True`. Other games are given as tables:

        wd.make("matrix_game", payoff=[[4, 0], [0, 2]])
        wd.make("matrix_game", payoff=[[[3, 0], [5, 1]], [[3, 5], [0, 1]]], common_payoff=False)  # one for each agent

    ## Action Space

    `Discrete(n)` for the largest number n of actions of an agent; `Discrete(3)` by default. It is stored as
    `actions[env, agent]` (int32). If agents have different numbers of actions, `action_mask` excludes those that an
    agent does not have; if chosen nevertheless, they count as its last one.

    ## Observation Space

    `Box` of shape `(N,)` for N agents, float32: always 0.

    With `observe_actions=True`, the last action of each agent in id order, one-hot: for n actions of each agent, of
    shape `(N n,)`; with different numbers of actions the length is their sum. Before the first step of an episode all
    entries are 0. (In `matrixgames` the shape is `(N, n)`, the first observation is `[-1] * N`, and a reset keeps the
    last actions.)

    | Index | Observation | Min | Max |
    | --- | --- | --- | --- |
    | all | 1 for the last action of the agent | 0 | 1 |

    ## Rewards

    The payoff of the joint action, for each agent the same unless `common_payoff=False`.

    ## Starting State

    The same for all episodes.

    ## Episode End

    - Termination: never.
    - Truncation: after `episode_length` steps.

    ## Arguments

    Args:
        payoff: The name of a game, or a table of shape `[n_1, ..., n_N]`, where n_i is the number of actions of the
            i-th of 2 agents or more; with `common_payoff=False` of shape `[N, n_1, ..., n_N]`, one table for each.
        penalty: Payoff k of the penalty game if both agents choose one of the two best actions, but not the same
            equilibrium; 0 or less. The benchmark has 0, -25, -50, -75 and -100.
        common_payoff: If True, all agents have the same payoff, otherwise the first axis of the table is the agent.
        observe_actions: If True, agents observe the last joint action, otherwise nothing.
        episode_length: Number of steps after which an episode is truncated, 1 or more; 1000 in `matrixgames`, 25 in the
            benchmark.

    Raises:
        DefinitionError: If an argument has the wrong type or is out of range.

    ## References

    - C. Claus, C. Boutilier (1998), "The dynamics of reinforcement learning in cooperative multiagent systems", AAAI.
    - G. Papoudakis, F. Christianos, L. Schäfer, S. Albrecht (2021), "Benchmarking multi-agent deep reinforcement
      learning algorithms in cooperative tasks", [arXiv 2006.07869](https://arxiv.org/abs/2006.07869).
    - [matrix-games](https://github.com/uoe-agents/matrix-games).

    `envs/matrix_game/reference.py` has the same step in NumPy.
    """

    name = "matrix_game"
    parity: ClassVar[Mapping[str, Any]] = {
        "title": "a reference in NumPy",
        "tolerance": 1e-6,
        "episode_tolerance": 1e-6,
    }
    global_state = ("last_action",)
    step, draw = step, draw
    reference_step, reference_observe = reference.step, reference.observe

    def __init__(
        self,
        payoff: Any = "climbing",
        penalty: float = -100.0,
        common_payoff: bool = True,
        observe_actions: bool = False,
        episode_length: int = 25,
    ) -> None:
        self.penalty = parameters.real("penalty", penalty, at_most=0)
        self.common_payoff = parameters.flag("common_payoff", common_payoff)
        self.observe_actions = parameters.flag("observe_actions", observe_actions)
        self.episode_length = parameters.whole("episode_length", episode_length, at_least=1)
        self.tables = _tables(payoff, self.penalty, self.common_payoff)

        shape = self.tables.shape[1:]
        self.num_agents, self.most_actions = len(shape), max(shape)
        self.num_actions = np.array(shape, np.int32)
        self.first = (np.cumsum(shape) - shape).astype(np.int32)
        self.payoffs = self.tables.reshape(self.num_agents, -1).astype(np.float32)
        self.strides = np.array([math.prod(shape[i + 1 :]) for i in range(self.num_agents)], np.int32)
        self.num_rows, self.num_columns = shape[0], int(self.strides[0])

        self.observe = observe_actions_of_all if self.observe_actions else None
        self.policy_tags = {"agent": range(self.num_agents)}
        self.action_space = spaces.Discrete(self.most_actions)
        length = int(sum(shape)) if self.observe_actions else self.num_agents
        self.observation_space = spaces.Box(0.0, 1.0, (length,), np.float32)
        self.view = (-0.6, self.num_columns - 0.4, -0.6, self.num_rows - 0.4)

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        """Return ``last_action`` (``[num_agents]`` int32), -1 for none.

        Also ``observations``, zeros unless actions are observed, and ``action_mask`` if agents have different numbers
        of actions.
        """
        state: dict[str, npt.NDArray[Any]] = {"last_action": np.full(self.num_agents, -1, np.int32)}
        if not self.observe_actions:
            state["observations"] = np.zeros((self.num_agents, self.num_agents), np.float32)
        if min(self.num_actions) < self.most_actions:
            state["action_mask"] = np.arange(self.most_actions) < self.num_actions[:, None]
        return state

    def scenery(self, state: dict[str, Any]) -> Scene:
        """Return the table of agent 0, the best payoffs in green and negative ones in red."""
        cells, texts = [], []
        table = self.tables[0].reshape(self.num_rows, self.num_columns)
        for (row, column), payoff in np.ndenumerate(table):
            best = wd.draw.GREEN if payoff == table.max() else wd.draw.GREY
            colour = wd.draw.RED if payoff < 0 else best
            x, y = column, self.num_rows - 1 - row
            cells.append(drawing.box(x - 0.46, x + 0.46, y - 0.46, y + 0.46, colour))
            texts.append(Text(x, y, f"{payoff:g}", 0.24, wd.draw.GROUND))
        return Scene(self.view, polygons=cells, texts=texts)


def _tables(payoff: Any, penalty: float, common: bool) -> npt.NDArray[np.float64]:
    """Return the payoffs ``[num_agents, n_1, ..., n_N]``."""
    if isinstance(payoff, str):
        games = {**GAMES, "penalty": [[penalty, 0, 10], [0, 2, 0], [10, 0, penalty]]}
        if payoff not in games:
            raise DefinitionError(
                f"payoff is {shown(payoff)}, expected a table or one of {', '.join(sorted(games))}."
                f"{nearest(payoff.partition('-')[0], games)}"  # of an id such as penalty-100-nostate-v0
            )
        payoff, common = games[payoff], True
    try:
        table = np.array(payoff, np.float64)
    except (TypeError, ValueError):
        table = np.zeros(0)
    num_agents = table.ndim if common else table.ndim - 1
    if num_agents < 2 or not table.size or not (np.abs(table) <= LARGEST).all():
        raise DefinitionError(
            f"payoff is {shown(payoff)}, but it must be the name of a game or a table of finite numbers (float32) with "
            "an axis for each of 2 agents or more"
            f"{'' if common else ', after the axis of the agent whose payoffs these are'}."
        )
    if not common and len(table) != num_agents:
        raise DefinitionError(
            f"payoff has the shape {list(table.shape)}, but without common_payoff the first axis must have the length "
            f"{num_agents}, the number of the axes after it."
        )
    tables: npt.NDArray[np.float64] = np.array([table] * num_agents) if common else table
    return tables
