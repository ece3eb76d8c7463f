"""Vectorised environment: replicas that are reset and stepped together, with optional sampling and recording."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import signature
from typing import Any, ClassVar, NoReturn

import numpy as np
import torch
from gymnasium import spaces

from warpdrive import registry
from warpdrive.actions import checked_actions
from warpdrive.arguments import check_is, check_within
from warpdrive.backends.interface import Backend, MachineCode, RepeatableLaunch
from warpdrive.backends.loading import load_backend
from warpdrive.device_context import DeviceContext
from warpdrive.environment import (
    Environment,
    KernelFunctions,
    State,
    check_environment,
    kernel_functions,
    spaces_by_tag,
)
from warpdrive.errors import DefinitionError, UnknownParameterError, nearest, shown, with_article
from warpdrive.fused_step.binding import Binding
from warpdrive.fused_step.fuse import (
    FusedKernel,
    fuse_actions,
    fuse_drawing,
    fuse_reset,
    fuse_running_step,
    fuse_step,
    parameter_of,
)
from warpdrive.fused_step.replica_arrays import make_replica_arrays, make_uniform, reseed_replica_arrays
from warpdrive.observations import mapped
from warpdrive.per_replica import per_replica_attributes
from warpdrive.recording.recorder import EpisodeRecorder, checked_replicas
from warpdrive.recording.recording import Recording
from warpdrive.rollout import Rollout, make_record, of_agents
from warpdrive.scene.fields import FIELDS
from warpdrive.spaces import SpaceArray, action_arrays, nested, observation_arrays

_STATISTICS = {"episodes": "episodes", "terminated": "terminations", "length": "length_sum", "return": "return_sum"}
"""Episode statistics, and the arrays ``episode.<name>`` in which each is accumulated."""


class EnvWrapper:
    """Vectorised environment: thousands of replicas of one environment on one device.

    ```python
    env = wd.EnvWrapper("tag_gridworld", num_envs=1000)
    observations = env.reset()
    for _ in range(100):
        observations, rewards, terminated, truncated, info = env.step()  # random actions
    print(env.episode_statistics()["episodes"])
    ```

    Args:
        env: The environment, or its registered name, with constructor parameters in ``env_config``; ``env_name=name``
            is the same as ``env=name``.
        num_envs: The number of replicas.
        env_backend: The backend of the fused step: ``"cpu"``; on a GPU ``"numba"``, or ``"pycuda"`` for kernel
            functions in CUDA C; ``"auto"`` for the best available one; or a backend object.
        seed: The seed of the run, 0 to 2**64 - 1. Results depend on the seed, not on the number of cores or replicas.
        reset_pool_size: The number of start states drawn; each episode starts from one of them. If None, 1 if
            ``initial_state`` returns the same state twice, otherwise 500 or as many as fit into 64 MiB.
        auto_reset: If True, a replica whose episode has ended starts a new one in the same step.
        first_env: The global index of the first replica, if several processes share the replicas of a run. If None, the
            processes of lower rank are assumed to have ``num_envs`` each. Random streams depend on global indices.
        process_id: The rank of this process among those on this machine; GPUs are assigned round-robin.
        event_messenger: Accepted for compatibility with scripts that start several processes; compiled code is shared
            through the cache.
        env_obj: An alias of ``env``, for compatibility with WarpDrive 2.

    Raises:
        DefinitionError: If the environment or an argument is invalid.
        KernelError: If a kernel function cannot be compiled, or has an unbound parameter.
        BackendError: If ``env_backend`` is unavailable on this machine; the message lists the unmet requirements.
    """

    steps_on_host: ClassVar[bool] = False
    """True if another library steps the replicas on the host, see :class:`warpdrive.HostEnv`."""

    def __init__(
        self,
        env: Environment | str | None = None,
        num_envs: int = 1,
        env_backend: str | Backend = "auto",
        seed: int = 0,
        *,
        env_name: str | None = None,
        env_config: Mapping[str, Any] | None = None,
        reset_pool_size: int | None = 1,
        auto_reset: bool = True,
        first_env: int | None = None,
        process_id: int = 0,
        event_messenger: Any = None,
        env_obj: Environment | None = None,
        **unknown: NoReturn,  # for the message; type checkers accept none
    ) -> None:
        for name in unknown:
            known = [key for key in signature(EnvWrapper).parameters if key != "unknown"]
            hint = nearest(name, known) or " Parameters of the environment are those of wd.make, or of env_config."
            raise UnknownParameterError(f"EnvWrapper: unexpected keyword argument '{name}'.{hint}")
        if env_obj is not None:
            if env is not None:
                raise DefinitionError("found both env and env_obj, which are aliases: pass only one of them")
            env = env_obj
        if isinstance(env, str):
            env, env_name = None, env if env_name is None else None
        if (env is None) == (env_name is None):
            raise DefinitionError("pass EnvWrapper either an environment or env_name, not both")
        if env is not None and env_config:
            raise DefinitionError("env_config is for env_name: give an environment its parameters when it is created")
        if env is None:
            check_is(str, env_name=env_name)
            check_is(Mapping, env_config=env_config or {})
            env = registry.make(str(env_name), **{str(key): value for key, value in (env_config or {}).items()})
        check_environment(env)
        if env.steps_on_host and not self.steps_on_host:
            raise DefinitionError(f"{env.name} is an environment of another library: use wd.HostEnv for it")
        self.env = env
        self.env_name = env_name or self.env.name
        self.env_config = None if env_name is None else dict(env_config or {})
        check_within(1, 1 << 31, num_envs=num_envs)
        if reset_pool_size is not None:
            check_within(1, 1 << 31, reset_pool_size=reset_pool_size)
        check_within(0, 1 << 64, seed=seed)
        check_within(0, 1 << 32, process_id=process_id)
        first_env = process_id * num_envs if first_env is None else first_env
        check_within(0, 1 << 32, first_env=first_env)
        self.num_envs, self.num_agents, self.seed = num_envs, int(self.env.num_agents), seed
        self.auto_reset, self.first_env = auto_reset, first_env
        self.policy_tags = {tag: [int(agent) for agent in ids] for tag, ids in self.env.policy_tags.items()}
        self.observation_spaces = spaces_by_tag(self.env, self.env.observation_space)
        self.action_spaces = spaces_by_tag(self.env, self.env.action_space)
        self.backend = load_backend(env_backend, process_id) if isinstance(env_backend, str) else env_backend
        if not callable(getattr(self.backend, "bind", None)):  # the only method checked here
            raise DefinitionError(f"env_backend is {shown(env_backend)}, expected the name of a backend, or a Backend")
        self.device = self.backend.device
        self.ctx = DeviceContext(self.device, num_envs, seed)
        self.ctx.state_checks = self.env.state_checks
        self._agents = {tag: _index(ids, self.device) for tag, ids in self.policy_tags.items()}
        self._observation_arrays = observation_arrays(self.env)
        self._action_arrays = action_arrays(self.env)
        functions = kernel_functions(self.env, self.backend.language)
        self._binding = self._allocate(functions, reset_pool_size)
        self.reset_pool_size = int(self.ctx["reset.pool_size"].item())
        self.ctx.zeros("reset.selected", (num_envs,), torch.bool)
        self._launch_reset: Callable[[], None] | None = None
        self._launch_step: dict[tuple[bool, bool], Callable[[], None]] = {}  # keys: (draws actions, resets)
        self._launch_running_step: dict[bool, Callable[[], None]] = {}  # keys: resets
        self.reset()

    def reset(self, seed: int | None = None, where: torch.Tensor | None = None) -> Any:
        """Start a new episode in every replica, or in some.

        Args:
            seed: A new seed, 0 to 2**64 - 1: start states, random streams and per-replica constants become those of an
                EnvWrapper created with it. If None, the random streams continue.
            where: bool ``[num_envs]``, True for the replicas to reset. If None, all are.

        Returns:
            The observations of all replicas, in the format of :meth:`step`.

        Raises:
            DefinitionError: If the seed is out of range, or ``where`` has another shape or dtype.
        """
        self.ctx.check_open()
        self._check_selection(where)
        if seed is not None:
            self._reseed(seed)
        self._reset_replicas(where)
        return self._observations()

    def _reseed(self, seed: int) -> None:
        check_within(0, 1 << 64, seed=seed)
        reseed_replica_arrays(self.env, self.ctx, seed, self.first_env)
        self.seed = self.ctx.seed = seed

    def _check_selection(self, where: torch.Tensor | None) -> None:
        if where is None:
            return
        is_tensor = isinstance(where, torch.Tensor)
        if not is_tensor or where.dtype != torch.bool or where.shape != (self.num_envs,):
            found = f"{where.dtype} {tuple(where.shape)}" if is_tensor else with_article(type(where).__name__)
            raise DefinitionError(f"where is {found}, expected a bool tensor ({self.num_envs},)")

    def _reset_replicas(self, where: torch.Tensor | None = None) -> None:
        """Launch the reset of all replicas, or of some: with the same kernel, so that only one is compiled."""
        selected = self.ctx["reset.selected"]
        if where is None:
            selected.fill_(True)
        else:
            selected.copy_(where)
        if self._launch_reset is None:
            self._launch_reset = fuse_reset(self.env, self._binding, selected=True).bind(self.backend, self.num_agents)
        self._launch_reset()

    def step(self, actions: Any = None) -> tuple[Any, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Advance every replica by one step.

        Args:
            actions: ``[num_envs, num_agents]`` for Discrete, ``[num_envs, num_agents, n]`` for MultiDiscrete (integers)
                and Box (float32); a tensor or an array, or a dict of them by tag if the tags have separate spaces.
                Actions of a Box are clipped to its bounds, as sampled ones are. Values are validated on the CPU only:
                on a GPU this would synchronise with the device, so invalid choices and NaN reach the kernels. If None,
                all agents take random actions, drawn in the same launch: uniform over the allowed actions, normal for
                unbounded components of a Box. :meth:`actions` returns them.

        Returns:
            Observations ``[num_envs, num_agents, *shape]`` (a dict of them by tag if the tags have separate spaces, by
            key for a Dict space), rewards ``[num_envs, num_agents]``, terminated and truncated ``[num_envs]``, and a
            dict with ``final_observations``, and the ``episode_return`` ``[num_envs, num_agents]`` and
            ``episode_length`` ``[num_envs]`` of each replica's last finished episode. The tensors share memory with the
            device's arrays and are overwritten by the next step.

        Raises:
            ActionError: If the shape or dtype of actions is invalid; on the CPU also if a choice does not exist or a
                number is not finite as float32.
        """
        self._step(actions, self.auto_reset)
        info = {
            "final_observations": self._nested(self._observation_arrays, "final_"),
            "episode_return": self.ctx["episode.last_return"],
            "episode_length": self.ctx["episode.last_length"],
        }
        ctx = self.ctx
        return self._observations(), ctx["rewards"], ctx["terminated"], ctx["truncated"], info

    def observations(self, tag: str) -> Any:
        """Return the current observations of a tag, ``[num_envs, agents of the tag, *shape]``; by key for a Dict space.

        Args:
            tag: The policy tag.

        Returns:
            A view of the device's array if the ids of the agents are contiguous or the tag has a separate array,
            otherwise a new copy.
        """
        self._check_tag(tag)
        seen = self._observations()
        if isinstance(self.env.observation_space, dict):
            return seen[tag]
        return mapped(lambda tensor: of_agents(tensor, self._agents[tag], dim=1), seen)

    def action_mask(self, tag: str) -> torch.Tensor | None:
        """Return the action mask of a tag's agents, or None if the environment has none.

        Args:
            tag: The policy tag.

        Returns:
            ``[num_envs, agents of the tag, choices]`` bool, True for allowed actions; a view or a copy, as in
            :meth:`observations`.
        """
        self._check_tag(tag)
        if "action_mask" not in self.ctx:
            return None
        choices = self.logits(tag).shape[-1]  # the mask is padded to the largest tag
        return of_agents(self.ctx["action_mask"], self._agents[tag], dim=1)[..., :choices]

    def active(self, tag: str) -> torch.Tensor | None:
        """Return a mask of the tag's agents that are in the episode, or None if agents never leave.

        Args:
            tag: The policy tag.

        Returns:
            ``[num_envs, agents of the tag]`` bool; a view or a copy, as in :meth:`observations`.
        """
        self._check_tag(tag)
        if "active" not in self.ctx:
            return None
        return of_agents(self.ctx["active"], self._agents[tag], dim=1)

    def actions(self, tag: str, drawn: bool = False) -> torch.Tensor:
        """Return the last actions of a tag's agents: ``[num_envs, agents of the tag(, n)]``.

        Args:
            tag: The policy tag.
            drawn: If True, the unclipped samples of a sampled step for a Box, instead of the actions passed to the
                environment.

        Returns:
            A view or a copy, as in :meth:`observations`.
        """
        self._check_tag(tag)
        array = next(array for array in self._action_arrays if array.path in ((), (tag,)))
        done = self.ctx[array.name if array.choices or not drawn else f"sampler.{array.name}"]
        return done if array.path else of_agents(done, self._agents[tag], dim=1)

    def logits(self, tag: str) -> torch.Tensor:
        """Return the writable policy outputs of sampled steps: ``[num_envs, agents of the tag, n]``, float32.

        Discrete: the unnormalised log-probabilities of the choices. MultiDiscrete: those of all components,
        concatenated. Box: the means of all components, then the logarithms of their standard deviations, in units of
        the Box (but see :meth:`normalize`). Samples may lie outside of the Box: the rollout records them with their
        log-probabilities, while they are clipped (or squashed, see :meth:`squash`) for the environment.

        Args:
            tag: The policy tag.

        Returns:
            The tensor that the next sampled step reads. Write to it in place: ``env.logits(tag).copy_(...)``.
        """
        self._check_tag(tag)
        return self.ctx[f"sampler.logits_{tag}"]

    def squash(self, tag: str) -> torch.Tensor:
        """Return the flag that selects squashing instead of clipping of samples to a bounded Box: ``[1]`` int32.

        The default is 0. If set to 1, actions are the hyperbolic tangent of the sample, scaled from [-1, 1] to the Box.

        Args:
            tag: The policy tag.

        Raises:
            DefinitionError: If the tag does not exist, or its actions are not of a Box.
        """
        return self._box_option("squash", tag)

    def normalize(self, tag: str) -> torch.Tensor:
        """Return the flag that selects means and standard deviations normalised to the range of a Box: ``[1]`` int32.

        The default is 0. If set to 1, the unit is half the range: a mean of -1 is the lower bound of a component and a
        mean of 1 the upper bound. Components that are not bounded on both sides are unaffected. Recorded samples are in
        units of the Box.

        Args:
            tag: The policy tag.

        Raises:
            DefinitionError: If the tag does not exist, or its actions are not of a Box.
        """
        return self._box_option("normalize", tag)

    def _box_option(self, name: str, tag: str) -> torch.Tensor:
        self._check_tag(tag)
        if not isinstance(self.action_spaces[tag], spaces.Box):
            raise DefinitionError(f"{name}: the actions of '{tag}' are {self.action_spaces[tag]}, expected a Box")
        return self.ctx[f"sampler.{name}_{tag}"]

    def act_at_random(self, tag: str) -> None:
        """Reset the policy outputs of a tag to the initial ones, which sample actions uniformly.

        Components of a Box that are not bounded on both sides are standard normal (clipped to their bound).

        Args:
            tag: The policy tag.
        """
        make_uniform(self.logits(tag), self.action_spaces[tag])
        if isinstance(self.action_spaces[tag], spaces.Box):
            self.squash(tag).zero_()
            self.normalize(tag).zero_()

    @property
    def greedy(self) -> bool:
        """True if sampled steps take the most probable action (for a Box: the mean) instead of sampling."""
        return bool(self.ctx["sampler.greedy"].item())

    @greedy.setter
    def greedy(self, value: bool) -> None:
        self.ctx["sampler.greedy"].fill_(int(value))

    def allocate_rollout(self, num_steps: int, global_state: bool = False) -> Rollout:
        """Allocate a rollout of ``num_steps`` steps.

        Args:
            num_steps: The number of steps of each replica.
            global_state: If True, the arrays of the environment's ``global_state`` are recorded as well.

        Returns:
            An empty rollout.

        Raises:
            DefinitionError: If there is not enough memory.
        """
        return self._allocate_rollout(num_steps, self.auto_reset, global_state)

    def _allocate_rollout(self, num_steps: int, auto_reset: bool, global_state: bool = False) -> Rollout:
        check_within(1, 1 << 31, num_steps=num_steps)
        state = self.env.global_state if global_state else ()
        record = make_record(self._binding, num_steps, state)
        launch = self._bind_step(sampled=True, auto_reset=auto_reset, global_state=state)
        seen = [(array.name, array.name) for array in self._observation_arrays]
        seen += [(name, f"global_state.{name}") for name in state]
        rollout = Rollout(
            observations=self._nested(self._observation_arrays, "rollout."),
            actions=self._nested(self._action_arrays, "rollout."),
            final_observations=self._nested(self._observation_arrays, "rollout.final_"),
            log_probabilities=record["log_probabilities"],
            rewards=record["rewards"],
            terminated=record["terminated"],
            truncated=record["truncated"],
            active=record.get("active"),
            still_active=record.get("still_active"),
            action_mask=record.get("action_mask"),
            final_action_mask=record.get("final_action_mask"),
            final_slot=record["final_slot"],
            final_count=record["final_count"],
            step=record["step"],
            context=self.ctx,
            agents=self._agents,
            by_tag=self._by_tag(),
            seen=[(self.ctx[name], record[recorded]) for name, recorded in seen],
            global_state={name: record[f"global_state.{name}"] for name in state},
            final_global_state={name: record[f"final_global_state.{name}"] for name in state},
            launch=launch,
        )
        self.ctx.discard(f"rollout.{name}" for name in record)
        rollout.begin()
        return rollout

    def replicas_at_once(self) -> int:
        """Return the number of replicas that the device steps concurrently; with fewer, a part of it is idle.

        On the CPU this is the number of threads; on a GPU it follows from the registers, threads and shared memory of
        the compiled step, as reported by the driver.
        """
        record = make_record(self._binding, 1)
        fused = fuse_step(self.env, self._binding, sampled=True, auto_reset=self.auto_reset)
        try:
            return fused.replicas_at_once(self.backend, self.num_agents)
        finally:
            self.ctx.discard(f"rollout.{name}" for name in record)

    def step_rollout(self, rollout: Rollout) -> None:
        """Sample actions from the logits, step, and record into the next slot of the rollout, in one launch.

        Args:
            rollout: A rollout of :meth:`allocate_rollout`.

        Raises:
            DefinitionError: If the rollout is full, or belongs to another EnvWrapper.
        """
        self.ctx.check_open()
        if rollout.context is not self.ctx:
            raise DefinitionError("the rollout was allocated by another EnvWrapper")
        if rollout.steps_recorded == rollout.num_steps:
            raise DefinitionError(f"the rollout is full after {rollout.num_steps} steps: rollout.begin() starts again")
        rollout.launch()
        rollout.steps_recorded += 1
        rollout.step.add_(1)

    def repeated_rollout(self, rollout: Rollout, before: Sequence[MachineCode]) -> Callable[[], None] | None:
        """Return a function that takes all steps of a rollout in one call, or None if this backend has none.

        Args:
            rollout: The rollout, which was allocated by this EnvWrapper and is at its beginning at each call.
            before: Machine code that runs before each step, in order: it writes :meth:`logits`.
        """
        if not isinstance(rollout.launch, RepeatableLaunch):
            return None
        run = rollout.launch.repeated(parameter_of("rollout.step"), rollout.num_steps, before)
        if run is None:
            return None

        def fill() -> None:
            run()
            rollout.step.fill_(rollout.num_steps)
            rollout.steps_recorded = rollout.num_steps

        return fill

    def episode_statistics(self) -> dict[str, torch.Tensor]:
        """Return sums over the episodes that ended since the last call, as tensors on the device.

        Keys are ``episodes`` (their number), ``terminated`` (the number of terminated ones), ``length`` (sum of steps),
        and ``return`` ``[num_agents]`` (sum of each agent's returns).
        """
        statistics = {name: self.ctx[f"episode.{array}"].sum(dim=0) for name, array in _STATISTICS.items()}
        for array in _STATISTICS.values():
            self.ctx[f"episode.{array}"].zero_()
        return statistics

    def record(
        self,
        replicas: Iterable[int] | int = (0,),
        act: Callable[[EnvWrapper], Any] | None = None,
        *,
        observations: bool = False,
        logits: bool = False,
        max_steps: int | None = None,
        reset: bool = True,
    ) -> Recording:
        """Record an episode of selected replicas, from the first state to the last.

        All replicas are reset and stepped until the episodes of the selected ones have ended. Then the previous state
        of all replicas is restored, including random streams and logits. The recorded episode is thus the one that
        ``env.reset()`` and steps would produce. Recording again gives the same episode, and a different one after
        ``env.reset()`` or with another ``seed``.

        Args:
            replicas: The indices of the replicas to record, in any order.
            act: Callback, called with this EnvWrapper before each step. It either writes to :meth:`logits`, from which
                the actions are sampled, and returns None, or returns the actions in the format of :meth:`step`. If
                None, actions are sampled from the current logits, which are uniform in a new EnvWrapper.
            observations: If True, observations are recorded, which for many agents are far larger than the state.
            logits: If True, the logits of all policies are recorded.
            max_steps: The maximum number of steps. If None, recording stops at the end of the longest episode.
            reset: If False, recording starts from the current state instead of a reset.

        Returns:
            The arrays of all steps. See :class:`warpdrive.Recording` for shapes, dtypes and the padding of shorter
            episodes.

        Raises:
            DefinitionError: If a replica does not exist, there is not enough memory, or, with ``reset`` and
                ``auto_reset`` False, the episode of a replica has ended.
            ActionError: If ``act`` returned invalid actions.
        """
        chosen = checked_replicas(replicas, self.num_envs)
        if max_steps is not None:
            check_within(1, 1 << 31, max_steps=max_steps)
        rollout = self._allocate_rollout(1, auto_reset=False)
        before = self.ctx.save_state()
        outputs_before = [(tensor, tensor.clone()) for tensor in self._policy_outputs()]
        try:
            if reset:
                self.reset()
            start, own = self.ctx.save_state(chosen[:1]), self.own_arrays
            if not self.auto_reset:  # otherwise the last step has reset them
                ended = self._ended()
                if over := set(chosen).intersection(ended.tolist()):
                    raise DefinitionError(
                        f"the episode of replica {min(over)} has ended: reset it, or record with reset=True"
                    )
                self.ctx.load_state(start, ended, keep=own)
            recorder = EpisodeRecorder(self, chosen, observations, logits)
            recorder.read_state()
            while not recorder.ended.all() and recorder.num_steps != max_steps:
                actions = None if act is None else act(self)
                if actions is None:
                    rollout.begin()
                    self.step_rollout(rollout)
                else:
                    self.ctx["sampler.log_probabilities"].zero_()
                    self._step(actions, auto_reset=False)
                recorder.read_step()
                # Replicas are not stepped beyond the end of their episode, which kernels need not support.
                self.ctx.load_state(start, self._ended(), keep=own)
            return recorder.result()
        finally:
            self.load_state(before)
            for tensor, former in outputs_before:
                tensor.copy_(former)

    def _ended(self) -> torch.Tensor:
        """Return the indices of the replicas whose episode ended with the last step."""
        return (self.ctx["terminated"] | self.ctx["truncated"]).nonzero().flatten()

    def _check_tag(self, tag: str) -> None:
        if not isinstance(tag, str) or tag not in self.policy_tags:
            known = ", ".join(self.policy_tags)
            hint = nearest(str(tag), self.policy_tags)
            raise DefinitionError(f"unknown policy tag {shown(tag)}: expected one of {known}.{hint}")

    def state(self, env_index: int = 0) -> State:
        """Return one replica's arrays by name, copied to the host.

        Args:
            env_index: The index of the replica.

        Returns:
            NumPy arrays ``[*shape]`` by name.

        Raises:
            DefinitionError: If the replica does not exist.
        """
        if not isinstance(env_index, (int, np.integer)) or not 0 <= env_index < self.num_envs:
            there_are = f"there are {self.num_envs}, counted from 0"
            raise DefinitionError(f"replica {shown(env_index)} does not exist: {there_are}")
        return {
            name: self.ctx[name][env_index].cpu().numpy().copy() for name in self.ctx.state_names if "." not in name
        }

    def save_state(self) -> torch.Tensor:
        """Return a copy of the state of all replicas, see :meth:`warpdrive.DeviceContext.save_state`."""
        return self.ctx.save_state()

    def load_state(self, state: torch.Tensor) -> None:
        """Restore the state of all replicas, see :meth:`warpdrive.DeviceContext.load_state`.

        Args:
            state: The result of :meth:`save_state`, ``[num_envs, bytes]`` uint8.
        """
        self.ctx.load_state(state)

    def like(self, num_envs: int, seed: int, *, rendered: bool = False, **options: Any) -> EnvWrapper:
        """Return other replicas of the same environment.

        Args:
            num_envs: The number of replicas.
            seed: The seed.
            rendered: If True, the state includes what ``env.render`` requires.
            options: Further parameters of the class; environment, backend and size of the pool are by default those of
                this object.

        Returns:
            An EnvWrapper on the same device.
        """
        given = {"env": self.env, "env_backend": self.backend, "reset_pool_size": self.reset_pool_size, **options}
        made = EnvWrapper(num_envs=num_envs, seed=seed, **given)
        made.env_name, made.env_config = self.env_name, self.env_config
        return made

    @property
    def own_arrays(self) -> list[str]:
        """Names of the arrays that belong to a replica independently of its state.

        These are its random streams, its constants (:class:`warpdrive.PerReplica`) and its statistics.
        ``ctx.load_state(state, envs, keep=env.own_arrays)`` starts replicas from states of other replicas, from which
        each continues with its own random stream. Without ``keep`` each continues exactly like the saved replica.
        """
        streams = [name for name in ("rng", "sampler.rng", "reset.stream") if name in self.ctx]
        return [*streams, *per_replica_attributes(self.env), *(f"episode.{name}" for name in _STATISTICS.values())]

    def kernels_of_a_game(self, drawn: bool = False) -> dict[str, FusedKernel]:
        """Return the kernels of a game with human players: the host replaces some of the sampled actions in each step.

        Args:
            drawn: If True, actions are uniformly random instead of sampled from the policy outputs.

        Returns:
            ``reset``, ``actions``, which provides all actions, ``step`` with given actions, which starts a new episode
            instead if the last step has ended one, and, if the environment has a ``draw`` kernel, ``draw``, which
            writes to the array ``shapes`` of the device context, and to ``things`` if there is a ``draw_things``
            kernel.
        """
        env, binding = self.env, self._binding
        kernels = {
            "reset": fuse_reset(env, binding),
            "actions": fuse_actions(env, binding, drawn),
            "step": fuse_running_step(env, binding, self.auto_reset),
        }
        if env.draw is not None:
            pictures = {"shapes": (env.draw, env.shapes_per_agent)}
            if env.draw_things is not None:
                pictures["things"] = (env.draw_things, env.things_per_agent)
            drawing = Binding(env, binding.functions, self.ctx, [*binding.arrays, *pictures], binding.constants)
            for name, (kernel, count) in pictures.items():
                if name not in self.ctx:
                    self.ctx.zeros(name, (self.num_envs, self.num_agents, count, len(FIELDS)), torch.float32)
                drawing.check(kernel)
            kernels["draw"] = fuse_drawing(env, drawing)
        return kernels

    def close(self) -> None:
        """Free the device's memory, as far as no rollout or tensor refers to it.

        Later calls of step or reset raise ``DefinitionError``.
        """
        self._launch_reset = None  # launches refer to the arrays
        for launches in (self._launch_step, self._launch_running_step):
            launches.clear()
        self.ctx.close()

    def _allocate(self, functions: KernelFunctions, pool_size: int | None) -> Binding:
        """Create the arrays of the replicas."""
        return make_replica_arrays(self.env, functions, self.ctx, self.seed, self.first_env, pool_size)

    def _bind_step(self, **options: Any) -> Callable[[], None]:
        """Return a function that takes one step, see ``fuse_step`` for the options."""
        return fuse_step(self.env, self._binding, **options).bind(self.backend, self.num_agents)

    def _step(self, actions: Any, auto_reset: bool) -> None:
        """Advance every replica by one step with the given actions, or with random actions for None."""
        self.ctx.check_open()
        if actions is not None:
            self._set_actions(actions)
        kind = (actions is None, auto_reset)
        if kind not in self._launch_step:
            self._launch_step[kind] = self._bind_step(drawn=actions is None, auto_reset=auto_reset)
        self._launch_step[kind]()

    def _step_running(self, actions: Any, auto_reset: bool) -> None:
        """Advance the replicas whose episode has not ended; the other replicas are reset, or remain unchanged.

        The reward of replicas that are not stepped is 0.
        """
        self.ctx.check_open()
        self._set_actions(actions)
        if auto_reset not in self._launch_running_step:
            fused = fuse_running_step(self.env, self._binding, auto_reset)
            self._launch_running_step[auto_reset] = fused.bind(self.backend, self.num_agents)
        self.ctx["rewards"].zero_()
        self._launch_running_step[auto_reset]()

    def _set_actions(self, actions: Any) -> None:
        given = checked_actions(actions, self._action_arrays, self.num_envs, self.policy_tags)
        for array in self._action_arrays:
            acted = self.ctx[array.name].copy_(given[array.name])
            if isinstance(array.space, spaces.Box):  # on the device, without synchronisation
                low, high = (self.ctx[f"constant.{end}_{array.name}"] for end in ("low", "high"))
                acted.view(*acted.shape[:2], -1).clamp_(low, high)

    def _policy_outputs(self) -> list[torch.Tensor]:
        """Return the tensors that the next sampled step draws actions from."""
        kinds = tuple(f"sampler.{kind}_" for kind in ("logits", "squash", "normalize"))
        return [self.ctx[name] for name in self.ctx if name.startswith(kinds)]

    def _observations(self) -> Any:
        return self._nested(self._observation_arrays, "")

    def _nested(self, arrays: list[SpaceArray], prefix: str) -> Any:
        """Return the single tensor of all agents, or nested dicts by tag and by key."""
        return nested(arrays, lambda array: self.ctx[prefix + array.name])

    def _by_tag(self) -> list[str]:
        """Return the names of the rollout's fields that are dicts by tag."""
        observed, acted = (isinstance(s, dict) for s in (self.env.observation_space, self.env.action_space))
        return ["observations", "final_observations"] * observed + ["actions"] * acted


def _index(agents: list[int], device: torch.device) -> torch.Tensor | slice:
    """Return an index of the agents: a slice, which yields views, if their ids are contiguous."""
    if agents == list(range(agents[0], agents[0] + len(agents))):
        return slice(agents[0], agents[0] + len(agents))
    return torch.tensor(agents, device=device)
