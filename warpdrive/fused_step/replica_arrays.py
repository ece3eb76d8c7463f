"""Creation and initialisation of the arrays that hold the replicas of an environment."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces

from warpdrive import random
from warpdrive.adapted import original_of, team_of
from warpdrive.device_context import DeviceContext, host_memory, torch_dtype
from warpdrive.environment import Environment, KernelFunctions, State, functions_in_every_language
from warpdrive.errors import DefinitionError, nearest, shown
from warpdrive.fused_step.binding import NUM_ENVS, Binding, named_parameters
from warpdrive.kernels.compile_time import ON_GPU
from warpdrive.per_replica import per_replica_attributes
from warpdrive.spaces import SpaceArray, action_arrays, extended_arrays, observation_arrays, written_observation_arrays
from warpdrive.user_code import user_code

_LONGEST_DRAWING = 30
"""Limit on the processor time in seconds for drawing the start states of a pool."""
_MAX_STARTS = 500  # default pool size; a draw takes 0.01 to 1 ms
_MAX_BYTES_OF_STARTS = 1 << 26
_PYTHON_BYTES = 200
"""Approximate memory overhead of a NumPy array in bytes."""
_ON_THE_DEVICE = "The kernel function 'reset' of an environment can draw starts on the device: docs/guides/authoring.md"

Shapes = dict[str, tuple[tuple[int, ...], npt.DTypeLike]]

_MAY_START = ("observations", "active", "action_mask")
"""Prefixes of the reserved arrays that ``initial_state`` may initialise."""


def make_replica_arrays(
    environment: Environment,
    functions: KernelFunctions,
    context: DeviceContext,
    seed: int,
    first_env: int,
    pool_size: int | None,
) -> Binding:
    """Declare, allocate and initialise every array of a validated environment.

    Args:
        environment: The environment.
        functions: Its kernel functions.
        context: The device context that the arrays are added to.
        seed: The seed of the run.
        first_env: The global index of the first replica.
        pool_size: The number of start states; None for a default.

    Returns:
        The binding of the parameters of kernel functions.

    Raises:
        DefinitionError: If the start states are invalid.
        KernelError: If a parameter of a kernel function is unbound.
    """
    starts = _draw_starts(environment, seed, pool_size)
    constants = _constants(environment, seed, first_env, context.num_envs)
    reserved, own = _reserved(environment, starts[0]), _own(environment)
    taken = reserved | own | dict.fromkeys(("shapes", "things") if environment.draw else (), ((), np.float32))
    taken |= {NUM_ENVS: ((), np.int32), ON_GPU: ((), np.bool_)}
    for name in constants.keys() & taken.keys():
        raise DefinitionError(f"attribute '{name}' of {type(environment).__name__} has the name of a reserved array")
    _check_starts(environment, starts, taken | _shapes(constants))
    for name in {"active", "action_mask"} & reserved.keys():  # all agents are active, and all actions allowed
        for start in starts:
            start.setdefault(name, np.ones(reserved[name][0], np.bool_))
    arrays = {name: (value.shape, value.dtype) for name, value in starts[0].items()} | reserved | _shapes(constants)
    for name in environment.global_state:
        if name not in arrays:
            raise DefinitionError(
                f"global_state of {type(environment).__name__} has the name {shown(name)}, expected one of "
                f"{', '.join(arrays)}.{nearest(name, arrays)}"
            )
    for name, (shape, dtype) in (arrays | own).items():
        context.declare(name, shape, dtype)
    context.allocate()
    _fill(environment, context, starts, seed, first_env)
    for name, rows in constants.items():
        _copy(context[name], rows)
    binding = Binding(environment, functions, context, arrays, constants)
    for kernel in functions:
        binding.check(kernel)
    return binding


def reseed_replica_arrays(environment: Environment, context: DeviceContext, seed: int, first_env: int) -> None:
    """Refill start states, random streams and per-replica constants in place, as for a run with another seed.

    Args:
        environment: The environment.
        context: The device context that :func:`make_replica_arrays` filled.
        seed: The new seed.
        first_env: The global index of the first replica.

    Raises:
        DefinitionError: If the start states are invalid.
    """
    pool = {name.removeprefix("pool."): context[name] for name in context if name.startswith("pool.")}
    starts = _draw_starts(environment, seed, len(next(iter(pool.values()))) if pool else 1)
    _check_starts(environment, starts, {})
    for name in starts[0].keys() & pool.keys():
        _copy(pool[name], np.stack([start[name].reshape(-1) for start in starts]))
    for name, rows in _constants(environment, seed, first_env, context.num_envs).items():
        _copy(context[name], rows)
    _fill_streams(context, seed, first_env, int(environment.num_agents))


def _draw_starts(environment: Environment, seed: int, pool_size: int | None) -> list[State]:
    rng, title = np.random.default_rng(seed), f"initial_state of {type(environment).__name__}"
    starts: list[State] = []
    began = 0.0
    while len(starts) < (2 if pool_size is None else pool_size):
        with user_code(title):
            state = environment.initial_state(rng)
            if not isinstance(state, dict):
                raise DefinitionError(f"{title} returned {shown(state)}, expected a dict")
            starts.append({name: np.asarray(value) for name, value in state.items()})
        if len(starts) == 1:
            began = time.process_time()  # the first may have compiled code
        if len(starts) == 2 and pool_size is None:
            pool_size = _size_of_pool(starts)
        if pool_size is not None and len(starts) in (1, 100, 10_000):
            _check_pool_size(pool_size, starts, time.process_time() - began)
    return starts[:pool_size]


def _size_of_pool(starts: list[State]) -> int:
    """Return the default number of start states: one if the first two are equal, otherwise many."""
    first, second = starts
    if first.keys() == second.keys() and all(_alike(first[name], second[name]) for name in first):
        return 1
    needed = sum(value.nbytes + _PYTHON_BYTES for value in first.values())
    return max(2, min(_MAX_STARTS, _MAX_BYTES_OF_STARTS // max(needed, 1)))


def _alike(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == other.tobytes()


def _check_pool_size(pool_size: int, starts: list[State], seconds: float) -> None:
    """Raise :class:`DefinitionError` if the pool would exceed memory or time limits, judging by the first states.

    ``seconds`` is the time of all states but the first.
    """
    drawn = len(starts) - 1
    needed = pool_size * sum(value.nbytes + _PYTHON_BYTES for value in starts[0].values())
    if needed > host_memory():
        raise DefinitionError(
            f"reset_pool_size is {pool_size}: that many start states need about {needed / 2**30:.0f} GiB, more than "
            f"this machine has. {_ON_THE_DEVICE}"
        )
    if drawn and seconds / drawn * pool_size > _LONGEST_DRAWING:
        raise DefinitionError(
            f"reset_pool_size is {pool_size}: drawing that many start states would take about "
            f"{seconds / drawn * pool_size:.0f} s, more than the limit of {_LONGEST_DRAWING} s, which suffices for "
            f"about {int(_LONGEST_DRAWING * drawn / seconds)}. {_ON_THE_DEVICE}"
        )


def _constants(environment: Environment, seed: int, first_env: int, count: int) -> State:
    """Return the per-replica constants, ``[count, *shape]`` by name."""
    return {
        name: constant.rows(name, seed, first_env, count)
        for name, constant in per_replica_attributes(environment).items()
    }


def _shapes(constants: State) -> Shapes:
    return {name: (rows.shape[1:], rows.dtype) for name, rows in constants.items()}


def _reserved(environment: Environment, start: State) -> Shapes:
    """Return the reserved arrays of an environment; some only exist if a kernel function or the start state names them.

    Functions that the backend does not run count as well: a state saved on one backend can be loaded on another.
    """
    agents = int(environment.num_agents)
    reserved: Shapes = {
        "rewards": ((agents,), np.float32),
        "terminated": ((), np.bool_),
        "truncated": ((), np.bool_),
        "timestep": ((), np.int32),
    }
    for array in (*written_observation_arrays(environment), *action_arrays(environment)):
        if array.name in reserved:
            raise DefinitionError(
                f"{type(environment).__name__}: two observations would be called '{array.name}': rename a policy "
                "tag or a key of a Dict space"
            )
        reserved[array.name] = (array.shape, array.dtype)
    choices = max(sum(array.choices) for array in action_arrays(environment))
    optional: Shapes = {
        "active": ((agents,), np.bool_),
        "action_mask": ((agents, choices), np.bool_),
        "rng": ((agents, 4), np.uint32),
        "continued": ((), np.bool_),
    }
    named = named_parameters(functions_in_every_language(environment))
    used = {name: kind for name, kind in optional.items() if name in named or name in start}
    if "action_mask" in used and not choices:
        raise DefinitionError(f"{type(environment).__name__} uses 'action_mask', but none of its actions is discrete")
    return reserved | used


def _own(environment: Environment) -> Shapes:
    """Return the library's internal arrays, which kernel functions cannot access."""
    agents = int(environment.num_agents)
    own: Shapes = {f"final_{array.name}": (array.shape, array.dtype) for array in observation_arrays(environment)}
    own |= {array.name: (array.shape, array.dtype) for array, _ in extended_arrays(environment)}
    own |= {f"episode.{name}": ((agents,), np.float32) for name in ("running_return", "last_return", "return_sum")}
    counts = ("last_length", "length_sum", "episodes", "terminations")
    own |= {f"episode.{name}": ((), np.int32) for name in counts}
    own |= {"reset.choice": ((), np.int32), "reset.stream": ((4,), np.uint32)}
    own |= {"sampler.rng": ((agents, 4), np.uint32), "sampler.log_probabilities": ((agents,), np.float32)}
    continuous = (array for array in action_arrays(environment) if not array.choices)
    return own | {f"sampler.{array.name}": (array.shape, array.dtype) for array in continuous}


