"""Physics of the multi-agent particle environments (Lowe et al. 2017; the package ``mpe2``).

Discs move on a plane. The forces on a disc are its agent's action and its contacts. In each step

    position += velocity * time_step
    velocity = velocity * (1 - damping) + force / mass * time_step

Two discs repel each other with a force of ``contact_force * softplus(overlap / margin) * margin``, a smooth version of
``contact_force * max(overlap, 0)``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

import warpdrive as wd
from warpdrive.envs.common import parameters

ZERO, ONE, TWO = np.float32(0), np.float32(1), np.float32(2)
NEGLIGIBLE = np.float32(-20)
"""Overlap in margins at which the contact force is below 1e-8 of that at an overlap of one margin."""

NUM_ACTIONS = 5
"""No-op, left, right, down, up."""


def action_space(continuous: bool) -> spaces.Discrete | spaces.Box:
    """Return the action space of one agent: one of the five directions, or the magnitude of each, from 0 to 1."""
    return spaces.Box(0.0, 1.0, (NUM_ACTIONS,), np.float32) if continuous else spaces.Discrete(NUM_ACTIONS)


class ParticleWorld(wd.Environment):
    """Base class of environments with discs that move and repel each other."""

    def _set_physics(
        self,
        *,
        mass: float,
        damping: float,
        contact_force: float,
        contact_margin: float,
        time_step: float,
        start_range: float,
        episode_length: int,
        continuous_actions: bool,
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

    def _at_rest(self, thing: str, number: int) -> dict[str, npt.NDArray[np.float32]]:
        """Return all agents at rest at the origin, and ``number`` static objects there."""
        agents, things = np.zeros(self.num_agents, np.float32), np.zeros(number, np.float32)
        names = ("loc_x", "loc_y", "velocity_x", "velocity_y")
        return {**dict.fromkeys(names, agents), **dict.fromkeys((f"{thing}_x", f"{thing}_y"), things)}


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
    action = actions[env, agent]
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
