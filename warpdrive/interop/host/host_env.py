"""Vectorised environment whose steps are taken on the host by another library."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch

from warpdrive.backends.interface import Backend, MachineCode
from warpdrive.env_wrapper import EnvWrapper
from warpdrive.environment import KernelFunctions
from warpdrive.errors import DefinitionError
from warpdrive.fused_step.binding import Binding
from warpdrive.fused_step.fuse import fuse_host_step
from warpdrive.host_transfers import host_transfers_allowed
from warpdrive.interop.host.environment import HostEnvironment, host_environment
from warpdrive.interop.host.source import FRAME, NEXT, SKIPPED, STATE, HostReplicas
from warpdrive.interop.host.workers import ProcessReplicas, ThreadedReplicas, shared_arrays
from warpdrive.registry import environment_class
from warpdrive.rollout import Rollout


class HostEnv(EnvWrapper):
    """Replicas of a Gymnasium, PettingZoo or EnvPool environment with the interface of :class:`warpdrive.EnvWrapper`.

    The environments run on the host; policies, rollouts and updates are on the device of ``env_backend``. In each step
    actions are copied to the host and results to the device, through pinned memory that is reused; on the CPU the
    environments write into the arrays of the device context. ``wd.Trainer`` accepts it like an EnvWrapper.

    The state of the environments cannot be saved: after :meth:`record` and :meth:`load_state`, as when a run is
    resumed, all replicas begin new episodes, with seeds that follow from the seed of the run and the actions sampled
    so far.

    Args:
        env: An environment, or a function that returns one. A function is called for each replica, or once with
            ``num_envs`` if it has that parameter. An environment itself is copied; a vectorised one is used directly.
        num_envs: The number of replicas; None for that of a vectorised environment, otherwise 1.
        env_backend: See :class:`warpdrive.EnvWrapper`.
        seed: See :class:`warpdrive.EnvWrapper`. Environments are seeded once, from it and their global index.
        gymnasium: The id of a Gymnasium environment, instead of ``env``.
        pettingzoo: The module of a PettingZoo Parallel environment, instead of ``env``.
        envpool: The id of an EnvPool task, instead of ``env``.
        warpdrive2: The class of an environment of WarpDrive 2, ``"package.module:Class"``, instead of ``env``.
        auto_reset: See :class:`warpdrive.EnvWrapper`.
        first_env: See :class:`warpdrive.EnvWrapper`.
        process_id: See :class:`warpdrive.EnvWrapper`.
        reset_pool_size: Accepted for symmetry with :class:`warpdrive.EnvWrapper`; environments draw their own starts.
        options: ``workers``, ``worker_type``, ``episode_length``, ``vectorization`` (Gymnasium), ``policy_tags``
            (PettingZoo), and the keyword arguments of the environment.

    Raises:
        DefinitionError: If the environment or an argument is invalid.
    """

    steps_on_host = True

    def __init__(
        self,
        env: Any = None,
        num_envs: int | None = None,
        env_backend: str | Backend = "auto",
        seed: int = 0,
        *,
        gymnasium: str | None = None,
        pettingzoo: str | None = None,
        envpool: str | None = None,
        warpdrive2: str | None = None,
        auto_reset: bool = True,
        first_env: int | None = None,
        process_id: int = 0,
        reset_pool_size: int | None = 1,
        **options: Any,
    ) -> None:
        ids = {"gymnasium": gymnasium, "pettingzoo": pettingzoo, "envpool": envpool, "warpdrive2": warpdrive2}
        given = [library for library, identifier in ids.items() if identifier is not None]
        if len(given) + (env is not None) != 1:
            raise DefinitionError("HostEnv: pass one of env, gymnasium, pettingzoo, envpool and warpdrive2")
        self._host: HostReplicas | None = None
        self._is_seeded = False
        name, config = None, None
        if env is None:
            name, config = given[0], {"id": ids[given[0]], **options}
            env = environment_class(name)(**config)
        else:
            env = host_environment(env, **options)
        size = getattr(getattr(env.source, "make", None), "num_envs", 1) if num_envs is None else num_envs
        super().__init__(
            env,
            size,
            env_backend,
            seed,
            reset_pool_size=1,
            auto_reset=auto_reset,
            first_env=first_env,
            process_id=process_id,
        )
        if name is not None:
            self.env_name, self.env_config = name, config

    def reset(self, seed: int | None = None, where: torch.Tensor | None = None) -> Any:
        """See :meth:`warpdrive.EnvWrapper.reset`. Without a seed, the environments continue their random streams."""
        self.ctx.check_open()
        if seed is not None:
            self._reseed(seed)
        self._begin_episodes(seeded=seed is not None or not self._is_seeded, where=where)
        return super().reset(where=where)

    def load_state(self, state: torch.Tensor) -> None:
        """Restore a state, see :class:`HostEnv`, and begin new episodes."""
        super().load_state(state)
        self._begin_episodes(seeded=True)
        self._reset_replicas()

    def repeated_rollout(self, rollout: Rollout, before: Sequence[MachineCode]) -> Callable[[], None] | None:
        """Return None: steps are taken one by one."""
        return None

    def like(self, num_envs: int, seed: int, *, rendered: bool = False, **options: Any) -> HostEnv:
        """See :meth:`warpdrive.EnvWrapper.like`."""
        assert isinstance(self.env, HostEnvironment)
        env = self.env.with_frames() if rendered else self.env
        made = HostEnv(env, num_envs, seed=seed, **{"env_backend": self.backend, **options})
        made.env_name, made.env_config = self.env_name, self.env_config
        return made

    def close(self) -> None:
        """Close the environments, and free the device's memory."""
        if self._host is not None:
            self._host.close()
            self._host = None
            self._mirrors.clear()
            self._arrays.clear()
        super().close()

    def _allocate(self, functions: KernelFunctions, pool_size: int | None) -> Binding:
        binding = super()._allocate(functions, pool_size)
        assert isinstance(self.env, HostEnvironment)
        source, ctx = self.env.source, self.ctx
        begun = [array.name for array in self._observation_arrays]
        begun += [name for name in ("active", "action_mask", STATE, FRAME) if name in ctx]
        for name in begun:
            ctx.zeros(NEXT + name, ctx[name].shape, ctx[name].dtype)
        if source.leaves:
            ctx.zeros(SKIPPED, (self.num_envs,), torch.bool)
        self._begun = [NEXT + name for name in begun]
        self._results = [*begun, "rewards", "terminated", "truncated"]
        self._results += [SKIPPED] if source.leaves else []
        acted = [array.name for array in self._action_arrays]
        names = [*self._begun, *self._results, *acted]
        workers = self.env.workers
        in_processes = workers > 0 and self.env.worker_type == "process"
        memory: Any = None
        if in_processes:
            mirrors, memory = shared_arrays({n: (tuple(ctx[n].shape), _numpy_dtype(ctx[n])) for n in names})
            self._mirrors = {name: torch.from_numpy(mirror) for name, mirror in mirrors.items()}
            _pin(self._mirrors.values(), self.device)
        elif self.device.type == "cpu":
            self._mirrors = {name: ctx[name] for name in names}
        else:
            self._mirrors = {name: torch.zeros_like(ctx[name], device="cpu", pin_memory=True) for name in names}
        self._acted = [] if self._mirrors[acted[0]] is ctx[acted[0]] else acted
        arrays = self._arrays = {name: mirror.numpy() for name, mirror in self._mirrors.items()}
        if in_processes:
            self._host = ProcessReplicas(source, arrays, memory, self.num_envs, workers)
        elif workers > 0:
            self._host = ThreadedReplicas(source, arrays, self.num_envs, workers)
        else:
            self._host = source.open(arrays, self.num_envs)
        return binding

    def _bind_step(self, **options: Any) -> Callable[[], None]:
        acting, ending = (
            fused.bind(self.backend, self.num_agents) for fused in fuse_host_step(self.env, self._binding, **options)
        )

        def step() -> None:
            acting()
            with host_transfers_allowed():
                self._step_on_host()
            ending()

        return step

    def _step_on_host(self) -> None:
        assert self._host is not None
        if self._acted:
            for name in self._acted:
                self._mirrors[name].copy_(self.ctx[name], non_blocking=True)
            self._wait()
        for rows in self._host.step():
            self._upload(self._results, rows)
        if np.count_nonzero(self._arrays["terminated"]) or np.count_nonzero(self._arrays["truncated"]):
            self._upload(self._begun, slice(None))

    def _begin_episodes(self, seeded: bool, where: torch.Tensor | None = None) -> None:
        """Begin new episodes on the host, and provide their start for the launch that resets replicas."""
        if self._host is None:
            raise DefinitionError(f"{self.env.name}: the environments are closed")
        self._check_selection(where)
        with host_transfers_allowed():
            seeds = self._seeds() if seeded else None
            self._host.reset(seeds, None if where is None else where.cpu().numpy())
            self._upload(self._begun, slice(None))
        self._is_seeded = True

    def _upload(self, names: Iterable[str], rows: slice) -> None:
        if not self._acted:  # the same memory
            return
        for name in names:
            self.ctx[name][rows].copy_(self._mirrors[name][rows], non_blocking=True)

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()

    def _seeds(self) -> list[int]:
        """Return a seed for each replica, from that of the run and the state of its random stream."""
        streams = self.ctx["sampler.rng"][:, 0].cpu().numpy()
        return [
            int(np.random.SeedSequence((self.seed, self.first_env + replica, *stream)).generate_state(1)[0] >> 1)
            for replica, stream in enumerate(streams.tolist())
        ]

    def _step_running(self, actions: Any, auto_reset: bool) -> None:
        raise DefinitionError(f"{self.env.name} is an environment of another library: use that one's own interface")


def _numpy_dtype(tensor: torch.Tensor) -> Any:
    return torch.empty(0, dtype=tensor.dtype).numpy().dtype


def _pin(tensors: Iterable[torch.Tensor], device: torch.device) -> None:
    """Lock the pages of shared memory, so that the GPU copies from it directly."""
    if device.type != "cuda":
        return
    runtime = torch.cuda.cudart()
    for tensor in tensors:  # best effort: copies from pageable memory are only slower
        runtime.cudaHostRegister(tensor.data_ptr(), tensor.nbytes, 0)
