"""Comparison of an environment in two settings: on two backends, or with different numbers of replicas.

Integers, flags and random numbers must be identical bit for bit, floats within a tolerance. If a float decides on an
integer (a pole that falls, the nearest of two neighbours, an action that is drawn), another rounding may change the
decision. Such a decision is *doubtful* if the first backend reproduces the second one's after perturbing the floats
before the step by no more than the tolerance; every other difference is an error. Without a tolerance, all are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces

from warpdrive.backends.interface import Backend
from warpdrive.env_wrapper import EnvWrapper
from warpdrive.environment import Environment
from warpdrive.observations import tensors
from warpdrive.rollout import Rollout
from warpdrive.spaces import SpaceArray, action_arrays, nested

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
"""Arrays by name; the first axis is that of the replicas."""

TRIALS = 256
"""Number of states within the tolerance that are tried before a difference is an error."""
SMALLEST_CHANGE = 2.0**-23
"""Smallest perturbation; those of the trials decrease from the tolerance to this."""
JUMP = 10.0
"""Number of tolerances; a float that differs by less indicates no decision, and is an error without trials."""
RNG = "rng"
"""Name of the array whose last axis ends with an agent's number of draws."""
ROLLOUT = 7
"""Number of steps per rollout, chosen so that several begin, at other times than episodes."""


@dataclass(frozen=True)
class Tolerance:
    """Largest allowed difference of floats: absolute for values between -1 and 1, relative beyond.

    Attributes:
        step: Tolerance after one step from the same state.
        episode: Tolerance if each side continues from its own states; None if rounding errors grow too fast for that.
    """

    step: float
    episode: float | None = None


@dataclass(frozen=True)
class Setting:
    """Backend and replicas that an environment runs with; the global indices begin at ``first_env``."""

    backend: str | Backend
    num_envs: int = 8
    first_env: int = 0

    @property
    def end(self) -> int:
        """Global index after that of the last replica."""
        return self.first_env + self.num_envs


@dataclass(frozen=True)
class Difference:
    """Difference in one replica after one step.

    Attributes:
        replica: Global index of the replica.
        step: Number of the step, from 1.
        arrays: Arrays that differ: ``rng`` first, which may explain all others, then the author's own.
        values: Description of an element of the first array.
    """

    replica: int
    step: int
    arrays: tuple[str, ...]
    values: str

    def __str__(self) -> str:
        return f"replica {self.replica}, step {self.step}: {', '.join(self.arrays)} ({self.values})"


@dataclass
class Agreement:
    """Result of a comparison.

    Attributes:
        steps: Number of replica steps that were compared.
        episodes: Number of episodes that ended.
        terminated: Number of these that ended other than by the time limit.
        largest: Largest difference of a float within the tolerance, measured like the tolerance.
        doubtful: Decisions that differed within the tolerance.
        wrong: All other differences.
    """

    steps: int = 0
    episodes: int = 0
    terminated: int = 0
    largest: float = 0.0
    doubtful: list[Difference] = field(default_factory=list)
    wrong: list[Difference] = field(default_factory=list)


def compare(
    make: Callable[[], Environment],
    first: Setting,
    second: Setting,
    tolerance: float,
    num_steps: int,
    *,
    sampled: bool,
    same_states: bool,
    seed: int = 0,
    reset_pool_size: int = 4,
) -> Agreement:
    """Run an environment in two settings with the same actions and compare all arrays of the replicas.

    Args:
        make: Function that creates the environment.
        first: First setting.
        second: Second setting; the replicas in both are compared.
        tolerance: Largest allowed difference of floats, see :class:`Tolerance`.
        num_steps: Number of steps per replica.
        sampled: If True, actions are sampled on the device, from random policies, and recorded in rollouts.
        same_states: If True, the second setting starts each step from the state of the first; if False, from its own.
        seed: Seed of start states, actions, policies and random numbers of the environment.
        reset_pool_size: Number of start states.

    Returns:
        The result of the comparison.

    Raises:
        DefinitionError: If the environment is not valid.
        KernelError: If a kernel cannot be compiled for a backend.
    """
    shared = range(max(first.first_env, second.first_env), min(first.end, second.end))
    ours, theirs = (_Side(make(), setting, shared, sampled, seed, reset_pool_size) for setting in (first, second))
    trials = Trials(make, first.backend, sampled, seed)
    found = Agreement()
    for number in range(num_steps):
        before = ours.save()
        inputs = ours.random_inputs(np.random.default_rng([seed, number]), max(first.end, second.end))
        outcomes = ours.step(inputs), theirs.step(inputs)
        gaps = {name: _gaps(array, outcomes[1][name]) for name, array in outcomes[0].items()}
        differs = {place for gap in gaps.values() for place in np.flatnonzero(gap > tolerance).tolist()}
        for place in sorted(differs):
            outcome = {name: array[place] for name, array in outcomes[1].items()}
            given = {name: array[shared[place]] for name, array in inputs.items()}
            is_decision = max(gap[place] for gap in gaps.values()) > JUMP * tolerance
            is_doubtful = tolerance > 0 and is_decision and trials.reproduces(outcome, before[place], given, tolerance)
            names = sorted((name for name, gap in gaps.items() if gap[place] > tolerance), key=_rank)
            of_first = [arrays[names[0]][place] for arrays in outcomes]
            values = _difference_text(names[0], of_first[0], of_first[1], tolerance)
            difference = Difference(shared[place], number + 1, tuple(names), values)
            (found.doubtful if is_doubtful else found.wrong).append(difference)
        same = [place for place in range(len(shared)) if place not in differs]
        found.largest = max([found.largest, *(float(gap[same].max(initial=0)) for gap in gaps.values())])
        found.steps += len(shared)
        found.episodes += int((outcomes[0]["terminated"] | outcomes[0]["truncated"]).sum())
        found.terminated += int(outcomes[0]["terminated"].sum())
        theirs.load(ours.save(), range(len(shared)) if same_states else sorted(differs))
    for side in (ours, theirs):
        side.wrapper.close()
    return found


