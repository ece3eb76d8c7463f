"""Alice sends Bob a message that Eve overhears (``simple_crypto`` of the package ``mpe2``)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import cuda

import warpdrive as wd
from warpdrive.envs.common import drawing
from warpdrive.envs.particles import dynamics
from warpdrive.scene.scene import Scene, Text

ZERO, ONE = np.float32(0), np.float32(1)
ASIDE, BELOW = np.float32(0.2), np.float32(-0.49)
"""Places in pictures of what an agent knows, beside and below it."""
NUM_WORDS, NUM_MESSAGES = 4, 2
EVE, BOB, ALICE = 0, 1, 2
LENGTHS = {"eve": 4, "bob": 8, "alice": 8}


@wd.device_function
def error(env, agent, communication, message):
    """Return the squared distance of an agent's words from the message, or 0 if it said nothing."""
    total, loudest = ZERO, ZERO
    for word in range(NUM_WORDS):
        signal = communication[env, agent, word]
        difference = signal - (ONE if word == message else ZERO)
        total += difference * difference
        loudest = max(loudest, signal)
    return total if loudest > ZERO else ZERO


def _step(say: Any) -> Any:
    """Return the step kernel for actions whose words are computed by ``say``."""

    @wd.kernel
    def step(communication, goal, actions, rewards):
        """Write the words of all agents; then compare those of Bob and Eve with the message."""
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        for word in range(NUM_WORDS):
            communication[env, agent, word] = say(actions, env, agent, 0, word)
        cuda.syncthreads()
        message = goal[env, 0]
        of_eve = error(env, EVE, communication, message)
        rewards[env, agent] = -of_eve if agent == EVE else of_eve - error(env, BOB, communication, message)

    return step


discrete_step, continuous_step = _step(dynamics.discrete_word), _step(dynamics.continuous_word)


@wd.device_function
def write_one_hot(observations, env, first, index):
    """Write 1 at an index among four, 0 elsewhere."""
    for word in range(NUM_WORDS):
        observations[env, 0, first + word] = ONE if word == index else ZERO


@wd.kernel
def observe(communication, goal, observations_eve, observations_bob, observations_alice):
    """Write the message and the key for Alice, the key and Alice's words for Bob, and her words for Eve."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if agent == EVE:
        dynamics.write_words(observations_eve, env, 0, 0, communication, ALICE, NUM_WORDS)
    elif agent == BOB:
        write_one_hot(observations_bob, env, 0, goal[env, 1])
        dynamics.write_words(observations_bob, env, 0, NUM_WORDS, communication, ALICE, NUM_WORDS)
    else:
        write_one_hot(observations_alice, env, 0, goal[env, 0])
        write_one_hot(observations_alice, env, NUM_WORDS, goal[env, 1])


@wd.kernel
def reset(goal, rng):
    """Sample the message and the key."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if agent < NUM_MESSAGES:
        goal[env, agent] = dynamics.random_choice(rng, env, agent, NUM_MESSAGES)


