"""Robots carry requested shelves of a warehouse to its goals (``Warehouse`` of the package ``rware``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.envs.common import drawing, parameters
from warpdrive.envs.rware import reference
from warpdrive.envs.rware.cells import GOAL, LOADED, OUTSIDE, REQUESTED, ROBOT_BIT, ROBOTS, SHELF, SHELVES, robot_code
from warpdrive.envs.rware.collisions import NOBODY, cell_hashes, comes_first, slots_of_set
from warpdrive.envs.rware.layout import LARGEST, from_sizes, from_text
from warpdrive.envs.rware.observations import (
    IMAGE_LAYERS,
    SEEN,
    observe_dict,
    observe_dict_with_messages,
    observe_flattened,
    observe_flattened_with_messages,
    observe_image,
    observe_image_dict,
    seen_of_cells,
    values_of_layers,
)
from warpdrive.errors import DefinitionError, shown
from warpdrive.scene.scene import Scene

ZERO, HALF, ONE = np.float32(0), np.float32(0.5), np.float32(1)
NONE, FORWARD, LEFT, RIGHT, TOGGLE = range(5)
HEADINGS = ("UP", "DOWN", "LEFT", "RIGHT")
REWARD_TYPES = ("global", "individual", "two_stage")
GLOBAL, INDIVIDUAL, TWO_STAGE = range(3)
OBSERVATION_TYPES = ("dict", "flattened", "image", "image_dict")
DEFAULT_LAYERS = ("shelves", "requests", "agents", "goals", "accessible")
TURN_LEFT, TURN_RIGHT = np.array([2, 3, 1, 0], np.int32), np.array([3, 2, 0, 1], np.int32)
STEP_Y, STEP_X = np.array([-1, 1, 0, 0], np.int32), np.array([0, 0, -1, 1], np.int32)
ANGLES = np.array([0.5 * np.pi, -0.5 * np.pi, np.pi, 0.0], np.float32)


@wd.device_function
def deliver(
    # indices
    env, goal,
    # state
    loc_y, loc_x, carried, has_delivered, shelf_y, shelf_x, requested, cells,
    # random stream
    rng,
    # constants
    num_agents, num_shelves, request_queue_size, margin, reward_type, goal_y, goal_x,
    # out
    rewards,
):  # fmt: skip
    """Reward the robot that is on a goal, or all, and request another shelf."""
    y, x = goal_y[goal], goal_x[goal]
    for agent in range(num_agents):
        is_there = loc_y[env, agent] == y and loc_x[env, agent] == x
        if is_there:
            old, new = carried[env, agent], carried[env, agent]
            if request_queue_size < num_shelves:
                drawn = wd.random.integer(rng, env, 0, num_shelves - request_queue_size)
                for shelf in range(num_shelves):
                    if not requested[env, shelf]:
                        if drawn == 0:
                            new = shelf
                        drawn -= 1
            requested[env, old] = False
            cells[env, y + margin, x + margin] -= np.uint8(REQUESTED - SHELF)
            requested[env, new] = True
            cells[env, shelf_y[env, new] + margin, shelf_x[env, new] + margin] += np.uint8(REQUESTED - SHELF)
        if reward_type == GLOBAL or (reward_type == INDIVIDUAL and is_there):
            rewards[env, agent] += ONE
        elif reward_type == TWO_STAGE and is_there:
            rewards[env, agent] += HALF
            has_delivered[env, agent] = True


@wd.device_function
def advance(
    # indices
    env, agent, action,
    # state
    loc_y, loc_x, heading, carried, has_delivered, shelf_y, shelf_x, requested, cells, inactive_steps,
    # random stream
    rng,
    # constants
    num_agents, num_shelves, num_goals, num_slots, request_queue_size, rows, columns, margin, max_inactivity_steps,
    reward_type, goal_y, goal_x, highways, cell_hash,
    # out
    rewards, terminated,
):  # fmt: skip
    """Move the robots and resolve collisions, then turn, load and unload, then deliver shelves."""
    here = cuda.shared.array(num_agents, np.int32)
    there = cuda.shared.array(num_agents, np.int32)
    ahead = cuda.shared.array(num_agents, np.int32)
    behind = cuda.shared.array(num_agents, np.int32)
    sinks = cuda.shared.array(num_agents, np.int32)
    first = cuda.shared.array(num_agents, np.bool_)

    y, x, facing, shelf = loc_y[env, agent], loc_x[env, agent], heading[env, agent], carried[env, agent]
    drives = action == FORWARD
    there_y = min(max(y + STEP_Y[facing], 0), rows - 1) if drives else y
    there_x = min(max(x + STEP_X[facing], 0), columns - 1) if drives else x
    cell = np.int32(cells[env, there_y + margin, there_x + margin])
    if shelf >= 0 and (cell & SHELVES) > 0 and (cell >> ROBOT_BIT & ROBOTS) < LOADED:
        there_y, there_x = y, x  # a shelf stands there
    here[agent], there[agent] = y * columns + x, there_y * columns + there_x
    behind[agent] = 0
    cuda.syncthreads()

    wants = there[agent] != here[agent]
    other_ahead, alone = NOBODY, True
    for other in range(num_agents):
        other_ahead = other if here[other] == there[agent] else other_ahead
        alone = alone and (other == agent or there[other] != there[agent])
    ahead[agent] = other_ahead
    moves = wants
    if cuda.syncthreads_or(wants and not (alone and other_ahead < 0)):
        last, length = agent, 0
        sink, in_cycle = NOBODY, False
        walking = wants
        while walking:
            following = ahead[last]
            length += 1
            if following < 0:
                sink, walking = there[last], False
            elif following == last or length > num_agents:
                walking = False
            elif following == agent:
                in_cycle, walking = length > 2, False
            else:
                cuda.atomic.max(behind, following, length)
                last = following
        sinks[agent] = sink
        cuda.syncthreads()

        longest, tied = True, False
        for other in range(num_agents):
            if other != agent and there[other] == there[agent]:
                longest = longest and behind[other] <= behind[agent]
                tied = tied or behind[other] == behind[agent]
        if longest and tied and sink >= 0:
            longest = comes_first(agent, here, there, ahead, behind, sinks, cell_hash, num_agents, num_slots)
        first[agent] = longest
        cuda.syncthreads()

        moves = in_cycle
        if sink >= 0:
            moves, last = first[agent], ahead[agent]
            while moves and last >= 0:
                moves, last = first[last], ahead[last]

    if moves:
        cells[env, y + margin, x + margin] &= np.uint8(GOAL | (0 if shelf >= 0 else SHELVES))
        y, x = there_y, there_x
        loc_y[env, agent], loc_x[env, agent] = y, x
        if shelf >= 0:
            shelf_y[env, shelf], shelf_x[env, shelf] = y, x
    cuda.syncthreads()

    if LEFT <= action <= RIGHT:
        facing = TURN_LEFT[facing] if action == LEFT else TURN_RIGHT[facing]
        heading[env, agent] = facing
    cell = np.int32(cells[env, y + margin, x + margin])
    standing = cell & SHELVES
    if moves and shelf >= 0:
        standing = REQUESTED if requested[env, shelf] else SHELF
    if action == TOGGLE and shelf < 0:
        if standing > 0:
            for i in range(num_shelves):
                shelf = i if shelf_y[env, i] == y and shelf_x[env, i] == x else shelf
            carried[env, agent] = shelf
    elif action == TOGGLE and not highways[y, x]:
        shelf = NOBODY
        carried[env, agent] = NOBODY
        if reward_type == TWO_STAGE and has_delivered[env, agent]:
            rewards[env, agent] += HALF
        has_delivered[env, agent] = False
    cells[env, y + margin, x + margin] = np.uint8((cell & GOAL) | standing | robot_code(facing, shelf >= 0))
    cuda.syncthreads()

    if agent == 0:
        inactive = inactive_steps[env] + 1
        for goal in range(num_goals):
            if (np.int32(cells[env, goal_y[goal] + margin, goal_x[goal] + margin]) & SHELVES) == REQUESTED:
                inactive = 0
                deliver(
                    env, goal, loc_y, loc_x, carried, has_delivered, shelf_y, shelf_x, requested, cells, rng,
                    num_agents, num_shelves, request_queue_size, margin, reward_type, goal_y, goal_x, rewards,
                )  # fmt: skip
        inactive_steps[env] = inactive
        terminated[env] = max_inactivity_steps > 0 and inactive >= max_inactivity_steps


@wd.kernel
def step(
    # state
    loc_y, loc_x, heading, carried, has_delivered, shelf_y, shelf_x, requested, cells, inactive_steps,
    # actions
    actions,
    # random stream
    rng,
    # constants
    num_agents, num_shelves, num_goals, num_slots, request_queue_size, rows, columns, margin, max_inactivity_steps,
    reward_type, goal_y, goal_x, highways, cell_hash,
    # out
    rewards, terminated,
):  # fmt: skip
    """Advance the warehouse by one step."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    advance(
        env, agent, actions[env, agent], loc_y, loc_x, heading, carried, has_delivered, shelf_y, shelf_x, requested,
        cells, inactive_steps, rng, num_agents, num_shelves, num_goals, num_slots, request_queue_size, rows, columns,
        margin, max_inactivity_steps, reward_type, goal_y, goal_x, highways, cell_hash, rewards, terminated,
    )  # fmt: skip