class _Side:
    """Replicas in one setting, of which those with the global indices ``shared`` are compared."""

    def __init__(
        self, env: Environment, setting: Setting, shared: range, sampled: bool, seed: int, reset_pool_size: int
    ) -> None:
        self.env, self.first_env = env, setting.first_env
        self.wrapper = EnvWrapper(
            env, setting.num_envs, setting.backend, seed, first_env=setting.first_env, reset_pool_size=reset_pool_size
        )
        self.rows = [replica - setting.first_env for replica in shared]
        self.rollout = self.wrapper.allocate_rollout(ROLLOUT) if sampled else None

    def random_inputs(self, rng: np.random.Generator, count: int) -> Arrays:
        """Return random actions, or policy outputs, for the replicas with global indices 0 to ``count`` - 1."""
        if self.rollout is not None:
            shapes = {tag: self.wrapper.logits(tag).shape[1:] for tag in self.wrapper.policy_tags}
            return {tag: rng.normal(size=(count, *shape)).astype(np.float32) for tag, shape in shapes.items()}
        given = {array.name: random_actions(array, count, rng) for array in action_arrays(self.env)}
        if "action_mask" in self.wrapper.ctx:
            allowed = np.ones((count, *self.wrapper.ctx["action_mask"].shape[1:]), np.bool_)
            own = slice(self.first_env, self.first_env + self.wrapper.num_envs)
            allowed[own] = _host(self.wrapper.ctx["action_mask"])
            given |= {a.name: allowed_actions(a, allowed, rng) for a in action_arrays(self.env) if a.choices}
        return given

    def step(self, inputs: Mapping[str, Array]) -> Arrays:
        """Run a step with inputs indexed by global replica; return all arrays after it."""
        own = slice(self.first_env, self.first_env + self.wrapper.num_envs)
        given = {name: torch.from_numpy(array[own]).to(self.wrapper.device) for name, array in inputs.items()}
        if self.rollout is None:
            self.wrapper.step(nested(action_arrays(self.env), lambda array: given[array.name]))
            return self.arrays()
        for tag, logits in given.items():
            self.wrapper.logits(tag).copy_(logits)
        if self.rollout.steps_recorded == self.rollout.num_steps:
            self.rollout.begin()
        self.wrapper.step_rollout(self.rollout)
        return {**self.arrays(), **self._recorded(self.rollout, self.rollout.steps_recorded - 1)}

    def arrays(self) -> Arrays:
        """Return a copy of all arrays of the shared replicas."""
        return {name: _host(self.wrapper.ctx[name])[self.rows] for name in self.wrapper.ctx.state_names}

    def save(self) -> torch.Tensor:
        """Return the state of the shared replicas."""
        return self.wrapper.ctx.save_state(self.rows).cpu()

    def load(self, state: torch.Tensor, places: Sequence[int]) -> None:
        """Restore the state returned by :meth:`save` in some of the shared replicas, given by their positions."""
        self.wrapper.ctx.load_state(state[list(places)], [self.rows[place] for place in places])

    def _recorded(self, rollout: Rollout, step: int) -> Arrays:
        """Return the entries of one step of the rollout, and the final observations recorded in it."""
        slots = _host(rollout.final_slot[step])[self.rows]
        found: Arrays = {"recorded.is_final": slots >= 0}
        for tag in self.wrapper.policy_tags:
            for name in _RECORDED:
                if getattr(rollout, name) is not None:
                    at = step + 1 if name == "observations" else step
                    for number, tensor in enumerate(tensors(rollout.of(name, tag))):
                        found[f"recorded.{name}.{tag}.{number}"] = _host(tensor[at])[self.rows]
            for number, tensor in enumerate(tensors(rollout.of("final_observations", tag))):
                final = _host(tensor)[np.maximum(slots, 0), self.rows]
                found[f"recorded.final_observations.{tag}.{number}"] = np.where(
                    (slots >= 0).reshape(-1, *[1] * (final.ndim - 1)), final, 0
                )
        return found


_RECORDED = ("observations", "actions", "log_probabilities", "rewards", "active", "still_active", "action_mask")


