"""Black-box checks of environments: spaces, resets, determinism, reference implementation."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces

from warpdrive.backends.interface import Backend
from warpdrive.checks import advice
from warpdrive.checks.agreement import RNG, allowed_actions
from warpdrive.checks.environment import CheckingBackend, is_written_for
from warpdrive.checks.findings import Finding, Report
from warpdrive.env_wrapper import EnvWrapper
from warpdrive.environment import Environment, State, overrides
from warpdrive.errors import nearest
from warpdrive.per_replica import per_replica_attributes
from warpdrive.spaces import SpaceArray, action_arrays, by_array, observation_arrays

Array = npt.NDArray[Any]

TOLERANCE = 1e-4
"""Largest allowed difference of floats, absolute and relative."""


def check_environment_behaviour(
    env: Environment,
    steps: int = 50,
    replicas: int = 4,
    seed: int = 0,
    backend: str | Backend = "auto",
    tolerance: float = TOLERANCE,
    on_step: Callable[[], None] = lambda: None,
) -> Report:
    """Check an environment over random steps, in which every replica also ends an episode.

    The environment must

    - stay within its observation space, with finite observations and rewards (``spaces``),
    - begin each episode with observations of its start (``resets``),
    - be deterministic for a seed, whatever the number of replicas (``determinism``),
    - agree with ``reference_step`` and ``reference_observe``, if defined (``reference``).

    Args:
        env: The environment.
        steps: Number of steps per replica.
        replicas: Number of replicas.
        seed: Seed of start states and actions.
        backend: Backend, or its name.
        tolerance: Largest allowed difference of floats from the reference, absolute and relative.
        on_step: Callback that is called after each step.

    Returns:
        The report.

    Raises:
        DefinitionError: If the environment is not valid.
        KernelError: If a kernel cannot be compiled.
    """
    report = Report()
    play = _Play(env, backend, steps, replicas, seed)
    reference = _Reference(env, report, tolerance)
    reference.check_start(play.first)
    recorded = []
    for step in play:
        _check_spaces(env, step, report)
        _check_first_observations(env, step, play.first, report)
        reference.check(step)
        recorded.append(step)
        on_step()
    _check_resets(play, recorded, report)
    play.wrapper.close()
    for count in (replicas, 2 * replicas + 1):
        again = _Play(env, backend, steps, count, seed)
        _check_same(play.first, recorded, again, 0.0 if again.is_exact else tolerance, report)
        again.wrapper.close()
    return report


@dataclass
class _Step:
    """Record of one step of all replicas. Arrays, by name, have a row per replica.

    ``state`` is the state from which a wrapper can repeat the step. ``before`` and ``after`` hold the arrays available
    to kernels; in ``after``, replicas whose episode ended have begun the next. ``final`` holds the final observations
    of episodes that ended.
    """

    number: int
    state: torch.Tensor
    before: State
    actions: dict[str, Array]
    after: State
    final: State

    @property
    def ended(self) -> Array:
        ended: Array = self.after["terminated"] | self.after["truncated"]
        return ended

    def observations_after(self, name: str) -> Array:
        """Return observations at the end of the step, before any reset."""
        ended = self.ended.reshape(-1, *[1] * (self.after[name].ndim - 1))
        return np.where(ended, self.final[name], self.after[name])


class _Play:
    """Random steps of an environment. The trajectory of a replica depends on the seed alone.

    Attributes:
        first: Arrays after the first reset.
        is_exact: True if another play must be identical bit for bit. On a GPU, atomic additions of floats have no
            fixed order.
    """

    def __init__(self, env: Environment, backend: str | Backend, steps: int, replicas: int, seed: int) -> None:
        self.env, self.steps, self.seed = env, steps, seed
        self.wrapper = EnvWrapper(env, replicas, backend, seed)
        self.is_exact = self.wrapper.device.type == "cpu"
        self.first = self.arrays()
        # Whatever the episode length, one ends in every replica, each a few steps after that of the replica before.
        ends = 7 * np.arange(replicas) % min(steps, env.episode_length)
        self.wrapper.ctx["timestep"].copy_(torch.from_numpy((env.episode_length - 1 - ends).astype(np.int32)))

    def __iter__(self) -> Iterator[_Step]:
        before = self.arrays()
        for number in range(1, self.steps + 1):
            state = self.wrapper.ctx.save_state()
            actions = {
                array.name: self._random(array, before, np.random.default_rng([self.seed, number, place]))
                for place, array in enumerate(action_arrays(self.env))
            }
            self.wrapper.step(_as_given(actions))
            after = self.arrays()
            names = [array.name for array in observation_arrays(self.env)]
            final = {name: _host(self.wrapper.ctx[f"final_{name}"]) for name in names}
            yield _Step(number, state, before, actions, after, final)
            before = after

    def arrays(self) -> State:
        """Return a copy of the arrays available to kernels."""
        context = self.wrapper.ctx
        own = (name for name in context.state_names if "." not in name and not name.startswith("final_"))
        return {name: _host(context[name]) for name in own}

    def _random(self, array: SpaceArray, state: State, rng: np.random.Generator) -> Array:
        """Return random actions, drawn replica by replica, so that they do not depend on the number of replicas."""
        everything = np.ones((self.wrapper.num_envs, self.wrapper.num_agents, sum(array.choices)), np.bool_)
        masks = state.get("action_mask", everything)
        return np.stack([_random_actions(array, mask, rng) for mask in masks])


def _as_given(actions: dict[str, Array]) -> Any:
    """Return actions as passed to ``step``: the only array, or a dict by tag."""
    return actions.get("actions", {name.partition("_")[2]: given for name, given in actions.items()})


def _random_actions(array: SpaceArray, mask: Array, rng: np.random.Generator) -> Array:
    """Return random actions of one replica that the mask ``[num_agents, choices]`` allows."""
    if isinstance(array.space, spaces.Box):
        low, high = (np.nan_to_num(bound, posinf=1.0, neginf=-1.0) for bound in (array.space.low, array.space.high))
        return rng.uniform(low, high, array.shape).astype(np.float32)
    chosen: Array = allowed_actions(array, mask[None], rng)[0]
    return chosen


def _check_spaces(env: Environment, step: _Step, report: Report) -> None:
    rewards = step.after["rewards"]
    if not np.isfinite(rewards).all():
        replica, agent = _first(~np.isfinite(rewards))
        message = f"in step {step.number} the reward of agent {agent} is {rewards[replica, agent]}"
        _find_not_finite(env, env.step, "rewards", replica, (agent,), message, step, report)
    for array in observation_arrays(env):
        ended = step.ended.reshape(-1, *[1] * (step.after[array.name].ndim - 1))
        whole = np.ones_like(ended)
        for seen, rows, when in (
            (step.observations_after(array.name), whole, f"in step {step.number}"),
            (step.after[array.name], ended, f"at the start of the episode after step {step.number}"),
        ):
            _check_observations(env, array, seen, rows, when, step, report)


def _check_observations(
    env: Environment, array: SpaceArray, seen: Array, rows: Array, when: str, step: _Step, report: Report
) -> None:
    """Report the first observation outside of its space, among those of the replicas that ``rows`` selects."""
    low, high = _bounds(array.space)
    room = TOLERANCE * (1 + np.maximum(*(np.nan_to_num(np.abs(b), posinf=0) for b in (low, high))))  # for rounding
    wrong = (~((seen >= low - room) & (seen <= high + room)) | ~np.isfinite(seen)) & rows
    if not wrong.any():
        return
    replica, row, *rest = _first(wrong)
    element = (replica, row, *rest)
    bounds = ", ".join(f"{np.broadcast_to(bound, seen.shape)[element]:g}" for bound in (low, high))
    message = f"{when} agent {array.agents[row]} observes {seen[element]:g} in {array.name}"
    message += f"[{', '.join(map(str, (row, *rest)))}], which is outside of its space [{bounds}]"
    observe, place = env.observe or env.step, (array.name, replica, (row, *rest), message)
    if np.isfinite(seen[element]):
        report.add(_finding("spaces", observe, *place, advice.OUTSIDE_OF_SPACE))
    else:
        _find_not_finite(env, observe, *place, step, report)


def _find_not_finite(
    env: Environment,
    kernel: Any,
    array: str,
    replica: int,
    index: tuple[int, ...],
    message: str,
    step: _Step,
    report: Report,
) -> None:
    """Report NaN or infinity in an array with the line that first wrote it, found by the interpreter."""
    known = next((finding for finding in report.spaces if (finding.array, finding.advice) == (array, advice.NAN)), None)
    if known is not None:  # report the line only once: the interpreter is slow
        report.add(replace(known, count=1))
        return
    lines = None
    if is_written_for(env, "Python"):
        interpreted = Report()
        alone = EnvWrapper(env, 1, CheckingBackend(interpreted, nan=True), first_env=replica)
        alone.ctx.load_state(step.state[[replica]], [0])
        alone.step(_as_given({name: actions[[replica]] for name, actions in step.actions.items()}))
        alone.close()
        if interpreted.nan:
            first = interpreted.nan[0]
            lines, message = first.lines, f"{message}: {first.message}"
    report.add(_finding("spaces", kernel, array, replica, index, message, advice.NAN, lines))


def _bounds(space: spaces.Space[Any]) -> tuple[Array, Array]:
    if isinstance(space, spaces.Box):
        return space.low, space.high
    choices = space.n if isinstance(space, spaces.Discrete) else getattr(space, "nvec", 1)
    return np.zeros_like(choices), np.asarray(choices) - 1


def _check_first_observations(env: Environment, step: _Step, first: State, report: Report) -> None:
    """Compare observations after an episode's end with the first ones, if every episode begins alike."""
    if env.reset is not None or "rng" in first:
        return
    for array in observation_arrays(env):
        begun, expected = step.after[array.name], first[array.name]
        began_anew = step.ended & ~step.after.get("continued", np.zeros_like(step.ended))
        wrong = ~_close(begun, expected, 0.0) & began_anew.reshape(-1, *[1] * (begun.ndim - 1))
        _find_stale(env, array.name, wrong, f"after the episode that ended in step {step.number}", report)


