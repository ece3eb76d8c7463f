"""Taggers chase one runner on a grid (a Tag game of WarpDrive, arXiv 2108.13976)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.envs.common import drawing, parameters
from warpdrive.envs.tag_gridworld import reference
from warpdrive.errors import DefinitionError
from warpdrive.scene.scene import Scene

LONGEST_GRID = 2**15 - 1
MOST_CELLS = 25
"""Largest number of cells along a side that are all drawn."""
PI = np.float32(math.pi)


@wd.kernel
def step(
    # state
    loc_x, loc_y,
    # actions
    actions,
    # constants
    move_x, move_y, grid_length, num_taggers, wall_hit_penalty, tag_reward_for_tagger, tag_penalty_for_runner,
    step_cost_for_tagger,
    # out
    rewards, terminated,
):  # fmt: skip
    """Move every agent; once all have moved, check if the runner is tagged, and write the rewards."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    runner = num_taggers

    x = loc_x[env, agent] + move_x[actions[env, agent]]
    y = loc_y[env, agent] + move_y[actions[env, agent]]
    inside_x = min(max(x, 0), grid_length)
    inside_y = min(max(y, 0), grid_length)
    loc_x[env, agent] = inside_x
    loc_y[env, agent] = inside_y
    if inside_x != x or inside_y != y:
        rewards[env, agent] -= wall_hit_penalty
    cuda.syncthreads()

    if agent == runner:
        tagged = False
        for tagger in range(num_taggers):
            if loc_x[env, tagger] == loc_x[env, runner] and loc_y[env, tagger] == loc_y[env, runner]:
                tagged = True
        terminated[env] = tagged
    cuda.syncthreads()

    if agent == runner:
        rewards[env, agent] += -tag_penalty_for_runner if terminated[env] else step_cost_for_tagger
    else:
        rewards[env, agent] += tag_reward_for_tagger if terminated[env] else -step_cost_for_tagger


@wd.kernel
def observe_all(
    # state
    loc_x, loc_y, timestep,
    # constants
    num_agents, num_taggers, location_scale, time_scale,
    # out
    observations,
):  # fmt: skip
    """Write ``observations [4 * num_agents + 1]``: all x, all y, flags of the runner and of the agent, the time."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    runner = num_taggers
    for other in range(num_agents):
        observations[env, agent, other] = np.float32(loc_x[env, other]) * location_scale
        observations[env, agent, num_agents + other] = np.float32(loc_y[env, other]) * location_scale
        observations[env, agent, 2 * num_agents + other] = np.float32(other == runner)
        observations[env, agent, 3 * num_agents + other] = np.float32(other == agent)
    observations[env, agent, 4 * num_agents] = np.float32(timestep[env]) * time_scale


@wd.kernel
def observe_nearest(
    # state
    loc_x, loc_y, timestep,
    # constants
    num_taggers, location_scale, time_scale,
    # out
    observations,
):  # fmt: skip
    """Write ``observations [6]``: own x and y, those of the nearest opponent, a flag of the runner, the time."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    runner = num_taggers
    opponent = runner
    if agent == runner:
        least = 2 * LONGEST_GRID * LONGEST_GRID + 1
        for tagger in range(num_taggers):
            dx = loc_x[env, tagger] - loc_x[env, runner]
            dy = loc_y[env, tagger] - loc_y[env, runner]
            squared_distance = dx * dx + dy * dy
            if squared_distance < least:
                least = squared_distance
                opponent = tagger
    observations[env, agent, 0] = np.float32(loc_x[env, agent]) * location_scale
    observations[env, agent, 1] = np.float32(loc_y[env, agent]) * location_scale
    observations[env, agent, 2] = np.float32(loc_x[env, opponent]) * location_scale
    observations[env, agent, 3] = np.float32(loc_y[env, opponent]) * location_scale
    observations[env, agent, 4] = np.float32(agent == runner)
    observations[env, agent, 5] = np.float32(timestep[env]) * time_scale


