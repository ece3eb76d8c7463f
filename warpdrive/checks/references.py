"""References with which :func:`warpdrive.testing.check_parity` compares an environment."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import gymnasium
import numpy as np
import numpy.typing as npt

from warpdrive.environment import Environment, overrides
from warpdrive.errors import DefinitionError, WarpDriveError, nearest, shown
from warpdrive.importing import load_attribute
from warpdrive.kernels.kernel import kernel
from warpdrive.random import integer, normal, uniform
from warpdrive.spaces import action_arrays, observation_arrays
from warpdrive.user_code import describe_error

Array = npt.NDArray[Any]
Put = Callable[[Any, dict[str, Any]], None] | Mapping[str, str] | None
"""Assignment of the state of a replica to an original, see :class:`GymnasiumReference`."""


@runtime_checkable
class Reference(Protocol):
    """One replica of an environment, computed by other code than the kernels."""

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from a state of the kernels.

        Args:
            state: The arrays of :meth:`warpdrive.Environment.initial_state` of one replica, its per-replica constants,
                ``active`` if agents can leave, ``timestep`` (an int), and, if the kernels draw random numbers, ``rng``,
                from which :class:`Draws` makes the numbers that the kernels draw next. They may be modified.
        """

    def step(self, actions: Any) -> Mapping[str, Any]:
        """Take one step.

        Args:
            actions: The actions of all agents, ``[num_agents, ...]``; a dict by policy tag for separate spaces.

        Returns:
            ``rewards`` ``[num_agents]`` and ``terminated``, and optionally ``truncated`` and arrays of the state after
            the step, by name. Masked elements of a NumPy masked array are not compared.
        """

    def observations(self) -> Any:
        """Return the observations of the present state: ``[num_agents, ...]``, or a dict by the names of arrays."""


class GymnasiumReference:
    """Reference that is an environment of Gymnasium, with one agent.

    Args:
        environment: The environment under test.
        original: The environment of Gymnasium; its wrappers, such as a time limit, are removed.
        put: A function ``put(original, state)`` that puts the original into a state; or the names of its attributes by
            those of the arrays. By default, each array of the state is assigned to the attribute of the same name:
            scalars as Python numbers, others as float64 or int64. Assigned arrays are compared after each step, too.
        observe: A function ``observe(original)`` that returns the original's observation, for the comparison of first
            observations, which are not compared otherwise.
    """

    def __init__(
        self,
        environment: Environment,
        original: gymnasium.Env[Any, Any],
        put: Put = None,
        observe: Callable[[Any], Any] | None = None,
    ) -> None:
        if environment.num_agents != 1:
            raise DefinitionError(
                f"{type(original).__name__} has one agent, environment '{environment.name}' has "
                f"{environment.num_agents}: give a reference with the methods set_state, step and observations"
            )
        self.original, self._observe = original.unwrapped, observe
        self._attributes = _Attributes(environment, self.original, put)
        self._discrete = isinstance(original.action_space, gymnasium.spaces.Discrete)
        self._seen: Any = None
        self.original.reset(seed=0)  # some originals create attributes for their step in it

    def set_state(self, state: dict[str, Any]) -> None:
        """Put the original into a state."""
        self._attributes.put(state)
        self._seen = None if self._observe is None else self._observe(self.original)

    def step(self, actions: Any) -> Mapping[str, Any]:
        """Take one step of the original."""
        action = int(actions[0]) if self._discrete else np.asarray(actions[0])
        self._seen, reward, terminated, _, _ = self.original.step(action)
        return {"rewards": [reward], "terminated": terminated, **self._attributes.values()}

    def observations(self) -> Any:
        """Return the original's last observation."""
        if self._seen is None:
            return {}
        if isinstance(self._seen, dict):
            return {f"observations_{key}": [seen] for key, seen in self._seen.items()}
        return [self._seen]


