"""Physics of the multi-agent particle environments (Lowe et al. 2017; the package ``mpe2``).

Discs move on a plane. The forces on a disc are its agent's action and its contacts. In each step

    position += velocity * time_step
    velocity = velocity * (1 - damping) + force / mass * time_step

Two discs repel each other with a force of ``contact_force * softplus(overlap / margin) * margin``, a smooth version of
``contact_force * max(overlap, 0)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.envs.common import parameters
from warpdrive.envs.particles import original
from warpdrive.kernels.kernel import Kernel

ZERO, ONE, TWO = np.float32(0), np.float32(1), np.float32(2)
NEGLIGIBLE = np.float32(-20)
"""Overlap in margins at which the contact force is below 1e-8 of that at an overlap of one margin."""

MARGIN_BEGINS, MARGIN_SLOPE, MAX_BOUNDARY_PENALTY = np.float32(0.9), np.float32(10), np.float32(10)
THINGS = 3
"""Shapes of a landmark."""
NUM_ACTIONS = 5
"""No-op, left, right, down, up."""


def action_space(continuous: bool, moves: bool = True, words: int = 0) -> spaces.Discrete | spaces.Box:
    """Return the action space of one agent.

    Args:
        continuous: If True, the magnitude of each direction and of each word, from 0 to 1, otherwise one of the five
            directions or one of the words, or both, of which the direction changes first.
        moves: If True, the agent moves.
        words: Number of words that the agent can say; 0 for silent agents.

    Returns:
        The space.
    """
    directions = NUM_ACTIONS if moves else 0
    if continuous:
        return spaces.Box(0.0, 1.0, (directions + words,), np.float32)
    return spaces.Discrete(max(directions, 1) * max(words, 1))


def controls(continuous: bool) -> dict[str, Any]:
    """Return the actions of human players who move an agent, see ``warpdrive.Environment.controls``."""
    directions = {"left": 1, "right": 2, "down": 3, "up": 4}
    return {key: {number: 1.0} for key, number in directions.items()} if continuous else directions


def unbounded(length: int) -> spaces.Box:
    """Return the space of observations of ``length`` numbers."""
    return spaces.Box(-np.inf, np.inf, (length,), np.float32)


def parity_with(name: str) -> dict[str, Any]:
    """Return the settings of ``wd.testing.check_parity`` for the comparison with the class ``name`` of ``mpe2``."""
    return {"title": f"{name} of mpe2", "tolerance": 1e-5, "episode_tolerance": 1e-3}


@wd.kernel
def draw_landmarks(things, landmark_x, landmark_y, landmark_size, landmark_colour, num_agents):
    """Draw the landmarks, distributed over the threads."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for landmark in range(agent, landmark_x.shape[1], num_agents):
        x, y, radius = landmark_x[env, landmark], landmark_y[env, landmark], landmark_size[landmark]
        wd.draw.circle(things, landmark // num_agents, x, y, radius, landmark_colour[landmark])


@wd.kernel
def draw_landmarks_and_goals(things, landmark_x, landmark_y, landmark_size, landmark_colour, goal, num_agents):
    """Draw the landmarks, goals with rings, distributed over the threads."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for landmark in range(agent, landmark_x.shape[1], num_agents):
        x, y, radius = landmark_x[env, landmark], landmark_y[env, landmark], landmark_size[landmark]
        place = THINGS * (landmark // num_agents)
        for i in range(goal.shape[1]):
            if goal[env, i] == landmark:
                wd.draw.circle(things, place, x, y, radius + np.float32(0.07), wd.draw.GREEN)
                wd.draw.style(things, place, 1.0, -1, -2)
                wd.draw.circle(things, place + 1, x, y, radius + np.float32(0.05), wd.draw.GROUND)
                wd.draw.style(things, place + 1, 1.0, -1, -1)
        wd.draw.circle(things, place + 2, x, y, radius, landmark_colour[landmark])


class ParticleWorld(wd.Environment):
    """Base class of environments with discs that move and repel each other; their reference is ``mpe2``."""

    num_landmarks: int
    num_goals = 0
    reference_step, reference_observe = original.step, original.observe  # type: ignore[assignment]

    original_names: ClassVar[Mapping[str, str]] = {  # of mpe2
        "max_cycles": "episode_length",
        "dynamic_rescaling": "It changes the pictures of mpe2 only.",
        "benchmark_data": "It changes the infos of mpe2 only.",
    }

    def _set_physics(
        self,
        *,
        continuous_actions: bool,
        episode_length: int,
        mass: float = 1.0,
        damping: float = 0.25,
        contact_force: float = 100.0,
        contact_margin: float = 0.001,
        time_step: float = 0.1,
        start_range: float = 1.0,
    ) -> None:
        """Validate and store the shared constants, and derive those used by kernels."""
        real = parameters.real
        self.mass = real("mass", mass, above=0)
        self.damping = real("damping", damping, at_least=0, at_most=1)
        self.contact_force = real("contact_force", contact_force, at_least=0)
        self.contact_margin = real("contact_margin", contact_margin, above=0)
        self.time_step = real("time_step", time_step, above=0)
        self.start_range = real("start_range", start_range, above=0)
        self.episode_length = parameters.whole("episode_length", episode_length, at_least=1)
        self.continuous_actions = parameters.flag("continuous_actions", continuous_actions)
        self.kept_velocity = 1 - self.damping
        self.inverse_mass, self.inverse_margin = 1 / self.mass, 1 / self.contact_margin
        self.action_space = action_space(self.continuous_actions)
        self.controls = controls(self.continuous_actions)

    def _set_sight(self, num_agent_neighbors: int | None, num_landmark_neighbors: int | None) -> None:
        """Validate and store the numbers of nearest agents and landmarks that are observed; 0 for all of them."""
        given = {"num_agent_neighbors": num_agent_neighbors, "num_landmark_neighbors": num_landmark_neighbors}
        self.nearest_agents, self.nearest_landmarks = (
            0 if number is None else parameters.whole(name, number, at_least=1) for name, number in given.items()
        )

    def _original_sight(self) -> dict[str, int | None]:
        """Return the arguments of ``mpe2`` for the numbers of nearest agents and landmarks; None for all of them."""
        return {
            "num_agent_neighbors": self.nearest_agents or None,
            "num_landmark_neighbors": self.nearest_landmarks or None,
        }

    def _at_rest(self, thing: str, number: int) -> dict[str, npt.NDArray[np.float32]]:
        """Return all agents at rest at the origin, and ``number`` static objects there."""
        agents, things = np.zeros(self.num_agents, np.float32), np.zeros(number, np.float32)
        names = ("loc_x", "loc_y", "velocity_x", "velocity_y")
        return {**dict.fromkeys(names, agents), **dict.fromkeys((f"{thing}_x", f"{thing}_y"), things)}

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        """Return everything at rest at the origin, float32; ``reset`` draws positions and goals on the device.

        Per agent: ``loc_x``, ``loc_y``, ``velocity_x``, ``velocity_y``. Per landmark: ``landmark_x``, ``landmark_y``.
        Where there are goals, ``goal``: ``[num_goals]`` int32, indices of landmarks.
        """
        goals = {"goal": np.zeros(self.num_goals, np.int32)} if self.num_goals else {}
        return {**self._at_rest("landmark", self.num_landmarks), **goals}

    def original_parameters(self) -> Mapping[str, Any]:
        """Return the arguments of the class of ``mpe2`` other than ``continuous_actions``."""
        return {}

    def adapt_original(self, original: Any) -> None:
        """Give an instance of the class of ``mpe2`` the constants that are not arguments of its constructor."""

    def _share_physics(self, world: Any) -> None:
        """Write the constants of the dynamics into a world of ``mpe2``."""
        world.dt, world.damping = self.time_step, self.damping
        world.contact_force, world.contact_margin = self.contact_force, self.contact_margin
        for agent in world.agents:
            agent.initial_mass = self.mass


class Scenario(ParticleWorld):
    """Base class of environments whose constants are those of ``mpe2``."""

    acceleration: float | npt.NDArray[np.float32] = 5.0
    landmark_colours: Sequence[int] = ()
    """Colours of landmarks in pictures; those that are missing are grey."""
    view = (-1.35, 1.35, -1.35, 1.35)

    size: npt.NDArray[np.float32]
    colour: npt.NDArray[np.int32]
    landmark_size: npt.NDArray[np.float32]
    landmark_colour: npt.NDArray[np.int32]
    draw_things: Kernel | None = draw_landmarks

    def _set_appearance(self, colours: Sequence[int], size: float = 0.05, landmark_size: float = 0.05) -> None:
        """Store the number of agents, the radii and the colours."""
        self.num_agents, self.colour = len(colours), np.array(colours, np.int32)
        self.size = np.full(self.num_agents, size, np.float32)
        self.landmark_size = np.full(self.num_landmarks, landmark_size, np.float32)
        self._set_things()

    def _set_things(self) -> None:
        """Store what the kernel of the landmarks needs."""
        colours = [*self.landmark_colours, *[wd.draw.GREY] * self.num_landmarks][: self.num_landmarks]
        self.landmark_colour = np.array(colours, np.int32)
        self.things_per_agent = max(1, THINGS * -(-self.num_landmarks // self.num_agents))


@wd.device_function
def discrete_push(actions, env, agent):
    """Return the direction of a discrete action.

    Args:
        actions: ``[num_envs, num_agents]`` int32.
        env: Index of the replica.
        agent: Index of the agent.

    Returns:
        The direction (x, y), each -1, 0 or 1 (float32).
    """
    return direction(actions[env, agent])


@wd.device_function
def discrete_push_of_speaker(actions, env, agent):
    """Return the direction of a discrete action that combines a move and a word, see :func:`discrete_push`."""
    return direction(actions[env, agent] % NUM_ACTIONS)


@wd.device_function
def direction(action):
    """Return the direction (x, y) of one of the five actions, each -1, 0 or 1 (float32)."""
    push_x = (ONE if action == 2 else ZERO) - (ONE if action == 1 else ZERO)
    push_y = (ONE if action == 4 else ZERO) - (ONE if action == 3 else ZERO)
    return push_x, push_y


@wd.device_function
def continuous_push(actions, env, agent):
    """Return the direction of a continuous action.

    Args:
        actions: ``[num_envs, num_agents, 5]`` float32.
        env: Index of the replica.
        agent: Index of the agent.

    Returns:
        The direction (x, y), each from -1 to 1 (float32).
    """
    left, right = within_0_and_1(actions[env, agent, 1]), within_0_and_1(actions[env, agent, 2])
    down, up = within_0_and_1(actions[env, agent, 3]), within_0_and_1(actions[env, agent, 4])
    return right - left, up - down


@wd.device_function
def discrete_word(actions, env, agent, directions, word):
    """Return 1 if an agent says the word, 0 otherwise (float32).

    Args:
        actions: ``[num_envs, num_agents]`` int32.
        env: Index of the replica.
        agent: Index of the agent.
        directions: Number of directions in which the agent moves; 0 for agents that only speak.
        word: Index of the word.

    Returns:
        The signal.
    """
    return ONE if actions[env, agent] // max(directions, 1) == word else ZERO


@wd.device_function
def continuous_word(actions, env, agent, directions, word):
    """Return the magnitude of a word from 0 to 1 (float32), with the arguments of :func:`discrete_word`."""
    return within_0_and_1(actions[env, agent, directions + word])


@wd.device_function
def within_0_and_1(x):
    """Clip ``x`` to the range from 0 to 1."""
    return min(max(x, ZERO), ONE)


@wd.device_function
def contact(dx, dy, touching, contact_force, margin, inverse_margin):
    """Return the force (x, y) on a disc at the offset (dx, dy) from another; they touch at the distance ``touching``.

    Pairs that are too far apart to interact, which are most, are rejected by their squared distance. Discs at the same
    position, such as a disc and itself, exert no force: the direction is undefined.

    Args:
        dx: Horizontal offset.
        dy: Vertical offset.
        touching: Sum of both radii.
        contact_force: Force per unit of overlap.
        margin: Width of the smooth transition of the force.
        inverse_margin: ``1 / margin``.

    Returns:
        The force (x, y) (float32).
    """
    squared = dx * dx + dy * dy
    reach = touching - NEGLIGIBLE * margin
    force_x, force_y = ZERO, ZERO
    if ZERO < squared < reach * reach:
        distance = wd.math.sqrt(squared)
        overlap = (touching - distance) * inverse_margin
        softplus = max(overlap, ZERO) + wd.math.log(ONE + wd.math.exp(-abs(overlap)))
        scale = contact_force * margin * softplus / distance
        force_x, force_y = dx * scale, dy * scale
    return force_x, force_y


@wd.device_function
def advance(
    # indices
    env, agent,
    # state
    loc_x, loc_y, velocity_x, velocity_y,
    # force on the agent
    force_x, force_y,
    # constants
    time_step, kept_velocity, inverse_mass,
):  # fmt: skip
    """Move an agent by one step."""
    loc_x[env, agent] += velocity_x[env, agent] * time_step
    loc_y[env, agent] += velocity_y[env, agent] * time_step
    velocity_x[env, agent] = velocity_x[env, agent] * kept_velocity + force_x * inverse_mass * time_step
    velocity_y[env, agent] = velocity_y[env, agent] * kept_velocity + force_y * inverse_mass * time_step


@wd.device_function
def limit_speed(env, agent, velocity_x, velocity_y, largest_speed):
    """Scale the velocity of an agent down to the speed ``largest_speed`` if it is higher."""
    x, y = velocity_x[env, agent], velocity_y[env, agent]
    squared_speed = x * x + y * y
    if squared_speed > largest_speed * largest_speed:
        scale = largest_speed / wd.math.sqrt(squared_speed)
        velocity_x[env, agent], velocity_y[env, agent] = x * scale, y * scale


@wd.device_function
def with_contacts(
    # force so far
    force_x, force_y,
    # indices
    env, agent,
    # state and radii of the agents
    loc_x, loc_y, size,
    # positions, number and radii of the other discs
    other_x, other_y, number, other_size,
    # constants
    contact_force, margin, inverse_margin,
):  # fmt: skip
    """Return the force (x, y) on an agent with the contact forces of ``number`` discs.

    Args:
        force_x: Horizontal force without them.
        force_y: Vertical force without them.
        env: Index of the replica.
        agent: Index of the agent.
        loc_x: ``[num_envs, num_agents]`` float32.
        loc_y: ``[num_envs, num_agents]`` float32.
        size: ``[num_agents]`` float32, radii.
        other_x: ``[num_envs, number]`` float32, the other discs, among which the agent may be.
        other_y: ``[num_envs, number]`` float32.
        number: Number of the other discs.
        other_size: ``[number]`` float32, their radii.
        contact_force: Force per unit of overlap.
        margin: Width of the smooth transition of the force.
        inverse_margin: ``1 / margin``.

    Returns:
        The force (x, y) (float32).
    """
    for other in range(number):
        dx, dy = loc_x[env, agent] - other_x[env, other], loc_y[env, agent] - other_y[env, other]
        touching = size[agent] + other_size[other]
        contact_x, contact_y = contact(dx, dy, touching, contact_force, margin, inverse_margin)
        force_x += contact_x
        force_y += contact_y
    return force_x, force_y


@wd.device_function
def charge_for_leaving(coordinate):
    """Return the penalty for one coordinate: zero inside the square from -1 to 1, increasing beyond 0.9."""
    x = abs(coordinate)
    near_the_edge = max(x - MARGIN_BEGINS, ZERO) * MARGIN_SLOPE
    return near_the_edge if x < ONE else min(wd.math.exp(TWO * x - TWO), MAX_BOUNDARY_PENALTY)


@wd.device_function
def squared_distance(env, i, x, y, j, other_x, other_y):
    """Return the squared distance between the places ``(x, y)[env, i]`` and ``(other_x, other_y)[env, j]``."""
    dx, dy = x[env, i] - other_x[env, j], y[env, i] - other_y[env, j]
    return dx * dx + dy * dy


@wd.device_function
def write(observations, env, row, first, x, y):
    """Write two numbers into a row of observations, and return the index after them."""
    observations[env, row, first] = x
    observations[env, row, first + 1] = y
    return first + 2


@wd.device_function
def write_offsets(observations, env, row, first, x, y, place_x, place_y, number):
    """Write the positions of ``number`` places relative to (x, y), and return the index after them."""
    for i in range(number):
        observations[env, row, first + 2 * i] = place_x[env, i] - x
        observations[env, row, first + 2 * i + 1] = place_y[env, i] - y
    return first + 2 * number


@wd.device_function
def write_others(observations, env, row, first, agent, loc_x, loc_y, num_agents):
    """Write the relative positions of the other agents in id order, and return the index after them."""
    for i in range(num_agents - 1):
        other = i + 1 if i >= agent else i
        observations[env, row, first + 2 * i] = loc_x[env, other] - loc_x[env, agent]
        observations[env, row, first + 2 * i + 1] = loc_y[env, other] - loc_y[env, agent]
    return first + 2 * (num_agents - 1)


@wd.device_function
def write_seen(observations, env, row, first, x, y, itself, place_x, place_y, number, nearest):
    """Write the relative positions of all places in order, or of the nearest ones.

    Args:
        observations: ``[num_envs, rows, length]`` float32, written.
        env: Index of the replica.
        row: Row of the agent.
        first: Index of the first number.
        x: Horizontal position of the agent.
        y: Vertical position of the agent.
        itself: Index of the agent among the places, which is left out; -1 if it is not among them.
        place_x: ``[num_envs, number]`` float32.
        place_y: ``[num_envs, number]`` float32.
        number: Number of places.
        nearest: Number of nearest places, in the order of their distance; 0 for all places in their own order. The
            numbers of places that do not exist stay 0.

    Returns:
        The index after the numbers.
    """
    places = number if itself < 0 else number - 1
    if nearest == 0 and itself < 0:
        write_offsets(observations, env, row, first, x, y, place_x, place_y, number)
    elif nearest == 0:
        write_others(observations, env, row, first, itself, place_x, place_y, number)
    else:
        for i in range(number):
            rank = rank_by_distance(env, i, x, y, itself, place_x, place_y, number)
            if i != itself and rank < nearest:
                write(observations, env, row, first + 2 * rank, place_x[env, i] - x, place_y[env, i] - y)
        places = nearest
    return first + 2 * places


@wd.device_function
def rank_by_distance(env, place, x, y, itself, place_x, place_y, number):
    """Return the number of places that are nearer than ``place``, with the arguments of :func:`write_seen`."""
    dx, dy = place_x[env, place] - x, place_y[env, place] - y
    squared, rank = dx * dx + dy * dy, 0
    for i in range(number):
        dx, dy = place_x[env, i] - x, place_y[env, i] - y
        other = dx * dx + dy * dy
        comes_first = other < squared or (other == squared and i < place)
        rank += 1 if comes_first and i != itself else 0
    return rank


@wd.device_function
def write_colour(observations, env, row, first, goal, low, high):
    """Write the colour of a landmark, ``high`` in its own of three components, and return the index after it."""
    for i in range(3):
        observations[env, row, first + i] = high if i == goal else low
    return first + 3


@wd.device_function
def write_words(observations, env, row, first, communication, speaker, num_words):
    """Write what an agent said, and return the index after it."""
    for word in range(num_words):
        observations[env, row, first + word] = communication[env, speaker, word]
    return first + num_words


@wd.device_function
def random_place(rng, env, agent, largest):
    """Return a place (x, y), each coordinate uniform in [-largest, largest).

    Args:
        rng: ``[num_envs, num_agents, 4]`` uint32, random state.
        env: Index of the replica.
        agent: Index of the agent.
        largest: Half the side of the square.

    Returns:
        The position (x, y) (float32).
    """
    u, v, _, _ = wd.random.four_uniforms(rng, env, agent)
    return (TWO * u - ONE) * largest, (TWO * v - ONE) * largest


@wd.device_function
def random_choice(rng, env, agent, number):
    """Return a uniformly random index below ``number`` (int32), without rejections, which prevent vectorisation."""
    return min(np.int32(wd.random.uniform(rng, env, agent) * np.float32(number)), number - 1)


@wd.kernel
def reset_places(
    # state
    loc_x, loc_y, landmark_x, landmark_y,
    # random stream
    rng,
    # constants
    num_agents, num_landmarks, start_range,
):  # fmt: skip
    """Sample the positions of the agents and the landmarks."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    loc_x[env, agent], loc_y[env, agent] = random_place(rng, env, agent, start_range)
    for i in range(agent, num_landmarks, num_agents):
        landmark_x[env, i], landmark_y[env, i] = random_place(rng, env, agent, start_range)


@wd.kernel
def reset_places_and_goals(
    # state
    loc_x, loc_y, landmark_x, landmark_y, goal,
    # random stream
    rng,
    # constants
    num_agents, num_landmarks, num_goals, start_range,
):  # fmt: skip
    """Sample the positions of the agents and the landmarks, and the landmarks that are goals."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    loc_x[env, agent], loc_y[env, agent] = random_place(rng, env, agent, start_range)
    for i in range(agent, num_landmarks, num_agents):
        landmark_x[env, i], landmark_y[env, i] = random_place(rng, env, agent, start_range)
    for i in range(agent, num_goals, num_agents):
        goal[env, i] = random_choice(rng, env, agent, num_landmarks)


@wd.kernel
def draw(shapes, loc_x, loc_y, size, colour):
    """Draw an agent as a disc with a trail."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    wd.draw.circle(shapes, 0, loc_x[env, agent], loc_y[env, agent], size[agent], colour[agent])
    wd.draw.trail(shapes, 0, 12)


@wd.device_function
def draw_word(shapes, index, x, y, communication, size, colour):
    """Write the word of an agent with the largest magnitude around (x, y), if there is one.

    Args:
        shapes: The parameter of the kernel.
        index: Index of the shape.
        x: x coordinate.
        y: y coordinate.
        communication: ``[num_envs, speakers, words]`` float32; speakers are the first agents.
        size: Height of the digits.
        colour: Colour.
    """
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if agent < communication.shape[1]:
        loudest, speaks = np.int32(0), False
        for word in range(communication.shape[2]):
            speaks = speaks or communication[env, agent, word] != ZERO
            if communication[env, agent, word] > communication[env, agent, loudest]:
                loudest = np.int32(word)
        if speaks:
            wd.draw.number(shapes, index, x, y, loudest, size, colour)


@wd.kernel
def draw_speakers(shapes, loc_x, loc_y, size, colour, communication):
    """Draw an agent as a disc with a trail, and what it says above it."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    x, y = loc_x[env, agent], loc_y[env, agent]
    wd.draw.circle(shapes, 0, x, y, size[agent], colour[agent])
    wd.draw.trail(shapes, 0, 12)
    draw_word(shapes, 1, x, y + size[agent] + np.float32(0.09), communication, 0.12, wd.draw.INK)
