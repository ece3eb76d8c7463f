"""Boids that fly in a flock on a torus (Reynolds 1987)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.envs.common import parameters
from warpdrive.envs.common.angles import wrapped
from warpdrive.envs.flock import reference
from warpdrive.errors import DefinitionError

ZERO, HALF, ONE, TWO = np.float32(0), np.float32(0.5), np.float32(1), np.float32(2)
PI = np.float32(np.pi)
INFINITY = np.float32(np.inf)
HEADING_COLOURS = np.array(
    [getattr(wd.draw, name) for name in ["RED", "ORANGE", "YELLOW", "GREEN", "SKY", "BLUE", "PURPLE"]], np.int32
)
"""Colours of headings, from the x-axis counterclockwise."""
BATCH = 16
"""Number of boids whose distances are compared with a threshold before any of them is inserted into a list."""


@wd.device_function
def shortest(difference, world_size):
    """Return the signed shortest distance on the torus for the difference of two coordinates."""
    half = HALF * world_size
    if difference > half:
        difference -= world_size
    elif difference < -half:
        difference += world_size
    return difference


@wd.device_function
def squared_distance_to(dx, dy, world_size):
    """Return the squared distance on the torus of two points with the differences ``dx`` and ``dy``."""
    dx, dy = abs(dx), abs(dy)
    dx, dy = min(dx, world_size - dx), min(dy, world_size - dy)
    return dx * dx + dy * dy


@wd.device_function
def find_neighbours(neighbours, nearest, distances, env, agent, loc_x, loc_y, num_agents, num_neighbours, world_size):
    """Update the list of the nearest neighbours of a boid; ties are resolved in favour of the lower id.

    The distance of the farthest of the former neighbours is an upper bound from the start. Batches of boids are
    compared with it in a loop without branches, which CPUs vectorise; the boids of the few batches with a nearer one
    are inserted one by one into a sorted list, which is unrolled and stays in registers. On GPUs all threads of a warp
    read the same position.

    Args:
        neighbours: ``[num_envs, num_agents, num_neighbours]`` int32, ids of distinct other boids; updated.
        nearest: ``[num_neighbours]`` int32, local memory.
        distances: ``[num_neighbours]`` float32, local memory.
        env: Index of the replica.
        agent: Index of the boid.
        loc_x: ``[num_envs, num_agents]`` float32, horizontal positions.
        loc_y: Vertical positions, likewise.
        num_agents: Number of boids.
        num_neighbours: Length of the list.
        world_size: Side of the torus.
    """
    x, y = loc_x[env, agent], loc_y[env, agent]
    farthest = ZERO
    for k in range(num_neighbours):
        former = neighbours[env, agent, k]
        squared = squared_distance_to(loc_x[env, former] - x, loc_y[env, former] - y, world_size)
        farthest = max(farthest, squared)
        nearest[k] = agent
        distances[k] = INFINITY
    for batch in range((num_agents + BATCH - 1) // BATCH):
        first = batch * BATCH
        last = min(first + BATCH, num_agents)
        near = np.int32(0)
        if last - first == BATCH:  # a constant number of iterations, which is vectorised
            for i in range(BATCH):
                squared = squared_distance_to(loc_x[env, first + i] - x, loc_y[env, first + i] - y, world_size)
                near |= np.int32(1) if squared <= farthest else np.int32(0)
        else:
            near = np.int32(1)
        if near != 0:
            for other in range(first, last):
                squared = squared_distance_to(loc_x[env, other] - x, loc_y[env, other] - y, world_size)
                if squared <= farthest and other != agent:
                    distance_before = ZERO
                    nearest_before = np.int32(other)
                    for k in range(num_neighbours):
                        distance_here = distances[k]
                        nearest_here = nearest[k]
                        distances[k] = min(distance_here, max(distance_before, squared))
                        nearest[k] = (
                            (nearest_before if squared < distance_before else np.int32(other))
                            if squared < distance_here
                            else nearest_here
                        )
                        distance_before = distance_here
                        nearest_before = nearest_here
                    farthest = min(farthest, distances[num_neighbours - 1])
    for k in range(num_neighbours):
        neighbours[env, agent, k] = nearest[k]


@wd.kernel
def reset(
    # state
    loc_x, loc_y, direction, speed, neighbours,
    # random stream
    rng,
    # constants
    num_agents, num_neighbours, world_size, min_speed, max_speed,
):  # fmt: skip
    """Sample positions, directions and speeds."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    nearest = cuda.local.array(num_neighbours, np.int32)
    distances = cuda.local.array(num_neighbours, np.float32)
    u, v, w, z = wd.random.four_uniforms(rng, env, agent)
    loc_x[env, agent], loc_y[env, agent] = u * world_size, v * world_size
    direction[env, agent] = (TWO * w - ONE) * PI
    speed[env, agent] = min_speed + z * (max_speed - min_speed)
    cuda.syncthreads()

    find_neighbours(
        neighbours, nearest, distances, env, agent, loc_x, loc_y, num_agents, num_neighbours, world_size
    )  # fmt: skip