class PettingZooReference:
    """Reference that is a parallel environment of PettingZoo; agents are in the order of its ``possible_agents``.

    Observations and rewards of agents that are not in the original's results are not compared. ``terminated`` is
    compared with the termination of all agents, and ``active``, if the environment has it, with the terminations of
    each agent until then.

    Args:
        environment: The environment under test.
        original: The parallel environment.
        put: As in :class:`GymnasiumReference`. ``original.agents`` is set before, by ``active``, which is assigned to
            an attribute only if a dictionary names one.
        observe: A function ``observe(original)`` that returns the observations by agent, for the comparison of first
            observations.
        truncates: If True, ``truncated`` is compared as well: ``put`` must set the original's clock to
            ``state["timestep"]``.
    """

    def __init__(
        self,
        environment: Environment,
        original: Any,
        put: Put = None,
        observe: Callable[[Any], Mapping[str, Any]] | None = None,
        truncates: bool = False,
    ) -> None:
        self.names = list(original.possible_agents)
        if len(self.names) != environment.num_agents:
            raise DefinitionError(
                f"{type(original).__name__} has {len(self.names)} possible agents, environment '{environment.name}' "
                f"has {environment.num_agents}"
            )
        self.environment, self.original, self._observe, self.truncates = environment, original, observe, truncates
        self._attributes = _Attributes(environment, original.unwrapped, put, without=("active",))
        self._seen: Mapping[str, Any] = {}
        self._actions = action_arrays(environment)
        self._has_active = False
        original.reset(seed=0)

    def set_state(self, state: dict[str, Any]) -> None:
        """Put the original into a state."""
        self._has_active = "active" in state
        active = state.get("active", np.ones(len(self.names), bool))
        self.original.unwrapped.agents = [name for name, here in zip(self.names, active, strict=True) if here]
        self._attributes.put(state)
        self._seen = {} if self._observe is None else self._observe(self.original.unwrapped)

    def step(self, actions: Any) -> Mapping[str, Any]:
        """Take one step of the original with the actions of its present agents."""
        acting = set(self.original.agents)
        given: dict[str, Any] = {}
        for array in self._actions:
            rows = actions[array.path[0]] if array.path else actions
            for agent, row in zip(array.agents, rows, strict=True):
                given[self.names[agent]] = int(row) if array.choices and not np.ndim(row) else np.asarray(row)
        self._seen, rewards, terminations, truncations, _ = self.original.step(
            {name: action for name, action in given.items() if name in acting}
        )
        after: dict[str, Any] = {
            "rewards": np.ma.MaskedArray(
                [rewards.get(name, 0.0) for name in self.names], mask=[name not in rewards for name in self.names]
            ),
            "terminated": all(terminations.values()),
            **self._attributes.values(),
        }
        if self.truncates:
            after["truncated"] = any(truncations.values())
        if self._has_active and not after["terminated"]:
            gone = {name for name in self.names if terminations.get(name, True)}
            after["active"] = np.array([name not in gone for name in self.names])
        return after

    def observations(self) -> Any:
        """Return the last observations of the original's agents."""
        found: dict[str, Any] = {}
        if not self._seen:
            return found
        for array in observation_arrays(self.environment):
            keys = array.path[1:] if isinstance(self.environment.observation_space, dict) else array.path
            rows: Any = np.ma.MaskedArray(np.zeros(array.shape, array.dtype), mask=True)
            for place, agent in enumerate(array.agents):
                seen = self._seen.get(self.names[agent])
                if seen is not None:
                    rows[place] = seen[keys[0]] if keys else seen
            found[array.name] = rows
        return found