def _check_starts(environment: Environment, starts: list[State], reserved: Shapes) -> None:
    title = f"initial_state of {type(environment).__name__}"
    for start in starts:
        if start.keys() != starts[0].keys():
            raise DefinitionError(f"{title} returned the arrays {sorted(start)} and before {sorted(starts[0])}")
        for name, value in start.items():
            if not isinstance(name, str) or not name.isidentifier():
                raise DefinitionError(
                    f"{title} returned an array named {shown(name)}, which is not a valid name of a parameter"
                )
            torch_dtype(value.dtype, f"array '{name}' of {title}")
            expected = (starts[0][name].shape, starts[0][name].dtype)
            if name in reserved:
                if not name.startswith(_MAY_START):
                    raise DefinitionError(f"{title} returned '{name}', which is reserved for the library")
                expected = (reserved[name][0], np.dtype(reserved[name][1]))
            if (value.shape, value.dtype) != expected:
                raise DefinitionError(
                    f"{title}: array '{name}' is {value.dtype} {value.shape}, expected {expected[1]} {expected[0]}"
                )


def _fill(environment: Environment, context: DeviceContext, starts: list[State], seed: int, first_env: int) -> None:
    agents = int(environment.num_agents)
    for name in starts[0]:
        context.put(f"pool.{name}", np.stack([start[name].reshape(-1) for start in starts]))
    context.put("reset.pool_size", np.array([len(starts)], np.int32))
    context.put("constant.episode_length", np.array([environment.episode_length], np.int32))
    _fill_streams(context, seed, first_env, agents)
    context.put("sampler.greedy", np.zeros(1, np.int32))
    if "active" in context:
        context.zeros("episode.acted", (context.num_envs, agents), torch.bool)
    if original_of(environment) is not environment:
        for name, values in team_of(environment)._asdict().items():
            context.put(f"constant.team.{name}", values)
    for array in {array.name: array for pair in extended_arrays(environment) for array in pair}.values():
        context.put(f"constant.rows_of_{array.name}", _rows(array.agents, agents))
    for array in action_arrays(environment):
        _put_sampler_arrays(context, array, environment.policy_tags, agents)


