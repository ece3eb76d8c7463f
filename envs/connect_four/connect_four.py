"""Connect Four: two players drop discs into columns, in turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.envs.common import drawing, parameters
from warpdrive.envs.connect_four import reference
from warpdrive.scene.scene import Scene

PLAYERS = ("red", "yellow")
STARTS = ("random", *PLAYERS)
RADIUS = 0.4


@wd.device_function
def discs_in_line(discs, env, player, row, column, down, right, rows, columns, connect):
    """Return the number of consecutive discs of the player beyond a cell in a direction, at most ``connect - 1``."""
    count = 0
    for i in range(1, connect):
        y, x = row + i * down, column + i * right
        if not (0 <= y < rows and 0 <= x < columns) or discs[env, player, y, x] == 0:
            break
        count += 1
    return count


@wd.device_function
def is_connected(discs, env, player, row, column, rows, columns, connect):
    """Return True if the disc in a cell is one of ``connect`` in a line."""
    for direction in range(4):
        down, right = min(direction, 1), min(2 - direction, 1)  # (0, 1), (1, 1), (1, 0), (1, -1)
        line = 1 + discs_in_line(discs, env, player, row, column, down, right, rows, columns, connect)
        line += discs_in_line(discs, env, player, row, column, -down, -right, rows, columns, connect)
        if line >= connect:
            return True
    return False


@wd.kernel
def step(
    # state
    discs, height, active,
    # actions
    actions,
    # constants
    rows, columns, connect,
    # out
    rewards, terminated,
):  # fmt: skip
    """Drop the disc of the player whose turn it is; a move into a full column loses the game."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if active[env, agent]:
        column = actions[env, agent]
        row = rows - 1 - height[env, column]
        outcome = -1
        if row >= 0:
            discs[env, agent, row, column] = 1
            height[env, column] += 1
            outcome = 1 if is_connected(discs, env, agent, row, column, rows, columns, connect) else 0
        rewards[env, agent], rewards[env, 1 - agent] = outcome, -outcome
        is_full = True
        for other in range(columns):
            is_full = is_full and height[env, other] >= rows
        terminated[env] = outcome != 0 or is_full
    active[env, agent] = not active[env, agent]


@wd.kernel
def observe(discs, height, rows, columns, observations, action_mask):
    """Write the discs of the player and those of the opponent, and the columns that are not full."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for channel in range(2):
        for row in range(rows):
            for column in range(columns):
                observations[env, agent, channel, row, column] = discs[env, agent ^ channel, row, column]
    for column in range(columns):
        action_mask[env, agent, column] = height[env, column] < rows


@wd.kernel
def reset(active, rng):
    """Select the starting player."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if agent == 0:
        active[env, 0] = wd.random.integer(rng, env, 0, 2) == 0
        active[env, 1] = not active[env, 0]


@wd.kernel
def draw(shapes, active, rows):
    """Draw a disc of the player above the board, larger if it is its turn."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    radius = 0.35 if active[env, agent] else 0.15
    wd.draw.circle(shapes, 0, agent, rows, radius, wd.draw.RED if agent == 0 else wd.draw.YELLOW)


@wd.kernel
def draw_things(things, discs, rows, columns):
    """Draw the discs on the board."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    colour = wd.draw.RED if agent == 0 else wd.draw.YELLOW
    for cell in range(rows * columns):
        row, column = cell // columns, cell % columns
        if discs[env, agent, row, column] > 0:
            wd.draw.circle(things, cell, column, rows - 1 - row, RADIUS, colour)


