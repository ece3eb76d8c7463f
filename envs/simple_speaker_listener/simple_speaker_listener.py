"""A speaker tells a listener where to go (``simple_speaker_listener`` of the package ``mpe2``)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import cuda

import warpdrive as wd
from warpdrive.envs.common import parameters
from warpdrive.envs.particles import dynamics

LOW, HIGH = np.float32(0.15), np.float32(0.65)
NUM_WORDS = 3
SPEAKER, LISTENER = 0, 1
LENGTHS = {"speaker": 3, "listener": 11}


def _steps(push: Any, say: Any) -> tuple[Any, Any]:
    """Return the step kernels for actions whose direction is computed by ``push``, and whose words by ``say``.

    The first is for separate actions of both agents, the second for actions of one space.
    """

    @wd.device_function
    def play(
        # actions
        of_speaker, of_listener, row,
        # state
        loc_x, loc_y, velocity_x, velocity_y, landmark_x, landmark_y, goal, communication,
        # constants
        acceleration, time_step, kept_velocity, inverse_mass,
        # out
        rewards,
    ):  # fmt: skip
        """Move the listener, write the word of the speaker, and compute the distance of the listener from the goal."""
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        if agent == LISTENER:
            push_x, push_y = push(of_listener, env, row)
            dynamics.advance(
                env, agent, loc_x, loc_y, velocity_x, velocity_y, acceleration * push_x, acceleration * push_y,
                time_step, kept_velocity, inverse_mass,
            )  # fmt: skip
        else:
            for word in range(NUM_WORDS):
                communication[env, SPEAKER, word] = say(of_speaker, env, SPEAKER, 0, word)
        cuda.syncthreads()
        squared = dynamics.squared_distance(env, LISTENER, loc_x, loc_y, goal[env, 0], landmark_x, landmark_y)
        rewards[env, agent] = -squared

    @wd.kernel
    def step(
        # state
        loc_x, loc_y, velocity_x, velocity_y, landmark_x, landmark_y, goal, communication,
        # actions
        actions_speaker, actions_listener,
        # constants
        acceleration, time_step, kept_velocity, inverse_mass,
        # out
        rewards,
    ):  # fmt: skip
        """Take one step."""
        play(
            actions_speaker, actions_listener, 0, loc_x, loc_y, velocity_x, velocity_y, landmark_x, landmark_y, goal,
            communication, acceleration, time_step, kept_velocity, inverse_mass, rewards,
        )  # fmt: skip

    @wd.kernel
    def padded_step(
        # state
        loc_x, loc_y, velocity_x, velocity_y, landmark_x, landmark_y, goal, communication,
        # actions
        actions,
        # constants
        acceleration, time_step, kept_velocity, inverse_mass,
        # out
        rewards,
    ):  # fmt: skip
        """Take one step."""
        play(
            actions, actions, LISTENER, loc_x, loc_y, velocity_x, velocity_y, landmark_x, landmark_y, goal,
            communication, acceleration, time_step, kept_velocity, inverse_mass, rewards,
        )  # fmt: skip

    return step, padded_step


discrete_steps = _steps(dynamics.discrete_push, dynamics.discrete_word)
continuous_steps = _steps(dynamics.continuous_push, dynamics.continuous_word)


@wd.device_function
def observe_as(
    # out
    of_speaker, of_listener, row,
    # state
    loc_x, loc_y, velocity_x, velocity_y, landmark_x, landmark_y, goal, communication,
    # constants
    num_landmarks,
):  # fmt: skip
    """Write the goal for the speaker; for the listener its velocity, the landmarks and what the speaker said."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if agent == SPEAKER:
        dynamics.write_colour(of_speaker, env, SPEAKER, 0, goal[env, 0], LOW, HIGH)
    else:
        x, y = loc_x[env, agent], loc_y[env, agent]
        i = dynamics.write(of_listener, env, row, 0, velocity_x[env, agent], velocity_y[env, agent])
        i = dynamics.write_offsets(of_listener, env, row, i, x, y, landmark_x, landmark_y, num_landmarks)
        dynamics.write_words(of_listener, env, row, i, communication, SPEAKER, NUM_WORDS)


@wd.kernel
def observe(
    # state
    loc_x, loc_y, velocity_x, velocity_y, landmark_x, landmark_y, goal, communication,
    # constants
    num_landmarks,
    # out
    observations_speaker, observations_listener,
):  # fmt: skip
    """Write the observations of both agents."""
    observe_as(
        observations_speaker, observations_listener, 0, loc_x, loc_y, velocity_x, velocity_y, landmark_x, landmark_y,
        goal, communication, num_landmarks,
    )  # fmt: skip


@wd.kernel
def observe_padded(
    # state
    loc_x, loc_y, velocity_x, velocity_y, landmark_x, landmark_y, goal, communication,
    # constants
    num_landmarks,
    # out
    observations,
):  # fmt: skip
    """Write the observations of both agents; those of the speaker are shorter, and the rest stays 0."""
    observe_as(
        observations, observations, LISTENER, loc_x, loc_y, velocity_x, velocity_y, landmark_x, landmark_y, goal,
        communication, num_landmarks,
    )  # fmt: skip


