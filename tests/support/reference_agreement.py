"""Comparison of the environments' kernels with their references."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import particles_of_mpe2
import torch
from gymnasium import spaces

from warpdrive.env_wrapper import EnvWrapper
from warpdrive.environment import Environment, State
from warpdrive.envs.acrobot import reference as acrobot
from warpdrive.envs.cartpole import reference as cartpole
from warpdrive.envs.mountain_car import reference as mountain_car
from warpdrive.envs.tag_continuous import reference as tag_continuous

Array = npt.NDArray[Any]
Act = Callable[[Environment, dict[str, Array], np.random.Generator], Array]
"""Policy: maps an environment and its observations (``[replicas, agents, ...]``, by name) to actions."""


@dataclass(frozen=True)
class Case:
    """Settings of the comparison of an environment with its reference.

    Attributes:
        reference: The description of the reference, in Markdown.
        step_tolerance: The maximum difference between one step of the kernels and of the reference from the same state,
            in any element of the observations and rewards.
        episode_tolerance: The same for whole episodes from the same start state; None for chaotic dynamics, where
            rounding errors grow so fast that the comparison is meaningless.
        act: The policy.
        act_in_episodes: The policy for whole episodes, if rounding errors would grow too fast under ``act``; otherwise
            None.
        margin: Returns the distance of a state from the termination boundary; None if episodes only end by truncation.
        reward_margin: Returns the distance of a state from a discontinuity of the rewards; None if there is none.
        twin: Creates the step that the kernels are compared with; None for the environment's ``reference_step``.
        variants: Parameters of the environment to compare, by their name in the table.
    """

    reference: str
    step_tolerance: float
    episode_tolerance: float | None
    act: Act
    margin: Callable[[Any, State], float] | None = None
    act_in_episodes: Act | None = None
    reward_margin: Callable[[Any, State], float] | None = None
    twin: Callable[[Any], Callable[[State, Array], State]] | None = None
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"": {}})


@dataclass
class Agreement:
    """Result of a comparison.

    Attributes:
        steps: The number of replica steps compared.
        episodes: The number of episodes that ended within them.
        largest: The maximum difference in any element of the observations and rewards.
        doubtful: The number of steps that terminate on one side only, or have different rewards, where the reference is
            within the tolerance of the deciding boundary.
        wrong_ends: Descriptions of other episodes that ended on one side only.
    """

    steps: int = 0
    episodes: int = 0
    largest: float = 0.0
    doubtful: int = 0
    wrong_ends: list[str] = field(default_factory=list)


def compare(
    env: Environment,
    case: Case,
    num_steps: int,
    *,
    whole_episodes: bool,
    replicas: int = 50,
    seed: int = 0,
    backend: str = "cpu",
) -> Agreement:
    """Run an environment and its ``reference_step`` side by side with the same actions.

    Args:
        env: The environment.
        case: The settings of the comparison.
        num_steps: The minimum number of steps to compare, over all replicas.
        whole_episodes: If True, the reference only shares the start states; otherwise it is given the kernels' state
            before each step.
        replicas: The number of replicas.
        seed: The seed of start states and actions.
        backend: The backend of the kernels.

    Returns:
        The result.
    """
    tolerance = case.episode_tolerance if whole_episodes else case.step_tolerance
    assert tolerance is not None, "this environment is compared step by step only"
    act = (case.act_in_episodes if whole_episodes else None) or case.act
    reference_step = env.reference_step if case.twin is None else case.twin(env)
    wrapper, rng = EnvWrapper(env, replicas, backend, seed), np.random.default_rng(seed)
    observations = _by_name(wrapper.reset())
    expected = _states(wrapper)
    found = Agreement()
    while found.steps < num_steps:
        actions = act(env, observations, rng)
        after, rewards, terminated, truncated, info = wrapper.step(torch.from_numpy(actions))
        observations, final = _by_name(after), _by_name(info["final_observations"])
        ended = _host(terminated | truncated)
        present = _states(wrapper)
        for e in range(replicas):
            reference = reference_step(expected[e], actions[e])
            found.steps += 1
            found.episodes += int(ended[e])
            if bool(terminated[e]) == reference["terminated"]:
                seen = final if ended[e] else observations
                of_observations = [_difference(array[e], reference[name]) for name, array in seen.items()]
                of_rewards = _difference(_host(rewards[e]), reference["rewards"])
                if of_rewards > tolerance and case.reward_margin and case.reward_margin(env, reference) <= tolerance:
                    found.doubtful += 1
                    of_rewards = 0.0
                found.largest = max(found.largest, of_rewards, *of_observations)
            elif case.margin is not None and case.margin(env, reference) <= tolerance:
                found.doubtful += 1
            else:
                found.wrong_ends.append(f"replica {e}, step {reference['timestep']}: {reference}")
            if whole_episodes and not ended[e] and not reference["terminated"]:
                present[e] = reference
        expected = present
    wrapper.close()
    return found


def _host(tensor: Any) -> Array:
    array: Array = tensor.cpu().numpy().copy()
    return array


def _by_name(observations: Any) -> dict[str, Array]:
    """Return observations by the names of their arrays: a single one, or one for each policy tag."""
    if isinstance(observations, dict):
        return {f"observations_{tag}": _host(array) for tag, array in observations.items()}
    return {"observations": _host(observations)}


def _difference(ours: Array, theirs: Array) -> float:
    return float(np.abs(ours - theirs).max(initial=0.0))


def _states(wrapper: EnvWrapper) -> list[State]:
    names = [name for name in wrapper.ctx.state_names if "." not in name]
    arrays = {name: _host(wrapper.ctx[name]) for name in names}
    return [{name: array[e] for name, array in arrays.items()} for e in range(wrapper.num_envs)]


def random_actions(env: Environment, observations: dict[str, Array], rng: np.random.Generator) -> Array:
    """Return random actions: int32 for a discrete space, float32 for a Box, exceeding its range by half its size."""
    size = (len(next(iter(observations.values()))), env.num_agents)
    if isinstance(env.action_space, spaces.Discrete):
        return rng.integers(env.action_space.n, size=size).astype(np.int32)
    if isinstance(env.action_space, spaces.MultiDiscrete):
        return rng.integers(env.action_space.nvec, size=(*size, len(env.action_space.nvec))).astype(np.int32)
    assert isinstance(env.action_space, spaces.Box)
    low, high = env.action_space.low, env.action_space.high
    actions = low + rng.uniform(-0.5, 1.5, (*size, *low.shape)).astype(np.float32) * (high - low)
    within: Array = np.clip(actions, low, high)  # as `EnvWrapper.step` does, and references may not
    return within


def along_the_velocity(env: Environment, observations: dict[str, Array], rng: np.random.Generator) -> Array:
    """Return actions for a mountain car, mostly in the direction of motion, which drives it up the hill."""
    others = random_actions(env, observations, rng)
    goes_right = (observations["observations"][..., 1] >= 0).reshape(others.shape)
    space = env.action_space
    pushes = (space.low, space.high) if isinstance(space, spaces.Box) else (0, 2)
    keep = rng.random(others.shape) < 0.8
    return np.where(keep, np.where(goes_right, pushes[1], pushes[0]), others).astype(others.dtype)


def against_the_swing(env: Environment, observations: dict[str, Array], rng: np.random.Generator) -> Array:
    """Return actions for an acrobot, mostly a torque against the first link's velocity, which makes it swing."""
    against = np.where(observations["observations"][..., 4] >= 0, 0, 2)
    keep = rng.random(against.shape) < 0.8
    return np.where(keep, against, random_actions(env, observations, rng)).astype(np.int32)