@wd.kernel
def draw(shapes, loc_x, loc_y, num_agents, num_taggers, mark_size):
    """Draw taggers as squares, the runner as a disc, agents in the same cell side by side, and the cell of a tag."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    x, y = loc_x[env, agent], loc_y[env, agent]
    before, count = 0, 0
    for other in range(num_agents):
        if loc_x[env, other] == x and loc_y[env, other] == y:
            before += 1 if other < agent else 0
            count += 1
    size, offset = mark_size, 0.0
    if count > 1:
        offset = 0.4 * mark_size
        size = 1.6 * offset * wd.math.sin(PI / count)
    turn = 2.0 * PI * before / count
    mark_x, mark_y = x + offset * wd.math.cos(turn), y + offset * wd.math.sin(turn)
    wd.draw.circle(shapes, 0, x, y, 0.05 * mark_size, wd.draw.RED if agent < num_taggers else wd.draw.BLUE)
    wd.draw.trail(shapes, 0, 20)
    if agent < num_taggers:
        wd.draw.rectangle(shapes, 1, mark_x, mark_y, size, size, 0.0, wd.draw.RED)
    else:
        wd.draw.circle(shapes, 1, mark_x, mark_y, 0.5 * size, wd.draw.BLUE)
        if count > 1:
            wd.draw.circle(shapes, 2, x, y, mark_size, wd.draw.YELLOW)
            wd.draw.style(shapes, 2, 1.0, -1, -1)


class TagGridworld(wd.Environment):
    """Catch a runner on a grid with several taggers, or evade the taggers as the runner.

    ## Description

    Taggers chase one runner over the cells (0, 0) to (L, L) of a grid, L = `grid_length`. Agents `0 .. num_taggers - 1`
    are the taggers (policy tag `tagger`), agent `num_taggers` is the runner (`runner`). All agents move simultaneously,
    and several may occupy one cell. The runner is tagged if a tagger is on its cell after the move.

    ## Action Space

    `Discrete(5)`, stored as `actions[env, agent]` (int32).

    | Action | Meaning |
    | --- | --- |
    | 0 | stay |
    | 1 | move one cell in +x |
    | 2 | move one cell in -x |
    | 3 | move one cell in +y |
    | 4 | move one cell in -y |

    A move across the border ends at the border and costs `wall_hit_penalty`.

    ## Observation Space

    `Box`, float32. With `use_full_observation=True` the shape is `(4 n + 1,)` for n = `num_taggers` + 1 agents:

    | Index | Observation | Min | Max |
    | --- | --- | --- | --- |
    | 0 to n - 1 | x / L of all agents | 0 | 1 |
    | n to 2 n - 1 | y / L of all agents | 0 | 1 |
    | 2 n to 3 n - 1 | 1 for the runner, 0 for taggers | 0 | 1 |
    | 3 n to 4 n - 1 | 1 for the observing agent, 0 for others | 0 | 1 |
    | 4 n | step / `episode_length` | 0 | 1 |

    Otherwise the shape is `(6,)`:

    | Index | Observation | Min | Max |
    | --- | --- | --- | --- |
    | 0, 1 | own x / L, y / L | 0 | 1 |
    | 2, 3 | x / L, y / L of the opponent | 0 | 1 |
    | 4 | 1 for the runner, 0 for taggers | 0 | 1 |
    | 5 | step / `episode_length` | 0 | 1 |

    The opponent of a tagger is the runner; the opponent of the runner is the nearest tagger (the lowest id on ties).

    ## Rewards

    | Event | Tagger | Runner |
    | --- | --- | --- |
    | the runner is tagged | `tag_reward_for_tagger` | -`tag_penalty_for_runner` |
    | the runner is not tagged | -`step_cost_for_tagger` | `step_cost_for_tagger` |
    | a move across the border | -`wall_hit_penalty` | -`wall_hit_penalty` |

    ## Starting State

    The taggers start at (L // 2, L // 2) and the runner at (0, 0), or at `starting_location_x` and
    `starting_location_y`. With `random_starts=True` both coordinates of each tagger are drawn uniformly from 1 to L -
    1.

    ## Episode End

    - Termination: the runner is tagged.
    - Truncation: after `episode_length` steps.

    ## Arguments

    Args:
        num_taggers: Number of taggers, 1 or more.
        grid_length: Largest coordinate L, 1 to 32767: cells are (0, 0) to (L, L).
        episode_length: Number of steps after which an episode is truncated, 1 or more.
        starting_location_x: One x in [0, L] for each agent, or None: taggers at L // 2, the runner at 0.
        starting_location_y: One y in [0, L] for each agent, or None; given together with `starting_location_x` or not
            at all.
        seed: Seed of the single random start state, 0 or more. If None, start states are drawn from the generator
            passed to `initial_state`.
        wall_hit_penalty: Cost of a move across the border, 0 or more.
        tag_reward_for_tagger: Reward of every tagger if the runner is tagged, 0 or more.
        tag_penalty_for_runner: Cost of being tagged, 0 or more.
        step_cost_for_tagger: Cost of a step without a tag for every tagger, and the reward of the runner, 0 or more.
        use_full_observation: If True, agents observe all agents, otherwise themselves and the nearest opponent.
        random_starts: If True, the taggers start at random cells with coordinates from 1 to L - 1 and the runner at 0;
            this requires L >= 2 and no starting locations.

    Raises:
        DefinitionError: If an argument has the wrong type or is out of range, or if arguments contradict each other.

    ## References

    - T. Lan, S. Srinivasa, H. Wang and S. Zheng (2021), "WarpDrive: Extremely fast end-to-end deep multi-agent
      reinforcement learning on a GPU", [arXiv 2108.13976](https://arxiv.org/abs/2108.13976).

    `envs/tag_gridworld/reference.py` has the same step in NumPy; see the
    [agreement with reference implementations](index.md#agreement-with-reference-implementations).
    """

    name = "tag_gridworld"
    parity: ClassVar[Mapping[str, Any]] = {"title": "a reference in NumPy", "tolerance": 1e-6}
    termination_meaning: ClassVar[str] = "the taggers caught the runner"
    step = step
    reference_step, reference_observe = reference.step, reference.observe
    observe = observe_all
    draw, shapes_per_agent = draw, 3
    cuda_twins: ClassVar[Mapping[str, wd.CudaKernel]] = {
        name: wd.cuda_kernel("tag_gridworld.cu", name) for name in ("step", "observe_all", "observe_nearest")
    }

    def __init__(
        self,
        num_taggers: int = 10,
        grid_length: int = 10,
        episode_length: int = 100,
        starting_location_x: Sequence[int] | None = None,
        starting_location_y: Sequence[int] | None = None,
        seed: int | None = None,
        wall_hit_penalty: float = 0.1,
        tag_reward_for_tagger: float = 10.0,
        tag_penalty_for_runner: float = 2.0,
        step_cost_for_tagger: float = 0.01,
        use_full_observation: bool = True,
        random_starts: bool = False,
    ) -> None:
        whole, real, flag = parameters.whole, parameters.real, parameters.flag
        self.num_taggers = whole("num_taggers", num_taggers, at_least=1)
        self.num_agents = self.num_taggers + 1
        self.grid_length = whole("grid_length", grid_length, at_least=1, at_most=LONGEST_GRID)
        self.episode_length = whole("episode_length", episode_length, at_least=1)
        self.seed = parameters.optional_seed("seed", seed)
        self.wall_hit_penalty = real("wall_hit_penalty", wall_hit_penalty, at_least=0)
        self.tag_reward_for_tagger = real("tag_reward_for_tagger", tag_reward_for_tagger, at_least=0)
        self.tag_penalty_for_runner = real("tag_penalty_for_runner", tag_penalty_for_runner, at_least=0)
        self.step_cost_for_tagger = real("step_cost_for_tagger", step_cost_for_tagger, at_least=0)
        self.use_full_observation = flag("use_full_observation", use_full_observation)
        self.random_starts = flag("random_starts", random_starts)
        self._set_starting_locations(starting_location_x, starting_location_y)

        self.policy_tags = {"tagger": range(self.num_taggers), "runner": [self.num_taggers]}
        self.action_space = spaces.Discrete(5)
        self.controls = {"right": 1, "left": 2, "up": 3, "down": 4}
        length = 4 * self.num_agents + 1 if self.use_full_observation else 6
        self.observation_space = spaces.Box(0.0, 1.0, (length,), np.float32)
        self.observe = observe_all if self.use_full_observation else observe_nearest

        self.move_x = np.array([0, 1, -1, 0, 0], np.int32)
        self.move_y = np.array([0, 0, 0, 1, -1], np.int32)
        self.location_scale = 1.0 / self.grid_length
        self.time_scale = 1.0 / self.episode_length
        self.mark_size = max(0.7, self.grid_length / 50)
        margin = max(0.5, 0.6 * self.mark_size)
        self.view = (-margin, self.grid_length + margin, -margin, self.grid_length + margin)

    def _set_starting_locations(self, given_x: Sequence[int] | None, given_y: Sequence[int] | None) -> None:
        n, side, per_agent = self.num_agents, self.grid_length, parameters.per_agent
        self.starting_location_x = per_agent("starting_location_x", given_x, n, np.int32, 0, side)
        self.starting_location_y = per_agent("starting_location_y", given_y, n, np.int32, 0, side)
        if (given_x is None) != (given_y is None):
            missing = "starting_location_x" if given_x is None else "starting_location_y"
            raise DefinitionError(f"{missing} is None, but both starting locations must be given, or neither.")
        if self.random_starts and given_x is not None:
            raise DefinitionError("random_starts is True, but it must be False if starting locations are given.")
        if self.random_starts and side < 2:
            raise DefinitionError(f"grid_length is {side}, but it must be 2 or more if random_starts is True.")

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        """Return a start state: ``loc_x`` and ``loc_y``, each int32 ``[num_agents]``."""
        if self.starting_location_x is not None and self.starting_location_y is not None:
            return {"loc_x": self.starting_location_x.copy(), "loc_y": self.starting_location_y.copy()}
        if self.seed is not None:
            rng = np.random.default_rng(self.seed)
        locations = np.zeros((2, self.num_agents), np.int32)
        locations[:, : self.num_taggers] = (
            rng.integers(1, self.grid_length, (2, self.num_taggers)) if self.random_starts else self.grid_length // 2
        )
        return {"loc_x": locations[0], "loc_y": locations[1]}

    @cached_property
    def _cells(self) -> Scene:
        cells = self.grid_length + 1
        return Scene(self.view, polygons=drawing.grid(-0.5, cells - 0.5, -(-cells // MOST_CELLS), 0.004 * cells))

    def scenery(self, state: dict[str, Any]) -> Scene:
        """Return the lines between the cells, or some of them on a large grid."""
        return self._cells