def _check_resets(play: _Play, recorded: Sequence[_Step], report: Report) -> None:
    """Reset replicas with different previous observations and actions, which must not affect the new observations.

    Elements that no step has changed are ignored: they need never be written.
    """
    env, context = play.env, play.wrapper.ctx
    state = context.save_state()
    begun = []
    for bound in (0, 1):
        context.load_state(state)
        for array in (*observation_arrays(env), *action_arrays(env)):
            value = np.nan_to_num(_bounds(array.space)[bound], posinf=1.0, neginf=-1.0)
            context[array.name].copy_(torch.from_numpy(np.broadcast_to(value, array.shape).astype(array.dtype)))
        play.wrapper.reset()
        begun.append(play.arrays())
    for array in observation_arrays(env):
        name = array.name
        seen = [play.first[name], *(step.observations_after(name) for step in recorded)]
        is_used = (np.stack(seen) != seen[0]).any(axis=(0, 1))
        _find_stale(env, name, ~_close(begun[0][name], begun[1][name], 0.0) & is_used, "after a reset", report)


def _find_stale(env: Environment, name: str, wrong: Array, when: str, report: Report) -> None:
    if wrong.any():
        replica, *element = _first(wrong)
        place = f"{name}[{', '.join(map(str, element))}]"
        message = f"{when}, {name} are not those of the new episode: {place} depends on its previous value"
        kernel = env.observe or env.step
        report.add(_finding("resets", kernel, name, replica, tuple(element), message, advice.STALE))