class StepReference:
    """Reference that is two functions, like ``reference_step`` and ``reference_observe`` of an environment.

    Args:
        environment: The environment under test.
        step: The function ``step(state, actions)``, which returns the state after a step, with rewards, ``terminated``
            and observations.
        observe: The function ``observe(state)``, which returns the observations of a state; None if there is none.
    """

    def __init__(
        self,
        environment: Environment,
        step: Callable[[dict[str, Any], Any], Mapping[str, Any]],
        observe: Callable[[dict[str, Any]], Any] | None = None,
    ) -> None:
        self._step, self._observe = step, observe
        self._state: dict[str, Any] = {}
        self._seen = {array.name for array in observation_arrays(environment)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        self._state = {name: value for name, value in state.items() if name not in self._seen}

    def step(self, actions: Any) -> Mapping[str, Any]:
        """Return the state after a step."""
        self._state = dict(self._step(self._state, actions))
        return self._state

    def observations(self) -> Any:
        """Return the observations of the last step; those of ``observe``, if it returned none."""
        returned = {name: self._state[name] for name in self._seen if name in self._state}
        return returned or (self._observe(self._state) if self._observe else {})


def _own(environment: Environment) -> StepReference:
    """Return the reference that is the environment's ``reference_step``."""
    if not overrides(environment, "reference_step"):
        raise DefinitionError(
            f"environment '{environment.name}' names no reference and has no reference_step: pass a reference, "
            "wd.testing.check_parity(environment, reference)"
        )
    observe = environment.reference_observe if overrides(environment, "reference_observe") else None
    return StepReference(environment, environment.reference_step, observe)


class _Attributes:
    """Attributes of an original that hold the arrays of a state."""

    def __init__(self, environment: Environment, original: Any, put: Put, without: Sequence[str] = ()) -> None:
        self.environment, self.original = environment, original
        self._put = put if callable(put) else None
        self._names = dict(put) if isinstance(put, Mapping) else {}
        self._takes_all = put is None
        if self._takes_all:
            arrays = environment.initial_state(np.random.default_rng(0))
            self._names = {name: name for name in arrays if name not in without}

    def put(self, state: dict[str, Any]) -> None:
        if self._put is not None:
            self._put(self.original, state)
            return
        if self._takes_all:
            self._names = {name: name for name in self._names if name in state}
        for name, attribute in self._names.items():
            if name not in state:
                raise DefinitionError(f"put names {shown(name)}, which is no array of the state.{nearest(name, state)}")
            if self._takes_all and not hasattr(self.original, attribute):
                raise DefinitionError(
                    f"{type(self.original).__name__} has no attribute {shown(attribute)}, which is an array of "
                    f"'{self.environment.name}': pass put=..., the names of its attributes or a function that sets them"
                )
            value = np.asarray(state[name])
            wide = value.astype(np.float64) if value.dtype.kind == "f" else value
            setattr(self.original, attribute, wide.copy() if wide.ndim else wide.item())

    def values(self) -> dict[str, Any]:
        return {name: copy.copy(getattr(self.original, attribute)) for name, attribute in self._names.items()}


class Draws:
    """The random numbers that kernels draw next with ``wd.random``, for references that draw inside their step.

    Args:
        rng: ``state["rng"]`` of :meth:`Reference.set_state`, ``[num_agents, 4]`` uint32; it is not modified.
    """

    def __init__(self, rng: npt.ArrayLike) -> None:
        self._rng = np.array(rng, np.uint32)[None]

    @property
    def rng(self) -> npt.NDArray[np.uint32]:
        """Random state after these draws, ``[num_agents, 4]``, for references whose step returns the next state."""
        state: npt.NDArray[np.uint32] = self._rng[0].copy()
        return state

    def uniform(self, agent: int) -> np.float32:
        """Return the next ``wd.random.uniform(rng, env, agent)``."""
        number: np.float32 = self._drawn(0, agent, 1)
        return number

    def normal(self, agent: int) -> np.float32:
        """Return the next ``wd.random.normal(rng, env, agent)``."""
        number: np.float32 = self._drawn(1, agent, 1)
        return number

    def integer(self, agent: int, n: int) -> int:
        """Return the next ``wd.random.integer(rng, env, agent, n)``."""
        return int(self._drawn(2, agent, n))

    def _drawn(self, kind: int, agent: int, n: int) -> Any:
        numbers, integers = np.zeros(1, np.float32), np.zeros(1, np.int32)
        _draw[1, 1](self._rng, kind, agent, n, numbers, integers)
        return integers[0] if kind == 2 else numbers[0]


@kernel
def _draw(rng, kind, agent, n, numbers, integers):  # type: ignore[no-untyped-def]
    if kind == 0:
        numbers[0] = uniform(rng, 0, agent)
    elif kind == 1:
        numbers[0] = normal(rng, 0, agent)
    else:
        integers[0] = integer(rng, 0, agent, n)


def references_of(environment: Environment, given: Any) -> tuple[str, Callable[[], Reference]]:
    """Return the name of a reference, and a function that creates one.

    Args:
        environment: The environment under test.
        given: None for the environment's own ``reference_step``; a reference, an environment of Gymnasium or a parallel
            environment of PettingZoo; a class of one of them, or a function of ``environment`` that returns one; or
            ``package.module:Name`` of any of these.

    Returns:
        The name, for reports, and the function.

    Raises:
        DefinitionError: If it is none of these.
    """
    if given is None:
        return "reference_step", lambda: _own(environment)
    if isinstance(given, str):
        if ":" not in given:
            raise DefinitionError(f"reference is {shown(given)}, expected package.module:Name or path/to/file.py:Name")
        given = load_attribute(given, f"reference {shown(given, 200)}")
    if isinstance(given, type) or inspect.isroutine(given):
        name = getattr(given, "__name__", "reference")
        return name, lambda: _adapted(environment, _created(environment, given, name))
    name = type(getattr(given, "unwrapped", given)).__name__
    return name, lambda: _adapted(environment, copy.deepcopy(given))


def _created(environment: Environment, given: Callable[..., Any], name: str) -> Any:
    arguments = () if _is_environment(given) else (environment,)
    try:
        return given(*arguments)
    except (ModuleNotFoundError, WarpDriveError):
        raise  # check_parity names the package that is missing
    except Exception as error:
        called = f"{name}({'environment' if arguments else ''})"
        raise DefinitionError(
            f"reference {called} raised {describe_error(error)}. If it needs other arguments, pass a function that "
            "takes the environment and returns the reference."
        ) from error


def _is_environment(given: Any) -> bool:
    return isinstance(given, type) and (issubclass(given, gymnasium.Env) or hasattr(given, "action_space"))


def _adapted(environment: Environment, given: Any) -> Reference:
    if isinstance(given, Reference):
        return given
    if isinstance(given, gymnasium.Env):
        return GymnasiumReference(environment, given)
    if hasattr(given, "possible_agents") and hasattr(given, "step"):
        return PettingZooReference(environment, given)
    raise DefinitionError(
        f"reference is {shown(given)}, expected a Gymnasium environment, a parallel environment of PettingZoo, or an "
        "object with the methods set_state, step and observations"
    )