def _fill_streams(context: DeviceContext, seed: int, first_env: int, agents: int) -> None:
    count = context.num_envs
    _copy(context["reset.stream"], random.initial_rng(seed, first_env, count, 1)[:, 0])
    if "rng" in context:
        _copy(context["rng"], random.initial_rng(seed, first_env, count, agents))
    _copy(context["sampler.rng"], random.initial_rng(seed, first_env, count, agents, random.SAMPLER_FIRST_DRAW))


def _put_sampler_arrays(
    context: DeviceContext, array: SpaceArray, policy_tags: Mapping[str, Iterable[int]], num_agents: int
) -> None:
    context.put(f"constant.rows_of_{array.name}", _rows(array.agents, num_agents))
    if isinstance(array.space, spaces.Box):
        context.put(f"constant.low_{array.name}", array.space.low.reshape(-1))
        context.put(f"constant.high_{array.name}", array.space.high.reshape(-1))
    for tag, agents in policy_tags.items():
        ids = [int(agent) for agent in agents]
        if set(ids) <= set(array.agents):
            shape = (context.num_envs, len(ids), array.num_logits)
            make_uniform(context.zeros(f"sampler.logits_{tag}", shape, torch.float32), array.space)
            context.put(f"constant.rows_{tag}", _rows(ids, num_agents))
            if isinstance(array.space, spaces.Box):
                for switch in ("squash", "normalize"):
                    context.zeros(f"sampler.{switch}_{tag}", (1,), torch.int32)
            if array.choices:
                if "action_mask" in context:
                    context.zeros(f"sampler.masked_logits_{tag}", shape, torch.float32)
                context.put(f"constant.num_choices_{tag}", np.array(array.choices, np.int32))


def make_uniform(logits: torch.Tensor, space: spaces.Space[Any]) -> None:
    """Initialise policy outputs to uniformly random actions, see :meth:`warpdrive.EnvWrapper.logits`."""
    logits.zero_()
    if isinstance(space, spaces.Box):
        logits[..., logits.shape[-1] // 2 :] = torch.inf


def _copy(tensor: torch.Tensor, rows: npt.NDArray[Any]) -> None:
    tensor.copy_(torch.from_numpy(rows))


def _rows(agents: Iterable[int], num_agents: int) -> npt.NDArray[np.int32]:
    """Return, for each agent of the replica, its index among the given agents, or -1."""
    rows = np.full(num_agents, -1, np.int32)
    for row, agent in enumerate(agents):
        rows[agent] = row
    return rows