class Trials:
    """Replicas on the first backend that all run one step from nearly the same state."""

    def __init__(self, make: Callable[[], Environment], backend: str | Backend, sampled: bool, seed: int) -> None:
        self.make, self.backend, self.sampled, self.seed = make, backend, sampled, seed
        self.rng = np.random.default_rng(seed)

    @cached_property
    def side(self) -> _Side:
        """Replicas of the trials, created on first use."""
        return _Side(self.make(), Setting(self.backend, TRIALS), range(TRIALS), self.sampled, self.seed, 1)

    def reproduces(self, outcome: Arrays, before: torch.Tensor, given: Arrays, tolerance: float) -> bool:
        """Return True if a state, or policy outputs, within the tolerance lead to an outcome.

        Args:
            outcome: Arrays of one replica after the step.
            before: State of the replica before the step.
            given: Actions, or policy outputs, of the replica.
            tolerance: Largest perturbation.

        Returns:
            True if at least one trial agrees with the outcome within the tolerance.
        """
        ctx = self.side.wrapper.ctx
        ctx.load_state(before[None])
        for name in ctx.state_names:
            if ctx[name].is_floating_point() and "." not in name and name != "rewards":
                ctx[name].copy_(torch.from_numpy(self._changed(_host(ctx[name]), tolerance)))
        inputs = {name: np.repeat(array[None], TRIALS, axis=0) for name, array in given.items()}
        if self.sampled:
            inputs = {name: self._changed(array, tolerance) for name, array in inputs.items()}
        found = self.side.step(inputs)
        gaps = [_gaps(found[name], np.repeat(array[None], TRIALS, axis=0)) for name, array in outcome.items()]
        return bool((np.max(gaps, axis=0) <= tolerance).any())

    def _changed(self, numbers: Array, tolerance: float) -> Array:
        """Return randomly perturbed numbers: by up to the tolerance in the first replica, ever less in others."""
        sizes = np.geomspace(max(tolerance, SMALLEST_CHANGE), SMALLEST_CHANGE, TRIALS)
        changes = self.rng.uniform(-1, 1, numbers.shape) * sizes.reshape(-1, *[1] * (numbers.ndim - 1))
        changed: Array = (numbers + changes * np.maximum(1, np.abs(numbers))).astype(numbers.dtype)
        return changed


def _rank(name: str) -> tuple[bool, bool]:
    return name != RNG, "." in name


def _gaps(first: Array, second: Array) -> Array:
    """Return the largest difference in each replica (float64); infinite if integers or flags differ."""
    rows = (len(first), -1)
    if first.dtype.kind != "f":
        differs = (first != second).reshape(rows).any(axis=1)
        return np.where(differs, np.inf, 0.0)
    wide, other = first.astype(np.float64), second.astype(np.float64)
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    with np.errstate(invalid="ignore"):
        gaps = np.where(same, 0.0, np.abs(wide - other) / np.maximum(1.0, np.abs(wide)))
    largest: Array = np.nan_to_num(gaps, nan=np.inf).reshape(rows).max(axis=1, initial=0.0)
    return largest


def _difference_text(name: str, ours: Array, theirs: Array, tolerance: float) -> str:
    """Return a description of an element that differs by more than the tolerance."""
    pairs = ours.reshape(-1, 1), theirs.reshape(-1, 1)
    flat = int(np.flatnonzero(_gaps(*pairs) > tolerance)[0])
    element = ", ".join(str(i) for i in np.unravel_index(flat, ours.shape)) if ours.ndim else ""
    first, second = (pair[flat, 0] for pair in pairs)
    return f"{name}{f'[{element}]' if element else ''} is {first:g} and {second:g}"


def allowed_actions(array: SpaceArray, masks: Array, rng: np.random.Generator) -> Array:
    """Return random choices allowed by masks.

    Args:
        array: The action array.
        masks: Boolean masks of shape ``[replicas, num_agents, choices]``.
        rng: Random number generator.

    Returns:
        The choices, int32 of shape ``[replicas, *array.shape]``.
    """
    keys = rng.random((len(masks), len(array.agents), sum(array.choices)))
    keys -= ~masks[:, list(array.agents), : keys.shape[2]]  # forbidden choices rank below all allowed ones
    components = np.split(keys, np.cumsum(array.choices)[:-1], axis=2)
    chosen = np.stack([component.argmax(axis=2) for component in components], axis=2)
    return chosen.astype(np.int32).reshape(len(masks), *array.shape)


def random_actions(array: SpaceArray, count: int, rng: np.random.Generator) -> Array:
    """Return random actions of ``count`` replicas; for a Box, also beyond its bounds."""
    if isinstance(array.space, spaces.Box):
        low, high = (np.nan_to_num(bound, posinf=1.0, neginf=-1.0) for bound in (array.space.low, array.space.high))
        chosen = low + rng.uniform(-0.25, 1.25, (count, *array.shape)) * (high - low)
        return np.asarray(chosen, np.float32)
    components = [rng.integers(0, choices, (count, len(array.agents)), dtype=np.int32) for choices in array.choices]
    return np.stack(components, axis=-1).reshape(count, *array.shape)


def _host(tensor: torch.Tensor) -> Array:
    array: Array = tensor.cpu().numpy().copy()
    return array
