"""Two agents tell each other where to go (``simple_reference`` of the package ``mpe2``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import cuda

import warpdrive as wd
from warpdrive.envs.common import parameters
from warpdrive.envs.particles import dynamics

ONE, TWO = np.float32(1), np.float32(2)
LOW, HIGH = np.float32(0.25), np.float32(0.75)
NUM_WORDS = 10


def _step(push: Any, say: Any) -> Any:
    """Return the step kernel for actions whose direction is computed by ``push``, and whose words by ``say``."""

    @wd.kernel
    def step(
        # state
        loc_x, loc_y, velocity_x, velocity_y, landmark_x, landmark_y, goal, communication,
        # actions
        actions,
        # constants
        acceleration, time_step, kept_velocity, inverse_mass, local_ratio,
        # out
        rewards,
    ):  # fmt: skip
        """Move both agents, and compute the distance of each from the goal that the other one knows."""
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        push_x, push_y = push(actions, env, agent)
        dynamics.advance(
            env, agent, loc_x, loc_y, velocity_x, velocity_y, acceleration * push_x, acceleration * push_y,
            time_step, kept_velocity, inverse_mass,
        )  # fmt: skip
        for word in range(NUM_WORDS):
            communication[env, agent, word] = say(actions, env, agent, dynamics.NUM_ACTIONS, word)
        cuda.syncthreads()

        other = 1 - agent
        its = dynamics.squared_distance(env, other, loc_x, loc_y, goal[env, agent], landmark_x, landmark_y)
        own = dynamics.squared_distance(env, agent, loc_x, loc_y, goal[env, other], landmark_x, landmark_y)
        its, own = wd.math.sqrt(its), wd.math.sqrt(own)
        rewards[env, agent] = -(local_ratio * its + (ONE - local_ratio) * (its + own) / TWO)

    return step


discrete_step = _step(dynamics.discrete_push_of_speaker, dynamics.discrete_word)
continuous_step = _step(dynamics.continuous_push, dynamics.continuous_word)


@wd.kernel
def observe(
    # state
    loc_x, loc_y, velocity_x, velocity_y, landmark_x, landmark_y, goal, communication,
    # constants
    num_landmarks,
    # out
    observations,
):  # fmt: skip
    """Write the observations of an agent, with the colour of the other one's goal and what the other one said."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    x, y = loc_x[env, agent], loc_y[env, agent]
    i = dynamics.write(observations, env, agent, 0, velocity_x[env, agent], velocity_y[env, agent])
    i = dynamics.write_offsets(observations, env, agent, i, x, y, landmark_x, landmark_y, num_landmarks)
    i = dynamics.write_colour(observations, env, agent, i, goal[env, agent], LOW, HIGH)
    dynamics.write_words(observations, env, agent, i, communication, 1 - agent, NUM_WORDS)