def braking(env: Environment, observations: dict[str, Array], rng: np.random.Generator) -> Array:
    """Return actions for a pendulum: a torque against its velocity plus noise, so that it soon hangs down."""
    return (0.25 * random_actions(env, observations, rng) - observations["observations"][..., 2:]).astype(np.float32)


def towards_food(env: Environment, observations: dict[str, Array], rng: np.random.Generator) -> Array:
    """Return actions for level-based foraging, mostly towards the first food in sight, and to load beside it."""
    others = random_actions(env, observations, rng)
    seen = observations["observations"]
    if seen.ndim > 3:  # layers of cells
        return np.where(rng.random(others.shape) < 0.4, 5, others).astype(np.int32)
    own = 3 * env.num_foods  # type: ignore[attr-defined]
    south, east = seen[..., 0] - seen[..., own], seen[..., 1] - seen[..., own + 1]
    moves = np.where(np.abs(south) > np.abs(east), np.where(south > 0, 2, 1), np.where(east > 0, 4, 3))
    forward = np.where(np.abs(south) + np.abs(east) == 1, 5, moves)
    follows = (seen[..., 2] > 0) & (rng.random(others.shape) < 0.7)
    return np.where(follows, forward, others).astype(np.int32)


BY_ACTIONS = {", discrete": {}, ", continuous": {"continuous_actions": True}}