@wd.kernel
def step_with_messages(
    # state
    loc_y, loc_x, heading, carried, has_delivered, messages, shelf_y, shelf_x, requested, cells, inactive_steps,
    # actions
    actions,
    # random stream
    rng,
    # constants
    num_agents, num_shelves, num_goals, num_slots, request_queue_size, rows, columns, margin, max_inactivity_steps,
    reward_type, goal_y, goal_x, highways, cell_hash, msg_bits,
    # out
    rewards, terminated,
):  # fmt: skip
    """Advance the warehouse by one step; the actions after the first one are the message."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for bit in range(msg_bits):
        messages[env, agent, bit] = actions[env, agent, 1 + bit]
    advance(
        env, agent, actions[env, agent, 0], loc_y, loc_x, heading, carried, has_delivered, shelf_y, shelf_x, requested,
        cells, inactive_steps, rng, num_agents, num_shelves, num_goals, num_slots, request_queue_size, rows, columns,
        margin, max_inactivity_steps, reward_type, goal_y, goal_x, highways, cell_hash, rewards, terminated,
    )  # fmt: skip


@wd.kernel
def reset(
    # state
    loc_y, loc_x, heading, shelf_y, shelf_x, requested, cells,
    # random stream
    rng,
    # constants
    num_agents, num_shelves, request_queue_size, rows, columns, margin,
):  # fmt: skip
    """Sample cells and headings of the robots sequentially, then the requested shelves (Floyd's algorithm)."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if agent == 0:
        for robot in range(num_agents):
            y, x, cell = 0, 0, 0
            occupied = True
            while occupied:
                y, x = wd.random.integer(rng, env, 0, rows), wd.random.integer(rng, env, 0, columns)
                cell = np.int32(cells[env, y + margin, x + margin])
                occupied = (cell >> ROBOT_BIT & ROBOTS) > 0
            facing = wd.random.integer(rng, env, 0, 4)
            loc_y[env, robot], loc_x[env, robot], heading[env, robot] = y, x, facing
            cells[env, y + margin, x + margin] = np.uint8(cell | robot_code(facing, False))
        for last in range(num_shelves - request_queue_size, num_shelves):
            shelf = wd.random.integer(rng, env, 0, last + 1)
            if requested[env, shelf]:
                shelf = last
            requested[env, shelf] = True
            cells[env, shelf_y[env, shelf] + margin, shelf_x[env, shelf] + margin] += np.uint8(REQUESTED - SHELF)


@wd.kernel
def draw_shelves(things, shelf_y, shelf_x, carried, requested, rows, num_agents, num_shelves):
    """Draw the standing shelves, requested ones in another colour, distributed over the threads."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for shelf in range(agent, num_shelves, num_agents):
        is_carried = False
        for other in range(num_agents):
            is_carried = is_carried or carried[env, other] == shelf
        if not is_carried:
            colour = wd.draw.ORANGE if requested[env, shelf] else wd.draw.GREY
            x, y = shelf_x[env, shelf], rows - 1 - shelf_y[env, shelf]
            wd.draw.rectangle(things, shelf // num_agents, x, y, 0.86, 0.86, ZERO, colour)


@wd.kernel
def draw(
    shapes,
    # state
    loc_y, loc_x, heading, carried, requested, rewards,
    # constants
    rows,
):  # fmt: skip
    """Draw a robot as a disc with an arrowhead, on top of the outlined shelf it carries; with a ring if rewarded."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    x, y, shelf = loc_x[env, agent], rows - 1 - loc_y[env, agent], carried[env, agent]
    if shelf >= 0:
        colour = wd.draw.ORANGE if requested[env, shelf] else wd.draw.GREY
        wd.draw.rectangle(shapes, 0, x, y, 0.86, 0.86, ZERO, colour)
        wd.draw.style(shapes, 0, 1.0, wd.draw.INK, 0)
    wd.draw.circle(shapes, 1, x, y, 0.34, wd.draw.BLUE)
    angle = ANGLES[heading[env, agent]]
    wd.draw.triangle(shapes, 2, x, y, 0.4, angle, wd.draw.GROUND)
    if rewards[env, agent] > ZERO:
        wd.draw.circle(shapes, 3, x, y, 0.47, wd.draw.GREEN)
        wd.draw.style(shapes, 3, 1.0, -1, -1)


class MultiRobotWarehouse(wd.Environment):
    """Carry requested shelves of a warehouse to its goals with several robots, and bring them back.

    ## Description

    Robots drive on a grid of shelves and highways. They drive below shelves, lift them and carry them along the
    highways; a robot that carries a shelf cannot pass standing ones. A requested shelf that reaches a goal is
    rewarded, and another one is requested. The robot then has to put its shelf on any free shelf location before it
    can carry another one. Rewards are sparse, and robots block each other's way. The environment is `Warehouse` of
    `rware` 2.0.0, the multi-robot warehouse of the benchmark of Papoudakis et al. (2021), step for step: all numbers
    are equal. All robots share the policy tag `agent`.

    In each step

    1. robots drive to the next cell in their direction, except off the grid, or with a shelf onto a standing one. A
       cell has room for one robot. Of all queues of robots that lead to the same empty cell the longest one moves;
       robots in a cycle of three or more move; all others that drive to an occupied or contested cell stay. Ties
       between queues are resolved as by the original's graph;
    2. robots turn, or lift or put down a shelf;
    3. requested shelves on goals are delivered, goal by goal, and other shelves are requested at random.

    The arguments have the names of those of `Warehouse`; `reward_type`, `observation_type` and
    `image_observation_layers` can also be its enums. Each registered id is available, except those that request more
    shelves than there are, such as `rware-tiny-17ag-easy-v2`, which `rware` cannot reset:

    ```python
    import gymnasium, rware
    import warpdrive as wd

    env = wd.make("rware", **gymnasium.spec("rware-tiny-4ag-hard-v2").kwargs)
    ```

    | Part of an id | Arguments |
    | --- | --- |
    | `tiny`, `small`, `medium`, `large` | `shelf_rows`, `shelf_columns` = 1, 3; 2, 3; 2, 5; 3, 5 |
    | `4ag` | `n_agents=4` |
    | `easy`, none, `hard` | `request_queue_size` = 2 `n_agents`, `n_agents`, `n_agents` // 2 |
    | `img`, `imgdict`, `Nd` | `observation_type` = `"image"`, `"image_dict"`; `image_observation_directional=False` |
    | `2s`, `10h`, `2x3` | `sensor_range=2`, `column_height=10`, `shelf_rows=2` and `shelf_columns=3` |
    | `6req`, `indiv`, `global`, `twostage` | `request_queue_size=6`; `reward_type` |

    The defaults are those of `rware-tiny-2ag-v2`. Differences from `rware`: the time limit truncates the episode, and
    if all shelves are requested a delivered one is requested again (an error in `rware`).

    ## Action Space

    `Discrete(5)`, stored as `actions[env, agent]` (int32). With `msg_bits` it is `MultiDiscrete([5, 2, ..., 2])`; the
    bits after the first number are the message, which nearby robots observe.

    | Action | Meaning |
    | --- | --- |
    | 0 | none |
    | 1 | drive forward |
    | 2 | turn left |
    | 3 | turn right |
    | 4 | lift the shelf, or put it down outside of highways |

    ## Observation Space

    `Box` of shape `(8 + (7 + msg_bits) * cells,)`, float32, with cells = (2 `sensor_range` + 1)^2; `(71,)` by default.

    | Index | Observation | Min | Max |
    | --- | --- | --- | --- |
    | 0, 1 | x, y; from 0 to 1 with `normalised_coordinates` | 0 | columns - 1, rows - 1 |
    | 2 | 1 if the robot carries a shelf | 0 | 1 |
    | 3 to 6 | direction: up, down, left, right | 0 | 1 |
    | 7 | 1 on highways, where shelves cannot be put down | 0 | 1 |
    | 1 for each cell | 1 if a robot is there | 0 | 1 |
    | next 4 | its direction; up if none is there | 0 | 1 |
    | next `msg_bits` | its message | 0 | 1 |
    | next 2 | 1 if a shelf is there, 1 if it is requested | 0 | 1 |

    Cells in sight are those around the robot, its own included, row by row from the upper left; cells outside of the
    grid are empty. Rows are counted downwards.

    `observation_type="dict"` has the same numbers as a `Dict` of integers: `location`, `carrying_shelf`, `direction`,
    `on_highway`, and, with an axis for the cells, `sensors_has_agent`, `sensors_direction`, `sensors_local_message`,
    `sensors_has_shelf` and `sensors_shelf_requested`. As in `rware`, normalised locations are truncated to integers.

    `observation_type="image"` is a `Box` of shape `(layers, width, width)`, float32, width = 2 `sensor_range` + 1, of
    the cells in sight; `"image_dict"` is a `Dict` of that `image` and of 6 `features`: direction, on a highway, with a
    shelf. If `image_observation_directional`, images are rotated such that cells ahead of the robot are in the first
    row.

    | Layer | Observation | Min | Max |
    | --- | --- | --- | --- |
    | `shelves`, `requests` | 1 for cells with a shelf; with a requested one | 0 | 1 |
    | `agents`, `accessible` | 1 for cells with a robot; for cells of the grid without one | 0 | 1 |
    | `goals` | 1 for goals | 0 | 1 |
    | `agent_direction` | 1 to 4 for a robot that faces up, down, left, right | 0 | 4 |
    | `agent_load` | 1 for robots with a shelf | 0 | 1 |

    The last two layers are transposed, as in `rware`: they show a robot at (x, y) in row x and column y, unless that is
    outside of the grid (an error in `rware`).

    ## Rewards

    | `reward_type` | Reward |
    | --- | --- |
    | `individual` | 1 for the robot that delivers a requested shelf |
    | `global` | 1 for all robots |
    | `two_stage` | 0.5 for that robot, and 0.5 when it next puts down a shelf |

    ## Starting State

    Sampled on the device: distinct random cells and random directions of the robots, and `request_queue_size` random
    shelves, which are requested. All shelves are at their initial locations.

    ## Episode End

    - Termination: no shelf was delivered for `max_inactivity_steps` steps.
    - Truncation: after `max_steps` steps.

    ## Arguments

    Args:
        shelf_columns: Number of columns of shelves, odd; each is two shelves wide.
        column_height: Number of shelves in a column, from one highway to the next.
        shelf_rows: Number of rows of columns.
        n_agents: Number of robots, 1 or more, at most one for each cell.
        msg_bits: Number of bits of a message, 0 or more.
        sensor_range: Number of cells in sight in each direction, 0 or more.
        request_queue_size: Number of requested shelves, from 0 to the number of shelves.
        max_inactivity_steps: Number of steps without a delivery after which an episode terminates; None for no limit.
        max_steps: Number of steps after which an episode is truncated; None for no limit.
        reward_type: `individual`, `global` or `two_stage`.
        layout: Warehouse as text, a line for each row, with `x` for shelves, `.` for highways and `g` for goals; it
            replaces `shelf_columns`, `column_height` and `shelf_rows`.
        observation_type: `flattened`, `dict`, `image` or `image_dict`.
        image_observation_layers: Layers of images, in this order.
        image_observation_directional: If True, images are rotated into the direction of the robot.
        normalised_coordinates: If True, coordinates are observed as fractions of the largest ones.

    Raises:
        DefinitionError: If an argument has the wrong type or is out of range.

    ## References

    - G. Papoudakis, F. Christianos, L. Schäfer, S. Albrecht (2021), "Benchmarking multi-agent deep reinforcement
      learning algorithms in cooperative tasks", [arXiv 2006.07869](https://arxiv.org/abs/2006.07869).
    - [rware](https://github.com/semitable/robotic-warehouse).

    `envs/rware/reference.py` has the same step by the class of `rware` itself; see the
    [agreement with reference implementations](index.md#agreement-with-reference-implementations).
    """

    name = "rware"
    original_names: ClassVar[Mapping[str, str]] = {"fast_obs": "observation_type"}
    parity: ClassVar[Mapping[str, Any]] = {
        "reference": reference.Original,
        "title": "Warehouse of rware",
        "tolerance": 0.0,
        "act": reference.deliver_shelves,
    }
    termination_meaning = "no shelf was delivered for too long"
    global_state = ("loc_y", "loc_x", "heading", "carried", "shelf_y", "shelf_x", "requested")
    step, observe, reset, draw = step, observe_flattened, reset, draw
    draw_things = draw_shelves
    shapes_per_agent = 4

    def __init__(
        self,
        shelf_columns: int = 3,
        column_height: int = 8,
        shelf_rows: int = 1,
        n_agents: int = 2,
        msg_bits: int = 0,
        sensor_range: int = 1,
        request_queue_size: int = 2,
        max_inactivity_steps: int | None = None,
        max_steps: int | None = 500,
        reward_type: str = "individual",
        layout: str | None = None,
        observation_type: str = "flattened",
        image_observation_layers: Sequence[str] = DEFAULT_LAYERS,
        image_observation_directional: bool = True,
        normalised_coordinates: bool = False,
    ) -> None:
        whole, flag = parameters.whole, parameters.flag
        self._prepare_grid(
            from_sizes(shelf_columns, column_height, shelf_rows) if layout is None else from_text(layout)
        )
        cells = self.rows * self.columns
        self.num_agents = whole("n_agents", n_agents, at_least=1, at_most=cells)
        self.msg_bits = whole("msg_bits", msg_bits, at_least=0, at_most=LARGEST)
        self.sensor_range = whole("sensor_range", sensor_range, at_least=0, at_most=LARGEST)
        self.request_queue_size = whole("request_queue_size", request_queue_size, 0, self.num_shelves)
        self.max_inactivity_steps = 0
        if max_inactivity_steps is not None:
            self.max_inactivity_steps = whole("max_inactivity_steps", max_inactivity_steps, at_least=1)
        self.episode_length = parameters.LARGEST_INT if max_steps is None else whole("max_steps", max_steps, at_least=1)
        self.reward_type = REWARD_TYPES.index(_choice("reward_type", reward_type, REWARD_TYPES))
        self.observation_type = _choice("observation_type", observation_type, OBSERVATION_TYPES)
        self.directional = flag("image_observation_directional", image_observation_directional)
        self.normalised_coordinates = flag("normalised_coordinates", normalised_coordinates)
        if self.normalised_coordinates and min(self.rows, self.columns) < 2:
            raise DefinitionError(
                f"normalised_coordinates is True, but the grid has {self.rows} x {self.columns} cells: it must have "
                "two rows and two columns or more."
            )
        self.margin, self.width = self.sensor_range, 2 * self.sensor_range + 1
        self.cell_hash = cell_hashes(self.rows, self.columns)
        self.num_slots = slots_of_set(self.num_agents + 1)
        scale = np.float32(1)
        self.scale_y = np.arange(self.rows, dtype=np.float32) / (self.rows - scale if normalised_coordinates else scale)
        self.scale_x = np.arange(self.columns, dtype=np.float32) / (
            self.columns - scale if normalised_coordinates else scale
        )
        self.seen = seen_of_cells()
        self._prepare_layers(image_observation_layers)

        self.policy_tags = {"agent": range(self.num_agents)}
        self.action_space = spaces.MultiDiscrete([5] + [2] * self.msg_bits) if self.msg_bits else spaces.Discrete(5)
        self.things_per_agent = -(-self.num_shelves // self.num_agents)
        controls = {"up": 1, "left": 2, "right": 3, "space": 4}
        self.controls = {key: {0: action} for key, action in controls.items()} if self.msg_bits else controls
        self.step = step_with_messages if self.msg_bits else step
        self.observation_space, self.observe = self._observed()
        self.view = (-0.5, self.columns - 0.5, -0.5, self.rows - 0.5)

    def _prepare_grid(self, kinds: npt.NDArray[np.str_]) -> None:
        """Store the layout, ``[rows, columns]`` of the characters x, . and g."""
        self.rows, self.columns = kinds.shape
        self.highways = kinds != "x"
        goals = np.argwhere(kinds == "g").astype(np.int32)
        self.goal_y, self.goal_x = goals.T.copy()
        self.num_goals = len(goals)
        self.home_y, self.home_x = np.argwhere(~self.highways).astype(np.int32).T.copy()
        self.num_shelves = len(self.home_y)

    def _prepare_layers(self, names: Any) -> None:
        if isinstance(names, str) or not isinstance(names, Sequence) or not names:
            raise DefinitionError(
                f"image_observation_layers is {shown(names)}, but it must be a list of {', '.join(IMAGE_LAYERS)}."
            )
        self.image_layers = [_choice("image_observation_layers", name, IMAGE_LAYERS) for name in names]
        self.num_layers = len(self.image_layers)
        self.is_transposed = np.array([name in ("agent_direction", "agent_load") for name in self.image_layers])
        self.layer_values = values_of_layers()[[IMAGE_LAYERS.index(name) for name in self.image_layers]]

    def _observed(self) -> tuple[spaces.Space[Any], Any]:
        """Return the observation space and its kernel."""
        number = self.width**2
        if self.observation_type == "flattened":
            shape = (8 + number * (SEEN + self.msg_bits),)
            kernel = observe_flattened_with_messages if self.msg_bits else observe_flattened
            return spaces.Box(-np.inf, np.inf, shape, np.float32), kernel
        if self.observation_type == "dict":
            largest = 1 if self.normalised_coordinates else max(self.rows, self.columns)
            parts: dict[str, spaces.Space[Any]] = {
                "location": spaces.Box(0, largest, (2,), np.float32 if self.normalised_coordinates else np.int32),
                "carrying_shelf": _bits(1),
                "direction": spaces.Discrete(4),
                "on_highway": _bits(1),
                "sensors_has_agent": _bits(number),
                "sensors_direction": spaces.MultiDiscrete([4] * number),
                "sensors_has_shelf": _bits(number),
                "sensors_shelf_requested": _bits(number),
            }
            if self.msg_bits:
                parts["sensors_local_message"] = _bits(number, self.msg_bits)
            return spaces.Dict(parts), observe_dict_with_messages if self.msg_bits else observe_dict
        high = np.array([4 if name == "agent_direction" else 1 for name in self.image_layers], np.float32)
        high = np.broadcast_to(high[:, None, None], (self.num_layers, self.width, self.width))
        image = spaces.Box(np.zeros_like(high), high, dtype=np.float32)
        if self.observation_type == "image":
            return image, observe_image
        features = spaces.Box(-np.inf, np.inf, (6,), np.float32)
        return spaces.Dict({"image": image, "features": features}), observe_image_dict

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        """Return a warehouse with all shelves at their locations; ``reset`` draws the start state on the device.

        Per robot: ``loc_y``, ``loc_x``, ``heading`` (0 to 3: up, down, left, right) and ``carried``, the shelf that
        it carries or -1, int32; ``has_delivered``, bool; ``messages`` ``[num_agents, msg_bits]`` int32. Per shelf:
        ``shelf_y``, ``shelf_x``, int32, and ``requested``, bool. ``inactive_steps``: the number of steps since the
        last delivery. ``cells`` ``[rows + 2 * margin, columns + 2 * margin]`` uint8, with a margin of
        ``sensor_range``, has the same as bits: 1 for a shelf or 2 for a requested one; 4 * (1 + heading) for a robot,
        4 * (5 + heading) for one with a shelf; 64 for a goal; 128 outside.
        """
        cells = np.full((self.rows, self.columns), 0, np.uint8)
        cells[self.home_y, self.home_x] = SHELF
        cells[self.goal_y, self.goal_x] = GOAL
        state = {
            **{name: np.zeros(self.num_agents, np.int32) for name in ("loc_y", "loc_x", "heading")},
            "carried": np.full(self.num_agents, NOBODY, np.int32),
            "has_delivered": np.zeros(self.num_agents, bool),
            "shelf_y": self.home_y,
            "shelf_x": self.home_x,
            "requested": np.zeros(self.num_shelves, bool),
            "cells": np.pad(cells, self.margin, constant_values=OUTSIDE),
            "inactive_steps": np.zeros((), np.int32),
        }
        if self.msg_bits:
            state["messages"] = np.zeros((self.num_agents, self.msg_bits), np.int32)
        return state

    def scenery(self, state: dict[str, Any]) -> Scene:
        """Return the shelf locations and the goals."""
        box = drawing.box

        def square(x: int, y: int, half: float, colour: int) -> Any:
            return box(x - half, x + half, self.rows - 1 - y - half, self.rows - 1 - y + half, colour)

        places = [square(x, y, 0.47, wd.draw.PAPER) for y, x in zip(self.home_y, self.home_x, strict=True)]
        goals = [square(x, y, 0.47, wd.draw.GREEN) for y, x in zip(self.goal_y, self.goal_x, strict=True)]
        return Scene(self.view, polygons=[*places, *goals])


def _bits(*shape: int) -> spaces.Box:
    return spaces.Box(0, 1, shape, np.int8)


def _choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """Return the lower-case name of a string or an enum member, if it is one of the choices."""
    text = getattr(value, "name", value)
    return parameters.one_of(name, text.lower() if isinstance(text, str) else value, choices)