_FAILED = object()
"""Result of a reference that raised an error."""


class _Reference:
    """Comparison with ``reference_step`` and ``reference_observe``, if the environment defines them."""

    def __init__(self, env: Environment, report: Report, tolerance: float) -> None:
        self.env, self.report, self.tolerance = env, report, tolerance
        self.can_step, self.can_observe = overrides(env, "reference_step"), overrides(env, "reference_observe")
        self.state_names = [*env.initial_state(np.random.default_rng(0)), *per_replica_attributes(env)]
        if not self.can_step:
            report.note("it has no reference_step to compare with")

    def check_start(self, first: State) -> None:
        if not self.can_observe:
            return
        for replica in range(len(first["timestep"])):
            result = self._run("reference_observe", 0, replica, self._state(first, replica))
            if result is None:
                self._add("reference_observe", "", replica, "reference_observe returned None, expected observations")
            elif result is not _FAILED:
                expected = by_array(observation_arrays(self.env), result)
                self._compare("reference_observe", 0, replica, {n: a[replica] for n, a in first.items()}, expected)

    def check(self, step: _Step) -> None:
        if not self.can_step:
            return
        for replica in range(len(step.ended)):
            actions = {name: given[replica] for name, given in step.actions.items()}
            state = self._state(step.before, replica)
            expected = self._run("reference_step", step.number, replica, state, _as_given(actions))
            if expected is _FAILED:
                continue
            if not isinstance(expected, dict):
                self._add("reference_step", "", replica, f"reference_step returned {expected!r}, expected a dict")
                continue
            found = {name: array[replica] for name, array in step.after.items()}
            found |= {
                array.name: step.observations_after(array.name)[replica] for array in observation_arrays(self.env)
            }
            if step.ended[replica]:  # the state already belongs to the next episode
                known = {*(array.name for array in observation_arrays(self.env)), "rewards", "terminated"}
                expected = {name: value for name, value in expected.items() if name in known}
            self._compare("reference_step", step.number, replica, found, expected)

    def _state(self, arrays: State, replica: int) -> State:
        names = [*self.state_names, *(name for name in ("active", RNG) if name in arrays)]
        state: dict[str, Any] = {name: arrays[name][replica].copy() for name in names}
        return state | {"timestep": int(arrays["timestep"][replica])}

    def _run(self, name: str, number: int, replica: int, *arguments: Any) -> Any:
        try:
            return getattr(self.env, name)(*arguments)
        except ModuleNotFoundError as error:
            self.report.note(f"its reference was not compared: {error.name} is not installed")
            self.can_step = self.can_observe = False
            return _FAILED
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            message = f"{name} raised {type(error).__name__} in step {number}: {error}"
            self._add(name, "", replica, message, lines=(f"{place.filename}:{place.lineno}",))
            return _FAILED

    def _compare(self, source: str, number: int, replica: int, found: State, expected: State) -> None:
        missing = [name for name in ("rewards", "terminated") if name not in expected and source == "reference_step"]
        for name in missing:
            self._add(source, name, replica, f"{source} returned no '{name}'")
        for name, value in expected.items():
            if name == RNG:
                continue
            if name not in found:
                message = (
                    f"{source} returned '{name}', expected one of {', '.join(sorted(found))}.{nearest(name, found)}"
                )
                self._add(source, name, replica, message)
                continue
            ours, theirs = np.asarray(found[name]), np.asarray(value)
            if ours.shape != theirs.shape:
                message = f"{name} of the kernels has the shape {ours.shape}, that of {source} {theirs.shape}"
                self._add(source, name, replica, message)
            elif (wrong := ~_close(ours, theirs, self.tolerance)).any():
                element = _first(wrong)
                place = f"{name}[{', '.join(map(str, element))}]" if element else name
                message = f"{place} is {ours[element]:g} after step {number}, and {theirs[element]:g} by {source}"
                self._add(source, name, replica, message, element)

    def _add(
        self, source: str, name: str, replica: int, message: str, index: tuple[int, ...] = (), lines: Any = None
    ) -> None:
        kernel = (self.env.observe if name.startswith("observations") else None) or self.env.step
        finding = _finding("reference", kernel, f"{name} ({source})", replica, index, message, advice.REFERENCE, lines)
        self.report.add(finding)