@wd.kernel
def draw(shapes, place_x, colour, communication, goal):
    """Draw an agent as a disc with what it says, and the message and the key below those who know them."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    x = place_x[agent]
    wd.draw.circle(shapes, 0, x, ZERO, np.float32(0.22), colour[agent])
    dynamics.draw_word(shapes, 1, x, ZERO, communication, 0.2, wd.draw.GROUND)
    if agent == ALICE:
        wd.draw.number(shapes, 2, x - ASIDE, BELOW, goal[env, 0], 0.12, wd.draw.INK)
        wd.draw.number(shapes, 3, x + ASIDE, BELOW, goal[env, 1], 0.12, wd.draw.INK)
    elif agent == BOB:
        wd.draw.number(shapes, 2, x, BELOW, goal[env, 1], 0.12, wd.draw.INK)


class SimpleCrypto(dynamics.Scenario):
    """Send a message that Bob, who knows the key, understands, and Eve, who overhears it, does not.

    ## Description

    Alice knows a message of one bit and a key of one bit, and says one of four words. Bob knows the key and hears the
    word, Eve only hears it; both say what they believe the message is. The environment is `simple_crypto_v3` of `mpe2`,
    the multi-agent particle environments of Lowe et al. (2017), in float32, without its positions, which have no
    effect. Agents 0, 1 and 2 have the policy tags `eve`, `bob` and `alice`.

    ## Action Space

    `Discrete(4)`, stored as `actions[env, agent]` (int32): the word that the agent says. With `continuous_actions=True`
    a `Box` of shape `(4,)`, stored as `actions[env, agent, index]` (float32) and clipped to the bounds: the magnitude
    of each word.

    | Action or index | Meaning | Min | Max |
    | --- | --- | --- | --- |
    | 0 to 3 | word; of Bob and Eve, 0 and 1 are the two messages | 0 | 1 |

    ## Observation Space

    One `Box` for each policy tag, float32: of shape `(4,)` for Eve and `(8,)` for Bob and Alice. Message and key are
    one-hot; the words of Alice are those of the last step, 0 before the first one.

    | Agent | Index | Observation | Min | Max |
    | --- | --- | --- | --- | --- |
    | Eve | 0 to 3 | words of Alice | -inf | inf |
    | Bob | 0 to 3 | key | -inf | inf |
    | Bob | 4 to 7 | words of Alice | -inf | inf |
    | Alice | 0 to 3 | message | -inf | inf |
    | Alice | 4 to 7 | key | -inf | inf |

    ## Rewards

    The error of an agent is the squared distance between its four words and the one-hot message: 0 if it says the
    message, 2 if it says another word, and 0 if all its words have the magnitude 0.

    - Eve: -(error of Eve).
    - Bob and Alice: the error of Eve less that of Bob.

    ## Starting State

    Nothing has been said. Message and key are drawn on the device, each uniformly from two.

    ## Episode End

    - Termination: never.
    - Truncation: after `episode_length` steps.

    ## Arguments

    Args:
        continuous_actions: If True, an action is the magnitude of each word, otherwise one of them.
        episode_length: Number of steps after which an episode is truncated, 1 or more.

    Raises:
        DefinitionError: If an argument has the wrong type or is out of range.

    ## References

    - R. Lowe et al. (2017), "Multi-agent actor-critic for mixed cooperative-competitive environments",
      [arXiv 1706.02275](https://arxiv.org/abs/1706.02275).
    - mpe2, [Simple Crypto](https://mpe2.farama.org/environments/simple_crypto/).

    See also the [agreement](index.md#agreement-with-reference-implementations) with the class of `mpe2`.
    """

    name = "simple_crypto"
    parity = dynamics.parity_with("simple_crypto")
    step, observe, reset, draw = discrete_step, observe, reset, draw
    draw_things, shapes_per_agent = None, 4
    place_x = np.array([0, 1, -1], np.float32)
    view = (-1.5, 1.5, -0.75, 0.75)

    def __init__(self, continuous_actions: bool = False, episode_length: int = 25) -> None:
        self._set_physics(continuous_actions=continuous_actions, episode_length=episode_length)
        self.num_landmarks = 0
        self._set_appearance([wd.draw.RED, wd.draw.BLUE, wd.draw.PURPLE])
        self.step = continuous_step if self.continuous_actions else discrete_step
        self.policy_tags = {"eve": [EVE], "bob": [BOB], "alice": [ALICE]}
        self.action_space = dynamics.action_space(self.continuous_actions, moves=False, words=NUM_WORDS)
        self.controls = {}
        self.observation_space = {tag: dynamics.unbounded(length) for tag, length in LENGTHS.items()}

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        """Return ``communication``, ``[3, 4]`` float32: what each agent said, and ``goal``, ``[2]`` int32.

        ``goal`` is the message and the key, which ``reset`` draws on the device.
        """
        return {"communication": np.zeros((3, NUM_WORDS), np.float32), "goal": np.zeros(2, np.int32)}

    def scenery(self, state: dict[str, Any]) -> Scene:
        """Return the channel from Alice to Bob, on which Eve listens, and what each agent knows."""
        names = {ALICE: "Alice", EVE: "Eve", BOB: "Bob"}
        texts = [Text(float(self.place_x[agent]), 0.36, name, 0.13) for agent, name in names.items()]
        for agent, right, known in [(ALICE, -ASIDE, "message"), (ALICE, ASIDE, "key"), (BOB, 0, "key")]:
            texts.append(Text(float(self.place_x[agent] + right), -0.36, known, 0.09))
        return Scene(self.view, polygons=[drawing.stroke(-1, 0, 1, 0, 0.02, wd.draw.GREY)], texts=texts)