@wd.kernel
def step(
    # state
    loc_x, loc_y, direction, speed, neighbours,
    # actions
    actions,
    # constants
    num_agents, num_neighbours, world_size, max_turn, max_acceleration, min_speed, max_speed, inverse_radius,
    inverse_separation, cohesion_scale, alignment_scale, separation_scale,
    # out
    rewards,
):  # fmt: skip
    """Move all boids; then find the nearest neighbours of each, and compute its reward from them."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    nearest = cuda.local.array(num_neighbours, np.int32)
    distances = cuda.local.array(num_neighbours, np.float32)
    turn = min(max(actions[env, agent, 0], -ONE), ONE) * max_turn
    acceleration = min(max(actions[env, agent, 1], -ONE), ONE) * max_acceleration
    heading = wrapped(direction[env, agent] + turn)
    pace = min(max(speed[env, agent] + acceleration, min_speed), max_speed)
    x = loc_x[env, agent] + pace * wd.math.cos(heading)
    y = loc_y[env, agent] + pace * wd.math.sin(heading)
    x += world_size if x < ZERO else ZERO
    y += world_size if y < ZERO else ZERO
    x -= world_size if x >= world_size else ZERO
    y -= world_size if y >= world_size else ZERO
    loc_x[env, agent], loc_y[env, agent] = x, y
    direction[env, agent], speed[env, agent] = heading, pace
    cuda.syncthreads()

    find_neighbours(
        neighbours, nearest, distances, env, agent, loc_x, loc_y, num_agents, num_neighbours, world_size
    )  # fmt: skip
    cohesion, alignment, separation = ZERO, ZERO, ZERO
    for k in range(num_neighbours):
        other = neighbours[env, agent, k]
        dx = shortest(loc_x[env, other] - loc_x[env, agent], world_size)
        dy = shortest(loc_y[env, other] - loc_y[env, agent], world_size)
        distance = wd.math.sqrt(dx * dx + dy * dy)
        crowding = max(ONE - distance * inverse_separation, ZERO)
        cohesion += max(ONE - distance * inverse_radius, ZERO)
        alignment += wd.math.cos(direction[env, other] - direction[env, agent])
        separation += crowding * crowding
    rewards[env, agent] = cohesion_scale * cohesion + alignment_scale * alignment - separation_scale * separation


@wd.kernel
def observe(
    # state
    loc_x, loc_y, direction, speed, neighbours,
    # constants
    num_neighbours, world_size, radius, inverse_max_speed,
    # out
    observations,
):  # fmt: skip
    """Write the offset and relative velocity of each neighbour in the frame of the boid, and the boid's speed."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    heading, pace = direction[env, agent], speed[env, agent]
    cosine, sine = wd.math.cos(heading), wd.math.sin(heading)
    for k in range(num_neighbours):
        other = neighbours[env, agent, k]
        dx = shortest(loc_x[env, other] - loc_x[env, agent], world_size)
        dy = shortest(loc_y[env, other] - loc_y[env, agent], world_size)
        scale = ONE / max(wd.math.sqrt(dx * dx + dy * dy), radius)
        turn = direction[env, other] - heading
        observations[env, agent, 4 * k] = (dx * cosine + dy * sine) * scale
        observations[env, agent, 4 * k + 1] = (dy * cosine - dx * sine) * scale
        observations[env, agent, 4 * k + 2] = (speed[env, other] * wd.math.cos(turn) - pace) * inverse_max_speed
        observations[env, agent, 4 * k + 3] = speed[env, other] * wd.math.sin(turn) * inverse_max_speed
    observations[env, agent, 4 * num_neighbours] = pace * inverse_max_speed


