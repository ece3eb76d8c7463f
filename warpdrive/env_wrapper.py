"""Replicas of one environment: reset, step, and steps with sampled actions that are recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from warpdrive import random, registry
from warpdrive.actions import checked_actions
from warpdrive.backends.interface import load_backend
from warpdrive.binding import Binding, named_parameters
from warpdrive.device_context import DeviceContext, torch_dtype
from warpdrive.environment import Environment, State, check_environment, spaces_by_tag
from warpdrive.errors import DefinitionError
from warpdrive.fused_step import RECORDED, fuse_reset, fuse_step
from warpdrive.rollout import Rollout
from warpdrive.spaces import SpaceArray, action_arrays, observation_arrays

Tensors = torch.Tensor | dict[str, torch.Tensor]

_OPTIONAL = {"active": "active", "still_active": "active", "action_mask": "action_mask"}
"""What a rollout records only where the environment has it: its name there, and the array it is recorded from."""


class EnvWrapper:
    """Thousands of replicas of one environment on one device.

    Args:
        env: the environment; or give ``env_name`` and ``env_config``, its registered name and constructor parameters.
        num_envs: the number of replicas.
        env_backend: where the fused step runs: ``"cpu"``, or ``"auto"`` for the best there is.
        seed: the run's seed, 0 to 2**64 - 1. Same seed, same results, however many cores or replicas there are.
        reset_pool_size: how many start states are drawn; each episode starts from one of them.
        auto_reset: whether a replica whose episode has ended starts a new one in the same step.
        first_env: the global index of the first replica, where several processes share the replicas of a run.
        process_id: which of several processes on this machine this is.
        event_messenger: accepted for scripts that start several processes; compiled code is shared through the cache.

    Raises:
        DefinitionError: the environment, or one of the numbers above, cannot work.
        KernelError: a kernel function cannot be compiled, or a parameter of it is bound to nothing.
    """

    def __init__(
        self,
        env: Environment | None = None,
        num_envs: int = 1,
        env_backend: str = "auto",
        seed: int = 0,
        *,
        env_name: str | None = None,
        env_config: Mapping[str, Any] | None = None,
        reset_pool_size: int = 1,
        auto_reset: bool = True,
        first_env: int = 0,
        process_id: int = 0,
        event_messenger: Any = None,
    ) -> None:
        if (env is None) == (env_name is None):
            raise DefinitionError("give EnvWrapper either an environment or env_name, not both and not neither")
        self.env = env if env is not None else registry.make(str(env_name), **(env_config or {}))
        check_environment(self.env)
        _check_counts(num_envs=num_envs, reset_pool_size=reset_pool_size)
        self.num_envs, self.num_agents, self.seed = num_envs, int(self.env.num_agents), seed
        self.reset_pool_size, self.auto_reset, self.first_env = reset_pool_size, auto_reset, first_env
        self.policy_tags = {tag: [int(agent) for agent in ids] for tag, ids in self.env.policy_tags.items()}
        self.observation_spaces = spaces_by_tag(self.env, self.env.observation_space)
        self.action_spaces = spaces_by_tag(self.env, self.env.action_space)
        self.backend = load_backend(env_backend)
        self.device = self.backend.device
        self.ctx = DeviceContext(self.device, num_envs, seed)
        self._observation_arrays = observation_arrays(self.env)
        self._action_arrays = action_arrays(self.env)
        self._binding = self._make_arrays()
        self._launch_reset = fuse_reset(self.env, self._binding).bind(self.backend, self.num_agents)
        self._launch_step: Callable[[], None] | None = None
        self.reset()

    def reset(self) -> Tensors:
        """Start an episode in every replica and return the first observations."""
        for name in ("rewards", "terminated", "truncated"):
            self.ctx[name].zero_()
        self._launch_reset()
        return self._observations()

    def step(self, actions: Any) -> tuple[Tensors, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Advance every replica by one step.

        Args:
            actions: ``[num_envs, num_agents]`` for Discrete, ``[num_envs, num_agents, n]`` for MultiDiscrete (integers)
                and Box (float32); a tensor or an array, or a dict of them by tag where tags have spaces of their own.

        Returns:
            Observations, rewards ``[num_envs, num_agents]``, terminated and truncated ``[num_envs]``, and a dict with
            ``final_observations``, and the ``episode_return`` ``[num_envs, num_agents]`` and ``episode_length``
            ``[num_envs]`` of the episode that each replica last ended. The tensors alias the device's arrays: the next
            step overwrites them.

        Raises:
            ActionError: actions of the wrong shape or dtype, or out of range.
        """
        given = checked_actions(actions, self._action_arrays, self.num_envs, self.policy_tags)
        for array in self._action_arrays:
            self.ctx[array.name].copy_(given[array.name])
        if self._launch_step is None:
            fused = fuse_step(self.env, self._binding, sampled=False, auto_reset=self.auto_reset)
            self._launch_step = fused.bind(self.backend, self.num_agents)
        self._launch_step()
        info = {
            "final_observations": self._by_tag(self._observation_arrays, "final_"),
            "episode_return": self.ctx["episode.last_return"],
            "episode_length": self.ctx["episode.last_length"],
        }
        ctx = self.ctx
        return self._observations(), ctx["rewards"], ctx["terminated"], ctx["truncated"], info

    def logits(self, tag: str) -> torch.Tensor:
        """Return where a policy puts its outputs before a sampled step: ``[num_envs, agents of the tag, choices]``.

        Unnormalised log-probabilities (float32); for MultiDiscrete, those of all components side by side. Zeros mean
        uniformly random actions.
        """
        return self.ctx[f"sampler.logits_{tag}"]

    @property
    def greedy(self) -> bool:
        """Whether sampled steps take the most probable action instead of sampling."""
        return bool(self.ctx["sampler.greedy"].item())

    @greedy.setter
    def greedy(self, value: bool) -> None:
        self.ctx["sampler.greedy"].fill_(int(value))

    def allocate_rollout(self, num_steps: int) -> Rollout:
        """Return room for ``num_steps`` recorded steps. Raises :class:`DefinitionError` for a Box action space."""
        _check_counts(num_steps=num_steps)
        for array in self._action_arrays:
            if not array.choices:
                raise DefinitionError(
                    f"environment '{self.env.name}' has the action space {array.space}: only Discrete and "
                    "MultiDiscrete actions can be sampled; give others to step(actions)"
                )
        names = self._allocate_record(num_steps)
        fused = fuse_step(self.env, self._binding, sampled=True, auto_reset=self.auto_reset)
        ctx = self.ctx
        optional: dict[str, Any] = {name: ctx[f"rollout.{name}"] for name, source in _OPTIONAL.items() if source in ctx}
        rollout = Rollout(
            observations=self._by_tag(self._observation_arrays, "rollout."),
            actions=self._by_tag(self._action_arrays, "rollout."),
            final_observations=self._by_tag(self._observation_arrays, "rollout.final_"),
            **{name: ctx[f"rollout.{name}"] for name in RECORDED},
            **{**dict.fromkeys(_OPTIONAL), **optional},
            **{name: ctx[f"rollout.{name}"] for name in ("final_slot", "final_count", "step")},
            context=ctx,
            agents={tag: _index(ids, self.device) for tag, ids in self.policy_tags.items()},
            observation_names={tag: f"observations_{tag}" for tag in self.policy_tags},
            launch=fused.bind(self.backend, self.num_agents),
        )
        ctx.discard(names)
        rollout.begin()
        return rollout

    def step_rollout(self, rollout: Rollout) -> None:
        """Sample actions from the logits, step, and record into the rollout's next slot, in one launch."""
        rollout.launch()
        rollout.step.add_(1)

    def episode_statistics(self) -> dict[str, torch.Tensor]:
        """Return sums over the episodes that ended since the last call, on the device.

        ``episodes`` (how many), ``terminated`` (how many of them terminated), ``length`` (sum of steps), ``return``
        ``[num_agents]`` (sum of each agent's returns).
        """
        names = {"episodes": "episodes", "terminated": "terminations", "length": "length_sum", "return": "return_sum"}
        statistics = {name: self.ctx[f"episode.{array}"].sum(dim=0) for name, array in names.items()}
        for array in names.values():
            self.ctx[f"episode.{array}"].zero_()
        return statistics

    def state(self, env_index: int = 0) -> State:
        """Return one replica's arrays by name, copied to the host."""
        if not 0 <= env_index < self.num_envs:
            raise DefinitionError(f"replica {env_index} does not exist: there are {self.num_envs}, counted from 0")
        return {
            name: self.ctx[name][env_index].cpu().numpy().copy() for name in self.ctx.state_names if "." not in name
        }

    def close(self) -> None:
        """Free the device's memory."""
        self.ctx.close()

    def _observations(self) -> Tensors:
        return self._by_tag(self._observation_arrays, "")

    def _by_tag(self, arrays: list[SpaceArray], prefix: str) -> Tensors:
        """Return the one tensor of all agents, or one by tag where the tags have arrays of their own."""
        if len(arrays) == 1 and arrays[0].name in ("observations", "actions"):
            return self.ctx[prefix + arrays[0].name]
        return {array.name.partition("_")[2]: self.ctx[prefix + array.name] for array in arrays}

    def _make_arrays(self) -> Binding:
        """Declare, allocate and fill every array; return how kernel functions find them."""
        ctx, agents = self.ctx, self.num_agents
        starts = self._draw_starts()
        named = named_parameters([self.env.step, self.env.observe, self.env.reset])
        reserved: dict[str, tuple[tuple[int, ...], npt.DTypeLike]] = {
            "rewards": ((agents,), np.float32),
            "terminated": ((), np.bool_),
            "truncated": ((), np.bool_),
            "timestep": ((), np.int32),
        }
        for array in (*self._observation_arrays, *self._action_arrays):
            reserved[array.name] = (array.shape, array.dtype)
        choices = max((sum(array.choices) for array in self._action_arrays), default=0)
        optional: dict[str, tuple[tuple[int, ...], npt.DTypeLike]] = {
            "active": ((agents,), np.bool_),
            "action_mask": ((agents, choices), np.bool_),
            "rng": ((agents, 4), np.uint32),
        }
        reserved |= {name: kind for name, kind in optional.items() if name in named or name in starts[0]}
        self._check_starts(starts, reserved)
        for name in {"active", "action_mask"} & reserved.keys():  # every agent is there, and may do anything
            for start in starts:
                start.setdefault(name, np.ones(reserved[name][0], np.bool_))
        declared = {name: (value.shape, value.dtype) for name, value in starts[0].items()} | reserved
        for name, (shape, dtype) in declared.items():
            ctx.declare(name, shape, dtype)
        self._declare_own_arrays()
        ctx.allocate()
        self._fill(starts)
        binding = Binding(self.env, ctx, declared)
        for kernel in (self.env.step, self.env.observe, self.env.reset):
            if kernel is not None:
                binding.check(kernel)
        return binding

    def _draw_starts(self) -> list[State]:
        rng = np.random.default_rng(self.seed)
        starts = []
        for _ in range(self.reset_pool_size):
            state = self.env.initial_state(rng)
            if not isinstance(state, dict):
                raise DefinitionError(f"initial_state of {type(self.env).__name__} returned {state!r}, expected a dict")
            starts.append({name: np.asarray(value) for name, value in state.items()})
        return starts

    def _check_starts(self, starts: list[State], reserved: Mapping[str, tuple[tuple[int, ...], npt.DTypeLike]]) -> None:
        title = f"initial_state of {type(self.env).__name__}"
        for start in starts:
            if start.keys() != starts[0].keys():
                raise DefinitionError(f"{title} returned the arrays {sorted(start)} and before {sorted(starts[0])}")
            for name, value in start.items():
                if not name.isidentifier():
                    raise DefinitionError(f"{title} returned an array named {name!r}, which no parameter can have")
                torch_dtype(value.dtype, f"array '{name}' of {title}")
                expected = (starts[0][name].shape, starts[0][name].dtype)
                if name in reserved:
                    if not name.startswith(("observations", "active", "action_mask")):
                        raise DefinitionError(f"{title} returned '{name}', which the library writes itself")
                    expected = (reserved[name][0], np.dtype(reserved[name][1]))
                if (value.shape, value.dtype) != expected:
                    raise DefinitionError(
                        f"{title}: array '{name}' is {value.dtype} {value.shape}, expected {expected[1]} {expected[0]}"
                    )

    def _declare_own_arrays(self) -> None:
        ctx, agents = self.ctx, self.num_agents
        for array in self._observation_arrays:
            ctx.declare(f"final_{array.name}", array.shape, array.dtype)
        for name in ("running_return", "last_return", "return_sum"):
            ctx.declare(f"episode.{name}", (agents,), np.float32)
        for name in ("last_length", "length_sum", "episodes", "terminations"):
            ctx.declare(f"episode.{name}", (), np.int32)
        ctx.declare("reset.choice", (), np.int32)
        ctx.declare("reset.stream", (4,), np.uint32)
        if all(array.choices for array in self._action_arrays):
            ctx.declare("sampler.rng", (agents, 4), np.uint32)
            ctx.declare("sampler.log_probabilities", (agents,), np.float32)

    def _fill(self, starts: list[State]) -> None:
        ctx, seed, first, count, agents = self.ctx, self.seed, self.first_env, self.num_envs, self.num_agents
        for name in starts[0]:
            ctx.put(f"pool.{name}", np.stack([start[name].reshape(-1) for start in starts]))
        ctx.put("reset.pool_size", np.array([self.reset_pool_size], np.int32))
        ctx.put("constant.episode_length", np.array([self.env.episode_length], np.int32))
        _fill_words(ctx["reset.stream"], random.initial_rng(seed, first, count, 1)[:, 0])
        if "rng" in ctx:
            _fill_words(ctx["rng"], random.initial_rng(seed, first, count, agents))
        if "sampler.rng" in ctx:
            _fill_words(ctx["sampler.rng"], random.initial_rng(seed, first, count, agents, random.SAMPLER_FIRST_DRAW))
            self._put_sampler_arrays()

    def _put_sampler_arrays(self) -> None:
        ctx = self.ctx
        ctx.put("sampler.greedy", np.zeros(1, np.int32))
        for array in self._action_arrays:
            ctx.put(f"constant.rows_of_{array.name}", _rows(array.agents, self.num_agents))
            for tag, ids in self.policy_tags.items():
                if set(ids) <= set(array.agents):
                    logits = torch.zeros(self.num_envs, len(ids), sum(array.choices), device=self.device)
                    ctx.put(f"sampler.logits_{tag}", logits)
                    if "action_mask" in ctx:
                        ctx.put(f"sampler.masked_logits_{tag}", logits.clone())
                    ctx.put(f"constant.rows_{tag}", _rows(ids, self.num_agents))
                    ctx.put(f"constant.num_choices_{tag}", np.array(array.choices, np.int32))

    def _allocate_record(self, num_steps: int) -> list[str]:
        """Make the arrays ``rollout.*`` and return their names."""
        ctx, per_step = self.ctx, (num_steps, self.num_envs)
        slots = (num_steps - 1) // int(self.env.episode_length) + 1
        if "truncated" in named_parameters([self.env.step, self.env.observe, self.env.reset]):
            slots = num_steps
        per_agent = (*per_step, self.num_agents)
        shapes: dict[str, tuple[tuple[int, ...], torch.dtype]] = {
            "log_probabilities": (per_agent, torch.float32),
            "rewards": (per_agent, torch.float32),
            "terminated": (per_step, torch.bool),
            "truncated": (per_step, torch.bool),
            "final_slot": (per_step, torch.int32),
            "final_count": ((self.num_envs,), torch.int32),
            "step": ((1,), torch.int32),
        }
        for name, source in _OPTIONAL.items():
            if source in ctx:
                shapes[name] = ((*per_step, *ctx[source].shape[1:]), torch.bool)
        for array in self._action_arrays:
            shapes[array.name] = ((*per_step, *array.shape), ctx[array.name].dtype)
        for array in self._observation_arrays:
            dtype = ctx[array.name].dtype
            shapes[array.name] = ((num_steps + 1, self.num_envs, *array.shape), dtype)
            shapes[f"final_{array.name}"] = ((slots, self.num_envs, *array.shape), dtype)
        for name, (shape, dtype) in shapes.items():
            ctx.put(f"rollout.{name}", torch.zeros(shape, dtype=dtype, device=self.device))
        return [f"rollout.{name}" for name in shapes]


def _check_counts(**counts: int) -> None:
    for name, value in counts.items():
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
            raise DefinitionError(f"{name} is {value!r}, expected a positive integer")


def _fill_words(tensor: torch.Tensor, words: npt.NDArray[np.uint32]) -> None:
    tensor.copy_(torch.from_numpy(words))


def _rows(agents: Any, num_agents: int) -> npt.NDArray[np.int32]:
    """Return, for each agent of the replica, its place among the given ones, or -1."""
    rows = np.full(num_agents, -1, np.int32)
    rows[list(agents)] = np.arange(len(agents), dtype=np.int32)
    return rows


def _index(agents: list[int], device: torch.device) -> torch.Tensor | slice:
    """Return an index of the agents: a slice, which gives views, where their ids are contiguous."""
    if agents == list(range(agents[0], agents[0] + len(agents))):
        return slice(agents[0], agents[0] + len(agents))
    return torch.tensor(agents, device=device)
