"""Comparison of an environment with a reference: an original, or another implementation of its rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces

from warpdrive import registry
from warpdrive.backends.interface import Backend
from warpdrive.checks.advice import source_line
from warpdrive.checks.agreement import JUMP, Trials, allowed_actions, random_actions
from warpdrive.checks.last_writes import LastWrites
from warpdrive.checks.references import Reference, references_of
from warpdrive.env_wrapper import EnvWrapper
from warpdrive.environment import Environment, check_environment as check_definition
from warpdrive.errors import DefinitionError, nearest, shown
from warpdrive.per_replica import per_replica_attributes
from warpdrive.spaces import SpaceArray, action_arrays, by_array, nested, observation_arrays

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
Act = Callable[[Environment, Arrays, np.random.Generator], Any]
"""Policy: maps an environment and its observations (``[replicas, agents, ...]``, by name) to actions."""

TOLERANCE = 1e-5

NOT_COMPARED = ("timestep", "rng")
"""Arrays that belong to the library."""


@dataclass(frozen=True)
class Parity:
    """Settings of the comparison of an environment with its reference; ``Environment.parity`` has its arguments.

    Attributes:
        reference: The reference, as for :func:`check_parity`; None for ``reference_step``.
        title: The name of the reference, for reports.
        tolerance: The largest difference of floats after one step from the same state: absolute for values between -1
            and 1, relative beyond.
        episode_tolerance: The same for whole episodes from the same start state; None if rounding errors grow too fast
            for that comparison.
        act: The policy; None for uniformly random actions.
        act_in_episodes: The policy for whole episodes, if rounding errors would grow too fast under ``act``.
    """

    reference: Any = None
    title: str = ""
    tolerance: float = TOLERANCE
    episode_tolerance: float | None = None
    act: Act | None = None
    act_in_episodes: Act | None = None


@dataclass(frozen=True)
class Difference:
    """First difference of an array.

    Attributes:
        array: The name of the array.
        index: The index of the element, for one replica; empty for ``terminated`` and ``truncated``.
        agent: The agent whose element it is; None if the array has no axis of agents.
        rule: ``file:line`` of the kernel's statement that wrote the element last; of the kernel, if no statement of it
            wrote the element in this step, or it cannot be interpreted.
        ours: The value of the kernels.
        theirs: The value of the reference.
        step: The number of the step in the episode; 0 for first observations.
        replica: The replica.
        actions: The actions of all agents in this step, by name.
        whole_episodes: True if the reference shared the start state of the episode only; False if it shared the state
            before the step.
        count: The number of steps in which the array differs.
    """

    array: str
    index: tuple[int, ...]
    agent: int | None
    rule: str
    ours: Any
    theirs: Any
    step: int
    replica: int
    actions: Arrays
    whole_episodes: bool
    count: int = 1

    @property
    def source(self) -> str:
        """Source text of the ``rule``; empty if it cannot be read."""
        return source_line(self.rule)

    def as_dict(self) -> dict[str, Any]:
        """Return the difference as lists, dictionaries, strings and numbers, as for JSON."""
        numbers = {name: np.asarray(getattr(self, name)).tolist() for name in ("ours", "theirs")}
        actions = {name: array.tolist() for name, array in self.actions.items()}
        return {**vars(self), **numbers, "actions": actions, "source": self.source}

    def __str__(self) -> str:
        place = f"{self.array}[{', '.join(map(str, self.index))}]" if self.index else self.array
        who = "" if self.agent is None else f" of agent {self.agent}"
        since = "the start of the episode" if self.whole_episodes else "the same state"
        times = f" ({self.count} times)" if self.count > 1 else ""
        actions = ", ".join(f"{name} {array.tolist()}" for name, array in self.actions.items())
        lines = [
            f"{place}{who} is {_shown(self.ours)}, and {_shown(self.theirs)} in the reference{times}",
            f"    in step {self.step} of an episode of replica {self.replica}, equal since {since}",
            *([f"    {actions}"] if actions and self.step else []),
            f"    rule: {self.rule}" + (f"  {self.source}" if self.source else ""),
        ]
        return "\n".join(lines)


@dataclass(repr=False)
class ParityReport:
    """Result of :func:`check_parity`; ``bool(report)`` is False if anything differed.

    Attributes:
        environment: The name of the environment.
        reference: The name of the reference.
        steps: The number of replica steps compared.
        episodes: The number of episodes that ended within them.
        terminated: The number of these that ended other than by the time limit.
        arrays: The names of the arrays compared, with the largest absolute difference within the tolerance.
        not_observed: The names of arrays of observations that the reference does not return.
        doubtful: The number of steps whose difference is explained by rounding: from another state within the
            tolerance, the result of the kernels is that of the reference. More than one in a hundred steps, and
            more than one, count as a difference. Steps in which only arrays of ``differences`` differ are not examined.
        first_doubtful: The first of these steps.
        differences: The first difference of each array, in the order of their occurrence.
    """

    environment: str
    reference: str
    steps: int = 0
    episodes: int = 0
    terminated: int = 0
    arrays: dict[str, float] = field(default_factory=dict)
    not_observed: list[str] = field(default_factory=list)
    doubtful: int = 0
    first_doubtful: Difference | None = None
    differences: list[Difference] = field(default_factory=list)

    @property
    def first(self) -> Difference | None:
        """The first difference; None if there is none."""
        return self.differences[0] if self.differences else None

    @property
    def largest(self) -> float:
        """The largest difference within the tolerance, of all arrays."""
        return max(self.arrays.values(), default=0.0)

    @property
    def is_doubtful(self) -> bool:
        """True if there are too many ``doubtful`` steps."""
        return self.doubtful > max(1, self.steps // 100)

    def __bool__(self) -> bool:
        return not self.differences and not self.is_doubtful

    def as_dict(self) -> dict[str, Any]:
        """Return the report as lists, dictionaries, strings and numbers, as for JSON."""
        doubtful = None if self.first_doubtful is None else self.first_doubtful.as_dict()
        differences = [found.as_dict() for found in self.differences]
        return {"equal": bool(self), **vars(self), "first_doubtful": doubtful, "differences": differences}

    def __str__(self) -> str:
        if self.differences:
            result = f"{len(self.differences)} arrays differ" if len(self.differences) > 1 else "1 array differs"
        else:
            by_rounding = "too many decisions depend on rounding: check their comparisons, such as < or <="
            result = by_rounding if self.is_doubtful else "equal"
        head = f"{self.environment} and {self.reference}: {result}"
        done = f"{self.steps:,} steps and {self.episodes:,} episodes compared, {self.terminated:,} terminated"
        names = ", ".join(f"{name} {largest:.1e}" if largest else name for name, largest in self.arrays.items())
        unknown = f"; not returned by the reference: {', '.join(self.not_observed)}" if self.not_observed else ""
        decisions = "1 decision depends" if self.doubtful == 1 else f"{self.doubtful} decisions depend"
        doubt = f"; {decisions} on rounding" if self.doubtful else ""
        shown = [*self.differences, *([self.first_doubtful] if self.first_doubtful and self.is_doubtful else [])]
        return "\n".join([f"{head} ({done}{doubt})", f"  arrays: {names}{unknown}", *(f"  {found}" for found in shown)])

    __repr__ = __str__


def check_parity(
    environment: str | Environment,
    reference: Any = None,
    episodes: int = 100,
    seed: int = 0,
    *,
    steps: int = 0,
    whole_episodes: bool | None = None,
    tolerance: float | None = None,
    act: Act | None = None,
    replicas: int = 20,
    backend: str | Backend = "auto",
    on_episodes: Callable[[int], None] = lambda number: None,
) -> ParityReport:
    """Step an environment and a reference from the same states with the same actions, and compare the results.

    ```python
    def test_my_game():
        assert wd.testing.check_parity(MyGame(), OriginalEnv, episodes=200)
    ```

    Integers and flags must be equal, floats within a tolerance. The report, which is False if anything differs, has the
    first difference of each array with its agent, its step and the statement of the kernel that wrote it. After a
    difference the reference continues from the state of the kernels.

    Compared are the first observations of each episode, and after each step the rewards, ``terminated``, the
    observations, and all other arrays that the reference returns. See the guide to porting environments.

    Args:
        environment: The environment, or its registered name.
        reference: A :class:`Reference`, a Gymnasium environment or a PettingZoo parallel environment; a class of these,
            or a function that returns one for the environment; or ``package.module:Name`` of any of these. If None, the
            reference that the environment specifies, otherwise its ``reference_step``.
        episodes: The minimum number of episodes that end, in each of the two comparisons.
        seed: The seed of start states, actions and random numbers.
        steps: The minimum number of replica steps, in each of the two comparisons.
        whole_episodes: If True, the reference shares the start state of each episode only; if False, it is set to the
            state of the kernels before each step. If None, both, except: whole episodes only if the state has no
            floats, as nothing is rounded; single steps only if it has and there is no tolerance for episodes.
        tolerance: The largest difference of floats, absolute for values between -1 and 1, relative beyond. If None,
            the tolerance that the environment specifies, otherwise 1e-5.
        act: The policy, ``act(environment, observations, rng)``: maps the observations of all replicas, by name, to
            actions ``[replicas, num_agents, ...]``. If None, the policy that the environment specifies, or random
            actions.
        replicas: The number of replicas.
        backend: The backend of the kernels, or its name.
        on_episodes: A callback, called with the number of episodes after each step.

    Returns:
        The report.

    Raises:
        DefinitionError: If the environment or the reference is invalid.
        KernelError: If a kernel cannot be compiled.
    """
    env = registry.make(environment) if isinstance(environment, str) else environment
    check_definition(env)
    settings = _settings(env, reference)
    name, make = references_of(env, settings.reference)
    report = ParityReport(env.name, settings.title or name)
    has_floats = any(np.asarray(a).dtype.kind == "f" for a in env.initial_state(np.random.default_rng(seed)).values())
    if whole_episodes is not None:
        kinds = [whole_episodes]
    elif has_floats:
        kinds = [False] + [True] * (settings.episode_tolerance is not None)
    else:
        kinds = [True]
    for whole in kinds:
        stated = settings.episode_tolerance if whole else None
        allowed = tolerance if tolerance is not None else settings.tolerance if stated is None else stated
        policy = act or (settings.act_in_episodes if whole else None) or settings.act or random_policy
        count = min(replicas, episodes) if episodes else replicas
        try:
            comparison = _Comparison(env, make, whole, allowed, report, count, backend, seed)
            comparison.run(episodes, steps, policy, on_episodes)
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            raise DefinitionError(
                f"the reference of '{env.name}' needs {package}, which is not installed: pip install {package}"
            ) from error
    report.not_observed = [array.name for array in observation_arrays(env) if array.name not in report.arrays]
    return report


def _settings(env: Environment, reference: Any) -> Parity:
    """Return the settings that an environment names, or defaults, with the reference given."""
    try:
        found = Parity(**env.parity)
    except TypeError as error:
        raise DefinitionError(
            f"parity of environment '{env.name}' is {shown(env.parity)}, expected arguments of Parity: {error}"
        ) from None
    return found if reference is None else replace(found, reference=reference, title="")


@dataclass(frozen=True)
class _Step:
    """A step of one replica, taken by the kernels and by the reference.

    Attributes:
        replica: The replica.
        number: The number of the step in the episode; 0 for first observations.
        ours: The arrays after the step, by name.
        theirs: Those of the reference.
        actions: The actions of all agents, by name.
        before: The saved state before the step, ``[bytes]``.
    """

    replica: int
    number: int
    ours: Arrays
    theirs: Arrays
    actions: Arrays
    before: torch.Tensor


class _Comparison:
    """Replicas of an environment, and a reference for each."""

    def __init__(
        self,
        env: Environment,
        make: Callable[[], Reference],
        whole: bool,
        tolerance: float,
        report: ParityReport,
        replicas: int,
        backend: str | Backend,
        seed: int,
    ) -> None:
        self.env, self.whole, self.tolerance, self.report, self.seed = env, whole, tolerance, report, seed
        pool = max(replicas, 100)
        self.wrapper = EnvWrapper(env, replicas, backend, seed, auto_reset=False, reset_pool_size=pool)
        self.references = [make() for _ in range(replicas)] if whole else [make()] * replicas
        self.state_names = [*env.initial_state(np.random.default_rng(0)), *per_replica_attributes(env)]
        self.seen = {array.name: array for array in observation_arrays(env)}
        self.acted = action_arrays(env)
        self.last_writes = LastWrites(env)

    @cached_property
    def trials(self) -> Trials:
        """Replicas for trials from other states within the tolerance."""
        return Trials(lambda: self.env, self.wrapper.backend, False, self.seed)

    def run(self, episodes: int, steps: int, act: Act, on_episodes: Callable[[int], None]) -> None:
        """Compare until a number of episodes have ended, and a number of steps were taken."""
        rng, first = np.random.default_rng(self.seed), (self.report.steps, self.report.episodes)
        continues = np.zeros(self.wrapper.num_envs, bool)  # the reference's own state
        while self.report.steps - first[0] < steps or self.report.episodes - first[1] < episodes:
            before = self._arrays()
            seen = before if act is random_policy else {name: before[name] for name in self.seen}
            actions = act(self.env, seen, rng)
            saved = self.wrapper.ctx.save_state()
            self.wrapper.step(actions)  # checks them
            given = self._clipped(_by_name(actions))
            after = self._arrays()
            ended = after["terminated"] | after["truncated"]
            for e, reference in enumerate(self.references):
                own = {name: array[e] for name, array in given.items()}
                if not continues[e]:
                    reference.set_state(self._state(before, e))
                    if not before["timestep"][e]:
                        ours = {name: before[name][e] for name in self.seen}
                        self._check(_Step(e, 0, ours, self._observed(reference), {}, saved[e]))
                theirs = self._stepped(reference, own)
                ours = {name: array[e] for name, array in after.items()}
                agrees = self._check(_Step(e, int(before["timestep"][e]) + 1, ours, theirs, own, saved[e]))
                continues[e] = self.whole and agrees and not ended[e]
            self.report.steps += len(ended)
            self.report.episodes += int(ended.sum())
            self.report.terminated += int(after["terminated"].sum())
            on_episodes(self.report.episodes)
            if ended.any():
                self.wrapper.reset(where=torch.from_numpy(ended).to(self.wrapper.device))
        self.wrapper.close()

    def _stepped(self, reference: Reference, actions: Arrays) -> Arrays:
        """Take a step of the reference; return its results and observations by name."""
        returned = reference.step(nested(self.acted, lambda array: actions[array.name]))
        for name in ("rewards", "terminated"):
            if name not in returned:
                raise DefinitionError(f"step of the reference {self.report.reference} returned no '{name}'")
        return {name: _as_array(value) for name, value in returned.items()} | self._observed(reference)

    def _clipped(self, actions: Arrays) -> Arrays:
        """Clip actions of a Box to its bounds, as ``EnvWrapper.step`` does but references may not."""
        boxes = [(array.name, array.space) for array in self.acted if isinstance(array.space, spaces.Box)]
        return actions | {name: np.clip(actions[name], box.low, box.high) for name, box in boxes}

    def _arrays(self) -> Arrays:
        context = self.wrapper.ctx
        names = (name for name in context.state_names if "." not in name and not name.startswith("final_"))
        return {name: context[name].cpu().numpy().copy() for name in names}

    def _state(self, arrays: Arrays, e: int) -> dict[str, Any]:
        names = [*self.state_names, *(name for name in ("active", "rng") if name in arrays)]
        state: dict[str, Any] = {name: arrays[name][e].copy() for name in names}
        return state | {"timestep": int(arrays["timestep"][e])}

    def _observed(self, reference: Reference) -> Arrays:
        return {n: _as_array(value) for n, value in by_array(self.seen.values(), reference.observations()).items()}

    def _check(self, step: _Step) -> bool:
        """Compare a step with that of the reference; return True if they agree."""
        wrong: dict[str, Array] = {}
        for name, expected in step.theirs.items():
            if name in NOT_COMPARED:
                continue
            if name not in step.ours:
                expected_names = sorted({*step.ours} - {*NOT_COMPARED}) if step.number else list(self.seen)
                raise DefinitionError(
                    f"the reference {self.report.reference} returned '{name}', expected arrays of environment "
                    f"'{self.env.name}': {', '.join(expected_names)}.{nearest(name, expected_names)}"
                )
            found = step.ours[name]
            if found.shape != expected.shape:
                raise DefinitionError(
                    f"'{name}' of the reference {self.report.reference} has the shape {expected.shape}, that of the "
                    f"environment {found.shape}"
                )
            differs, largest = self._compared(found, expected)
            self.report.arrays[name] = max(self.report.arrays.get(name, 0.0), 0.0 if differs.any() else largest)
            if differs.any():
                wrong[name] = differs
        if not wrong:
            return True
        names = sorted(wrong, key=self._rank)
        differences = self.report.differences
        places = {earlier.array: place for place, earlier in enumerate(differences)}
        is_known = all(name in places for name in names)  # trials take far longer than a step
        if step.number and not is_known and self._depends_on_rounding(step, wrong):
            self.report.doubtful += 1
            if self.report.first_doubtful is None:
                self.report.first_doubtful = self._difference(names[0], wrong[names[0]], step)
            return False
        for name in names:
            if name in places:
                earlier = differences[places[name]]
                differences[places[name]] = replace(earlier, count=earlier.count + 1)
            else:
                differences.append(self._difference(name, wrong[name], step))
        return False

    def _compared(self, ours: Array, theirs: Array) -> tuple[Array, float]:
        """Return a mask of the elements that differ, and the largest absolute difference of floats."""
        expected = np.asarray(np.ma.getdata(theirs))
        if np.ma.getmask(theirs) is np.ma.nomask:  # the usual cases, fast
            if np.array_equal(ours, expected):
                return np.zeros((), bool), 0.0
            if ours.dtype.kind == "f":
                with np.errstate(invalid="ignore"):
                    largest = float(np.abs(np.subtract(ours, expected, dtype=np.float64)).max(initial=0.0))
                if largest <= self.tolerance:
                    return np.zeros((), bool), largest
        masked = np.ma.getmaskarray(theirs)
        if ours.dtype.kind != "f":
            return (ours != expected) & ~masked, 0.0
        wide, other = ours.astype(np.float64), expected.astype(np.float64)
        same = (wide == other) | (np.isnan(wide) & np.isnan(other)) | masked
        with np.errstate(invalid="ignore"):
            gaps = np.where(same, 0.0, np.abs(wide - other))
            within = np.isfinite(gaps) & (gaps <= self.tolerance * np.maximum(1.0, np.abs(other)))
        return ~within & ~same, float(gaps.max(initial=0.0))

    def _depends_on_rounding(self, step: _Step, wrong: dict[str, Array]) -> bool:
        ours, theirs = step.ours, step.theirs
        if not any(ours[name].dtype.kind == "f" for name in self.state_names if name in ours) or not self.tolerance:
            return False
        is_decision = any(ours[name].dtype.kind != "f" for name in wrong)
        for name, differs in wrong.items():
            gaps = np.abs(ours[name].astype(np.float64) - np.ma.getdata(theirs[name]))[differs]
            is_decision |= bool((gaps > JUMP * self.tolerance).any())
        if not is_decision:
            return False
        is_over = bool(theirs["terminated"] or ours["terminated"] or ours["truncated"])
        outcome = {"rewards": theirs["rewards"], "terminated": theirs["terminated"]}
        if not is_over:  # otherwise the trials have begun another episode
            outcome |= {name: array for name, array in theirs.items() if name in ours and name not in NOT_COMPARED}
        whole = {name: np.ma.getdata(array) for name, array in outcome.items() if not np.ma.getmaskarray(array).any()}
        return self.trials.reproduces(
            {name: array.astype(ours[name].dtype) for name, array in whole.items()},
            step.before.cpu(),
            {name: array.astype(ours[name].dtype) for name, array in step.actions.items()},
            self.tolerance,
        )

    def _rank(self, name: str) -> int:
        """Return the place of an array in reports: the state, which explains all others, first."""
        others = ["terminated", "truncated", "rewards", *self.seen]
        return others.index(name) + 1 if name in others else 0

    def _difference(self, name: str, differs: Array, step: _Step) -> Difference:
        ours, theirs = step.ours[name], step.theirs[name]
        index = tuple(int(i) for i in np.argwhere(differs)[0])
        if name in self.seen:
            agent: int | None = self.seen[name].agents[index[0]]
        else:
            agent = index[0] if index and ours.shape[0] == self.env.num_agents else None
        rule = self.last_writes.line_of(name, index, step.before.cpu(), step.actions) if step.number else ""
        return Difference(
            array=name,
            index=index,
            agent=agent,
            rule=rule or self._kernel(name),
            ours=ours[index],
            theirs=theirs[index],
            step=step.number,
            replica=step.replica,
            actions=step.actions,
            whole_episodes=self.whole,
        )

    def _kernel(self, name: str) -> str:
        kernel = (self.env.observe if name in self.seen else None) or self.env.step
        return str(kernel.where)


def random_policy(env: Environment, observations: Arrays, rng: np.random.Generator) -> Any:
    """Return random actions, of a Box often its bounds; those that ``action_mask`` allows, if it is an observation."""
    count = len(next(iter(observations.values())))

    def actions_of(array: SpaceArray) -> Array:
        if array.choices and "action_mask" in observations:
            return allowed_actions(array, observations["action_mask"], rng)
        return random_actions(array, count, rng)

    return nested(action_arrays(env), actions_of)


def _as_array(value: Any) -> Array:
    """Return an array, with its mask if it or its parts have one."""
    if isinstance(value, np.ndarray):
        return value
    is_number = isinstance(value, (bool, int, float, np.generic))
    return np.asarray(value) if is_number else np.ma.asanyarray(value)


def _by_name(actions: Any) -> Arrays:
    if isinstance(actions, Mapping):
        return {f"actions_{tag}": np.asarray(array) for tag, array in actions.items()}
    return {"actions": np.asarray(actions)}


def _shown(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, (float, np.floating)) else str(value)