@wd.kernel
def draw_landmarks_and_lines(
    things,
    # state
    loc_x, loc_y, landmark_x, landmark_y, goal,
    # constants
    landmark_size, landmark_colour, colour, num_agents,
):  # fmt: skip
    """Draw the landmarks, distributed over the threads, and lines from agents to their goals."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for landmark in range(agent, landmark_x.shape[1], num_agents):
        x, y, radius = landmark_x[env, landmark], landmark_y[env, landmark], landmark_size[landmark]
        wd.draw.circle(things, 1 + landmark // num_agents, x, y, radius, landmark_colour[landmark])
    own = goal[env, 1 - agent]
    x, y = landmark_x[env, own], landmark_y[env, own]
    wd.draw.line(things, 0, loc_x[env, agent], loc_y[env, agent], x, y, 0.012, colour[agent])
    wd.draw.style(things, 0, 1.0, -1, -1)


class SimpleReference(dynamics.Scenario):
    """Move to a landmark that only the other agent knows, and tell the other agent its landmark.

    ## Description

    Each of two agents has a goal among three landmarks, which only the other agent knows: both speak and listen. The
    environment is `simple_reference_v3` of `mpe2`, the multi-agent particle environments of Lowe et al. (2017), in
    float32, with the same constants. Both agents share the policy tag `agent`.

    The dynamics are those of [`simple_spread`](simple_spread.md), without contact forces.

    ## Action Space

    `Discrete(50)`, stored as `actions[env, agent]` (int32): `action % 5` is a move, `action // 5` the word that the
    agent says. With `continuous_actions=True` a `Box` of shape `(15,)`, stored as `actions[env, agent, index]`,
    float32 and clipped to the bounds.

    | Move or index | Meaning | Min | Max |
    | --- | --- | --- | --- |
    | 0 | no force; unused if continuous | 0 | 1 |
    | 1, 2 | left (-x), right (+x) | 0 | 1 |
    | 3, 4 | down (-y), up (+y) | 0 | 1 |
    | 5 to 14, if continuous | words | 0 | 1 |

    ## Observation Space

    `Box` of shape `(21,)`, float32.

    | Index | Observation | Min | Max |
    | --- | --- | --- | --- |
    | 0, 1 | own velocity x, y | -inf | inf |
    | 2 to 7 | position x, y of each landmark, relative to the agent | -inf | inf |
    | 8 to 10 | colour of the other agent's goal: 0.75 at its index, 0.25 elsewhere | -inf | inf |
    | 11 to 20 | words of the other agent: 1 for the one it said last, magnitudes if continuous | -inf | inf |

    ## Rewards

    The weighted sum of two terms:

    - local, with the weight `local_ratio`: -(distance of the other agent from the goal that this agent knows);
    - shared, with the weight 1 - `local_ratio`: the mean of the local terms of both agents.

    ## Starting State

    All agents are at rest and have said nothing. Both coordinates of each agent and landmark are drawn uniformly from
    [-1, 1), and each goal is one of the landmarks, on the device.

    ## Episode End

    - Termination: never.
    - Truncation: after `episode_length` steps.

    ## Arguments

    Args:
        local_ratio: Weight of the local reward, from 0 to 1; the shared reward has the weight 1 - local_ratio.
        continuous_actions: If True, an action is the magnitude of each direction and word, otherwise one of them.
        episode_length: Number of steps after which an episode is truncated, 1 or more.

    Raises:
        DefinitionError: If an argument has the wrong type or is out of range.

    ## References

    - R. Lowe et al. (2017), "Multi-agent actor-critic for mixed cooperative-competitive environments",
      [arXiv 1706.02275](https://arxiv.org/abs/1706.02275).
    - mpe2, [Simple Reference](https://mpe2.farama.org/environments/simple_reference/).

    See also the [agreement](index.md#agreement-with-reference-implementations) with the class of `mpe2`.
    """

    name = "simple_reference"
    parity = dynamics.parity_with("simple_reference")
    step, observe, reset = discrete_step, observe, dynamics.reset_places_and_goals
    draw, draw_things, shapes_per_agent = dynamics.draw_speakers, draw_landmarks_and_lines, 2
    landmark_colours = (wd.draw.RED, wd.draw.GREEN, wd.draw.BLUE)
    num_goals = 2

    def __init__(self, local_ratio: float = 0.5, continuous_actions: bool = False, episode_length: int = 25) -> None:
        self.local_ratio = parameters.real("local_ratio", local_ratio, at_least=0, at_most=1)
        self._set_physics(continuous_actions=continuous_actions, episode_length=episode_length)
        self.num_landmarks = 3
        self._set_appearance([wd.draw.PURPLE, wd.draw.ORANGE])
        self.step = continuous_step if self.continuous_actions else discrete_step
        self.policy_tags = {"agent": range(2)}
        self.action_space = dynamics.action_space(self.continuous_actions, words=NUM_WORDS)
        self.observation_space = dynamics.unbounded(21)

    def original_parameters(self) -> Mapping[str, Any]:
        """Return the arguments of the class of ``mpe2`` other than ``continuous_actions``."""
        return {"local_ratio": self.local_ratio}

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        """Return the state of the base class, and ``communication``, ``[2, 10]`` float32, what the agents said.

        An agent's ``goal`` is the landmark to which the other agent should move.
        """
        return {**super().initial_state(rng), "communication": np.zeros((2, NUM_WORDS), np.float32)}