class ConnectFour(wd.Environment):
    """Drop discs into columns, in turns with an opponent, and connect four of them in a line.

    ## Description

    The player whose turn it is chooses a column, and its disc falls to the lowest free cell. The first player with four
    discs in a row, column or diagonal wins; if the board is full before, the game is a draw. On the usual board of
    6 x 7 cells the starting player can always win (Allis 1988).

    Agent 0 is the player `red`, agent 1 is `yellow`. Both have the same spaces and observe the board from their own
    perspective, so that one policy can play both, also against past versions of itself
    ([self-play](../guides/self_play.md)). The rules are those of `connect_four_v3` of PettingZoo and of `connect_four`
    of pgx. Other sizes are other games: `rows=columns=connect=3` is tic-tac-toe with gravity.

    The game is turn-based: the array `active` marks the player to move, and steps in which a player is inactive are
    excluded from its training ([inactive agents](../reference/algorithms/index.md#inactive-agents)). The action of the
    other player has no effect.

    ## Action Space

    `Discrete(columns)`, stored as `actions[env, agent]` (int32): the column, from the left. `action_mask` excludes full
    columns.

    ## Observation Space

    `Box` of shape `(2, rows, columns)`, uint8; rows are from the top.

    | Channel | Observation | Min | Max |
    | --- | --- | --- | --- |
    | 0 | 1 where the player has a disc | 0 | 1 |
    | 1 | 1 where the opponent has a disc | 0 | 1 |

    ## Rewards

    1 for a win and -1 for a loss, otherwise 0; their sum is always 0. A move into a full column, which the mask
    excludes, loses the game, as in pgx; in PettingZoo the opponent gets 0.

    ## Starting State

    The board is empty. The starting player is random, unless `starts` names it.

    ## Episode End

    - Termination: if a player has won, or if the board is full.
    - Truncation: never.

    ## Arguments

    Args:
        rows: Height of the board, 1 or more.
        columns: Width of the board, 1 or more, or 2 with a single row; at most 255 in both directions.
        connect: Number of discs in a line that wins, from 2 to the longer side of the board.
        starts: Starting player: `"red"`, `"yellow"`, or `"random"` for either with probability 0.5.

    Raises:
        DefinitionError: If an argument has the wrong type or is out of range.

    ## References

    - V. Allis (1988), "A knowledge-based approach of Connect-Four", Vrije Universiteit Amsterdam.
    - J. Terry et al. (2021), "PettingZoo: Gym for multi-agent reinforcement learning", NeurIPS.
    - S. Koyamada et al. (2023), "Pgx: hardware-accelerated parallel game simulators for reinforcement learning",
      NeurIPS.

    `envs/connect_four/reference.py` has the same step in NumPy.
    """

    name = "connect_four"
    parity: ClassVar[Mapping[str, Any]] = {"title": "a reference in NumPy", "tolerance": 0.0}
    termination_meaning = "the game was over"
    turn_based = True
    step, observe, draw, draw_things = step, observe, draw, draw_things
    reference_step, reference_observe = reference.step, reference.observe
    global_state = ("discs", "active")

    def __init__(self, rows: int = 6, columns: int = 7, connect: int = 4, starts: str = "random") -> None:
        self.rows = parameters.whole("rows", rows, at_least=1, at_most=255)
        fewest = 1 if self.rows > 1 else 2  # a single cell has no line
        self.columns = parameters.whole("columns", columns, at_least=fewest, at_most=255)
        self.connect = parameters.whole("connect", connect, at_least=2, at_most=max(self.rows, self.columns))
        self.starts = parameters.one_of("starts", starts, STARTS)
        self.reset = reset if self.starts == "random" else None
        self.num_agents = 2
        self.policy_tags = {name: [agent] for agent, name in enumerate(PLAYERS)}
        self.episode_length = self.rows * self.columns + 1  # which no game reaches
        self.observation_space = spaces.Box(0, 1, (2, self.rows, self.columns), np.uint8)
        self.action_space = spaces.Discrete(self.columns)
        self.things_per_agent = self.rows * self.columns
        self.view = (-0.6, self.columns - 0.4, -0.6, self.rows + 0.6)
        digits = {str(column + 1): column for column in range(min(self.columns, 9))}
        self.controls = {"": None, **digits}

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        """Return the empty board.

        ``discs``: ``[2, rows, columns]`` uint8, 1 where a player has a disc; ``height``: ``[columns]`` uint8, the discs
        in each column; ``active``: ``[2]`` bool, True for the player whose turn it is.
        """
        return {
            "discs": np.zeros((2, self.rows, self.columns), np.uint8),
            "height": np.zeros(self.columns, np.uint8),
            "active": np.array([self.starts != "yellow", self.starts == "yellow"]),
        }

    def scenery(self, state: dict[str, Any]) -> Scene:
        """Return the board, with empty cells."""
        board = drawing.box(-0.5, self.columns - 0.5, -0.5, self.rows - 0.5, wd.draw.BLUE)
        cells = [
            drawing.disc(float(x), float(y), RADIUS, wd.draw.GROUND)
            for x in range(self.columns)
            for y in range(self.rows)
        ]
        return Scene(self.view, polygons=[board, *cells])