class SimpleSpeakerListener(dynamics.Scenario):
    """Tell a listener where to go as a speaker that cannot move, or follow the speaker as a listener.

    ## Description

    One of three landmarks is the goal of the listener (policy tag `listener`, agent 1), but only the speaker
    (`speaker`, agent 0) knows which one. The environment is `simple_speaker_listener_v4` of `mpe2`, the multi-agent
    particle environments of Lowe et al. (2017), in float32, with the same constants.

    With `padded=True` both agents share the policy tag `agent`: observations of the speaker are padded with zeros to
    the length of those of the listener, and its action space to the size of the listener's, with a mask of the actions
    that it has. Benchmarks of cooperative learning share parameters and mix values in this way.

    The dynamics are those of [`simple_spread`](simple_spread.md), without contact forces. The position of the speaker
    has no effect.

    ## Action Space

    `Discrete(3)` for the speaker, stored as `actions_speaker[env, 0]` (int32): the word that it says; `Discrete(5)`
    for the listener, `actions_listener[env, 0]`: no force, left (-x), right (+x), down (-y), up (+y). With
    `continuous_actions=True` a `Box` of shape `(3,)` and one of shape `(5,)`, float32 and clipped to the bounds: the
    magnitudes of words and of the force in each direction.

    With `padded=True` both have the space of the listener, stored as `actions[env, agent]`. The speaker's actions are
    the first three; the others are masked by `action_mask` if discrete, and ignored if continuous.

    | Action or index of listener | Meaning | Min | Max |
    | --- | --- | --- | --- |
    | 0 | no force; unused if continuous | 0 | 1 |
    | 1, 2 | left (-x), right (+x) | 0 | 1 |
    | 3, 4 | down (-y), up (+y) | 0 | 1 |

    ## Observation Space

    One `Box` for each policy tag, float32: of shape `(3,)` for the speaker and `(11,)` for the listener. With
    `padded=True` of shape `(11,)` for both.

    | Index of speaker | of listener | Observation | Min | Max |
    | --- | --- | --- | --- | --- |
    | 0 to 2 | | colour of the goal: 0.65 at its index, 0.15 elsewhere | -inf | inf |
    | | 0, 1 | own velocity x, y | -inf | inf |
    | | 2 to 7 | position x, y of each landmark, relative to the listener | -inf | inf |
    | | 8 to 10 | words of the last step: 1 for the one that was said, magnitudes if continuous | -inf | inf |

    ## Rewards

    For both agents -d^2, where d is the distance of the listener from the goal.

    ## Starting State

    All agents are at rest and have said nothing. Both coordinates of each agent and landmark are drawn uniformly from
    [-1, 1), and the goal is one of the landmarks, on the device.

    ## Episode End

    - Termination: never.
    - Truncation: after `episode_length` steps.

    ## Arguments

    Args:
        padded: If True, both agents have spaces of the same size and one policy tag.
        continuous_actions: If True, an action is the magnitude of each direction and word, otherwise one of them.
        episode_length: Number of steps after which an episode is truncated, 1 or more.

    Raises:
        DefinitionError: If an argument has the wrong type or is out of range.

    ## References

    - R. Lowe et al. (2017), "Multi-agent actor-critic for mixed cooperative-competitive environments",
      [arXiv 1706.02275](https://arxiv.org/abs/1706.02275).
    - mpe2, [Simple Speaker Listener](https://mpe2.farama.org/environments/simple_speaker_listener/).

    See also the [agreement](index.md#agreement-with-reference-implementations) with the class of `mpe2`.
    """

    name = "simple_speaker_listener"
    parity = dynamics.parity_with("simple_speaker_listener")
    step, observe, reset = discrete_steps[0], observe, dynamics.reset_places_and_goals
    draw, draw_things, shapes_per_agent = dynamics.draw_speakers, dynamics.draw_landmarks_and_goals, 2
    landmark_colours = (wd.draw.RED, wd.draw.GREEN, wd.draw.BLUE)
    num_goals = 1

    def __init__(self, padded: bool = False, continuous_actions: bool = False, episode_length: int = 25) -> None:
        self.padded = parameters.flag("padded", padded)
        self._set_physics(continuous_actions=continuous_actions, episode_length=episode_length)
        self.num_landmarks = 3
        self._set_appearance([wd.draw.INK, wd.draw.PURPLE], size=0.075, landmark_size=0.04)
        steps = continuous_steps if self.continuous_actions else discrete_steps
        self.step, self.observe = (steps[1], observe_padded) if self.padded else (steps[0], observe)
        moves = dynamics.action_space(self.continuous_actions)
        if self.padded:
            self.policy_tags = {"agent": range(2)}
            self.action_space = moves
            self.observation_space = dynamics.unbounded(max(LENGTHS.values()))
        else:
            self.policy_tags = {"speaker": [SPEAKER], "listener": [LISTENER]}
            words = dynamics.action_space(self.continuous_actions, moves=False, words=NUM_WORDS)
            self.action_space = {"speaker": words, "listener": moves}
            self.controls = {"speaker": {}, "listener": self.controls}
            self.observation_space = {tag: dynamics.unbounded(length) for tag, length in LENGTHS.items()}

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        """Return the state of the base class, and ``communication``, ``[1, 3]`` float32, what the speaker said.

        If ``padded``, and for discrete actions, also ``action_mask``.
        """
        state = {**super().initial_state(rng), "communication": np.zeros((1, NUM_WORDS), np.float32)}
        if self.padded and not self.continuous_actions:
            num_actions = np.array([[NUM_WORDS], [dynamics.NUM_ACTIONS]])
            state["action_mask"] = np.arange(dynamics.NUM_ACTIONS) < num_actions
        return state