def _check_same(first: State, recorded: Sequence[_Step], other: _Play, tolerance: float, report: Report) -> None:
    """Compare a play with another, which may have more replicas, and report the first difference."""
    count = len(first["timestep"])
    others = other.wrapper.num_envs
    pairs = [(0, first, other.first)]
    pairs += [
        (ours.number, ours.after | _renamed(ours.final), theirs.after | _renamed(theirs.final))
        for ours, theirs in zip(recorded, other, strict=True)
    ]
    for number, ours, theirs in pairs:
        wrong = {name: ~_close(value, theirs[name][:count], tolerance) for name, value in ours.items()}
        for name in (name for name, differs in wrong.items() if differs.any()):
            element = _first(wrong[name])
            message = f"{name}[{', '.join(map(str, element))}] is {ours[name][element]:g} after step {number}, and "
            message += f"{theirs[name][element]:g} with {others} replicas and the same seed"
            remedy = advice.NOT_DETERMINISTIC
            report.add(_finding("determinism", other.env.step, name, element[0], element[1:], message, remedy))
            return


def _renamed(final: State) -> State:
    return {f"final_{name}": array for name, array in final.items()}


def _close(ours: Array, theirs: Array, tolerance: float) -> Array:
    if ours.dtype.kind == "f" and tolerance:
        return np.isclose(ours, theirs, rtol=tolerance, atol=tolerance, equal_nan=True)
    same: Array = (ours == theirs) | ((ours != ours) & (theirs != theirs))  # both may be NaN
    return same


def _first(wrong: Array) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(wrong)[0])


def _finding(
    kind: str,
    kernel: Any,
    array: str,
    replica: int,
    index: tuple[int, ...],
    message: str,
    what_to_do: str,
    lines: tuple[str, ...] | None = None,
) -> Finding:
    return Finding(kind, array, index, (), (replica,), lines or (kernel.where,), message, what_to_do)


def _host(tensor: torch.Tensor) -> Array:
    array: Array = tensor.cpu().numpy().copy()
    return array