@wd.kernel
def draw(shapes, loc_x, loc_y, direction, heading_colours, boid_length):
    """Draw a boid as an arrowhead in the colour of its heading."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    share = direction[env, agent] / (TWO * PI) + ONE  # of a turn, from 0.5 to 1.5
    colour = heading_colours[int(share * len(heading_colours)) % len(heading_colours)]
    wd.draw.triangle(shapes, 0, loc_x[env, agent], loc_y[env, agent], boid_length, direction[env, agent], colour)
    wd.draw.trail(shapes, 0, 8)


class Flock(wd.Environment):
    """Fly in a flock: stay close to the nearest neighbours, head where they head, and keep a distance.

    ## Description

    Boids fly on a torus of side L = `world_size` at a bounded speed. Each observes its K = `num_neighbours` nearest
    neighbours and is rewarded for cohesion, alignment and separation, the three rules of Reynolds (1987). The
    neighbours are a fixed number of the nearest boids rather than all within a distance, as in flocks of starlings
    (Ballerini et al. 2008). All boids share the policy tag `boid`. Observations are relative and do not depend on the
    number of boids, so a policy trained with a few of them flies thousands.

    In each step every boid changes its speed v and its direction d, and moves:

        d = d + turn * max_turn, wrapped to [-pi, pi]
        v = clip(v + acceleration * max_acceleration, min_speed, max_speed)
        x = (x + v cos(d)) mod L
        y = (y + v sin(d)) mod L

    Distances are those on the torus, the shortest way around it. The neighbours are those after all boids have moved,
    in ascending order of distance, the lowest id first on ties.

    `warpdrive train flock` trains 64 boids at the density of the 1000 of the default arguments. The return rises from
    84 of random actions to 300 or more in each of three runs (`python benchmarks/targets.py --only flock`).

    The search for neighbours, which compares every boid with every other one, dominates a step. `warpdrive check flock`
    interprets each comparison, and checks 16 boids unless it is given parameters.

    ## Action Space

    `Box` of shape `(2,)`, stored as `actions[env, agent, index]` (float32) and clipped to the bounds.

    | Index | Action | Min | Max |
    | --- | --- | --- | --- |
    | 0 | turn to the left, in multiples of `max_turn` | -1 | 1 |
    | 1 | acceleration, in multiples of `max_acceleration` | -1 | 1 |

    ## Observation Space

    `Box` of shape `(4 K + 1,)`, float32; `(29,)` by default. Directions are those of the boid's own frame.

    | Index | Observation | Min | Max |
    | --- | --- | --- | --- |
    | 4 k | offset of the k-th neighbour ahead / max(distance, `radius`) | -inf | inf |
    | 4 k + 1 | its offset to the left / max(distance, `radius`) | -inf | inf |
    | 4 k + 2 | its velocity ahead, relative to the boid / `max_speed` | -inf | inf |
    | 4 k + 3 | its velocity to the left / `max_speed` | -inf | inf |
    | 4 K | own speed / `max_speed` | -inf | inf |

    ## Rewards

    The mean over the K neighbours, at distance r and in direction d', of

        cohesion_weight * max(1 - r / radius, 0)
        + alignment_weight * cos(d' - d)
        - separation_weight * max(1 - r / separation_distance, 0) ** 2

    The mean of the second term is 1 where all head in the same direction, as the order parameter of Vicsek et al.
    (1995).

    ## Starting State

    Positions are uniform on the torus, directions in [-pi, pi), speeds in [`min_speed`, `max_speed`), all drawn on the
    device.

    ## Episode End

    - Termination: never.
    - Truncation: after `episode_length` steps.

    ## Arguments

    Args:
        num_boids: Number of boids, 2 or more.
        num_neighbours: Number K of neighbours observed, 1 or more, less than `num_boids`.
        world_size: Side L of the torus, greater than 0. A side proportional to the square root of the number of boids
            keeps their density constant.
        max_turn: Maximum turn in a step, in radians, from 0 to pi.
        max_acceleration: Maximum change of the speed in a step, 0 or more.
        min_speed: Minimum speed, the distance travelled in a step, 0 or more.
        max_speed: Maximum speed, greater than 0, at least `min_speed` and at most L.
        radius: Distance beyond which neighbours add nothing to cohesion, greater than 0.
        separation_distance: Distance below which neighbours are too close, greater than 0.
        cohesion_weight: Weight of cohesion in the reward, 0 or more.
        alignment_weight: Weight of alignment, 0 or more.
        separation_weight: Weight of separation, 0 or more.
        episode_length: Number of steps after which an episode is truncated, 1 or more.

    Raises:
        DefinitionError: If an argument has the wrong type or is out of range.

    ## References

    - C. W. Reynolds (1987), "Flocks, herds, and schools: A distributed behavioral model", SIGGRAPH.
    - T. Vicsek et al. (1995), "Novel type of phase transition in a system of self-driven particles", Physical Review
      Letters 75.
    - M. Ballerini et al. (2008), "Interaction ruling animal collective behavior depends on topological rather than
      metric distance", PNAS 105.

    `envs/flock/reference.py` has the same step in NumPy; see the
    [agreement with reference implementations](index.md#agreement-with-reference-implementations).
    """

    name = "flock"
    parity: ClassVar[Mapping[str, Any]] = {"title": "a reference in NumPy", "tolerance": 1e-5}
    check_parameters: ClassVar[Mapping[str, Any]] = {"num_boids": 16, "world_size": 8.0}
    step, observe, reset, draw = step, observe, reset, draw
    reference_step, reference_observe = reference.step, reference.observe
    heading_colours = HEADING_COLOURS
    cuda_twins: ClassVar[Mapping[str, wd.CudaKernel]] = {
        name: wd.cuda_kernel("flock.cu", name) for name in ("step", "observe", "reset")
    }

    def __init__(
        self,
        num_boids: int = 1000,
        num_neighbours: int = 7,
        world_size: float = 60.0,
        max_turn: float = 0.3,
        max_acceleration: float = 0.05,
        min_speed: float = 0.1,
        max_speed: float = 0.3,
        radius: float = 4.0,
        separation_distance: float = 1.0,
        cohesion_weight: float = 1.0,
        alignment_weight: float = 1.0,
        separation_weight: float = 4.0,
        episode_length: int = 200,
    ) -> None:
        real, whole = parameters.real, parameters.whole
        self.num_agents = self.num_boids = whole("num_boids", num_boids, at_least=2)
        self.num_neighbours = whole("num_neighbours", num_neighbours, at_least=1, at_most=self.num_boids - 1)
        self.world_size = real("world_size", world_size, above=0)
        self.max_turn = real("max_turn", max_turn, at_least=0, at_most=np.pi)
        self.max_acceleration = real("max_acceleration", max_acceleration, at_least=0)
        self.min_speed = real("min_speed", min_speed, at_least=0)
        self.max_speed = real("max_speed", max_speed, above=0, at_most=self.world_size)
        if self.min_speed > self.max_speed:
            raise DefinitionError(f"min_speed is {min_speed:g}, but max_speed is only {max_speed:g}.")
        self.radius = real("radius", radius, above=0)
        self.separation_distance = real("separation_distance", separation_distance, above=0)
        self.cohesion_weight = real("cohesion_weight", cohesion_weight, at_least=0)
        self.alignment_weight = real("alignment_weight", alignment_weight, at_least=0)
        self.separation_weight = real("separation_weight", separation_weight, at_least=0)
        self.episode_length = whole("episode_length", episode_length, at_least=1)

        self.inverse_radius, self.inverse_separation = 1 / self.radius, 1 / self.separation_distance
        self.inverse_max_speed = 1 / self.max_speed
        self.cohesion_scale = self.cohesion_weight / self.num_neighbours
        self.alignment_scale = self.alignment_weight / self.num_neighbours
        self.separation_scale = self.separation_weight / self.num_neighbours

        self.view = (0.0, self.world_size, 0.0, self.world_size)
        self.boid_length = max(0.9 * self.separation_distance, self.world_size / 80)
        self.policy_tags = {"boid": range(self.num_boids)}
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.controls = {"left": {0: 1.0}, "right": {0: -1.0}, "up": {1: 1.0}, "down": {1: -1.0}}
        self.observation_space = spaces.Box(-np.inf, np.inf, (4 * self.num_neighbours + 1,), np.float32)

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        """Return all boids at the origin; ``reset`` draws their state on the device.

        Per boid: ``loc_x``, ``loc_y``, ``direction``, ``speed`` (float32), and ``neighbours`` (``[num_neighbours]``
        int32), ids of distinct other boids, from the nearest to the farthest.
        """
        n, k = self.num_boids, self.num_neighbours
        zeros = np.zeros(n, np.float32)
        return {
            **dict.fromkeys(("loc_x", "loc_y", "direction"), zeros),
            "speed": np.full(n, self.min_speed, np.float32),
            "neighbours": ((np.arange(n)[:, None] + 1 + np.arange(k)) % n).astype(np.int32),
        }