IN_NUMPY = "ours, in plain NumPy"

CASES: dict[str, Case] = {
    "cartpole": Case("`CartPoleEnv`", 1e-6, 1e-3, random_actions, cartpole.margin),
    "acrobot": Case("`AcrobotEnv`", 1e-5, None, against_the_swing, acrobot.margin),
    "mountain_car": Case("`MountainCarEnv`", 1e-6, 1e-3, along_the_velocity, mountain_car.margin),
    "continuous_mountain_car": Case("`Continuous_MountainCarEnv`", 1e-6, 1e-3, along_the_velocity, mountain_car.margin),
    "pendulum": Case("`PendulumEnv`", 1e-5, 1e-3, random_actions, act_in_episodes=braking),
    "simple_spread": Case(
        "`simple_spread`",
        1e-5,
        1e-3,
        random_actions,
        reward_margin=particles_of_mpe2.spread_margin,
        twin=particles_of_mpe2.spread,
        variants=BY_ACTIONS,
    ),
    "simple_tag": Case(
        "`simple_tag`",
        1e-5,
        1e-3,
        random_actions,
        reward_margin=particles_of_mpe2.tag_margin,
        twin=particles_of_mpe2.tag,
        variants=BY_ACTIONS,
    ),
    "lbf": Case(
        "`ForagingEnv`",
        1e-6,
        1e-6,
        towards_food,
        variants={
            ", 8x8-2p-2f-coop": {},
            ", 2s-10x10-3p-3f": {"field_size": 10, "players": 3, "max_num_food": 3, "sight": 2, "force_coop": False},
            ", 15x15-4p-5f": {"field_size": 15, "players": 4, "max_num_food": 5, "force_coop": False},
        },
    ),
    "flock": Case(IN_NUMPY, 1e-5, None, random_actions, variants={", 20 boids": {"num_boids": 20, "world_size": 6.0}}),
    "tag_gridworld": Case(IN_NUMPY, 1e-6, 1e-6, random_actions),
    "tag_continuous": Case(
        IN_NUMPY,
        1e-5,
        None,
        random_actions,
        tag_continuous.margin,
        reward_margin=tag_continuous.margin,
        variants={
            ", 3 taggers, 10 runners": {"num_taggers": 3, "num_runners": 10, "tagging_distance": 0.05},
        },
    ),
    "battle": Case(
        IN_NUMPY,
        1e-5,
        1e-5,
        random_actions,
        variants={", 2 x 12 on 12 x 12 cells": {"agents_per_team": 12, "map_size": 12, "random_starts": True}},
    ),
}
"""Comparison settings by the name of the environment. The dynamics of acrobot, and of the pendulum with random torques,
are chaotic; in ``tag_continuous``, an agent that is tagged on one side only continues to play on the other.
"""
