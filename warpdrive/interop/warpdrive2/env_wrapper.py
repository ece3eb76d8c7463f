"""Replicas of a WarpDrive 2 environment."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from warpdrive.errors import DefinitionError
from warpdrive.interop.warpdrive2.controllers import CUDAEnvironmentReset
from warpdrive.interop.warpdrive2.data_manager import CUDADataManager
from warpdrive.interop.warpdrive2.environments import CUDAEnvironmentContext, recursive_obs_dict_to_spaces_dict
from warpdrive.interop.warpdrive2.function_manager import CUDAFunctionFeed, CUDAFunctionManager


class EnvWrapper:
    """Replicas of a WarpDrive 2 environment, stepped by its Numba kernel, or one environment stepped by Python.

    Args:
        env_obj: The environment; None: created by ``env_registrar``.
        env_name: Its registered name.
        env_config: Arguments of its class.
        num_envs: Number of replicas.
        blocks_per_env: Accepted for compatibility: kernels for Numba assume one block of threads per replica.
        env_backend: ``"numba"`` or ``"cpu"``. ``"pycuda"`` runs the Numba kernels of the environment, too.
        testing_mode: Accepted for compatibility.
        testing_bin_filename: Accepted for compatibility.
        env_registrar: Registrar of the environment and its kernels.
        event_messenger: Event that is set when the kernels are imported.
        process_id: Rank of this process.
        use_cuda: Former name of ``env_backend``: True or False.

    Raises:
        DefinitionError: If there is no environment, or it has no Numba kernel of its step.
    """

    def __init__(
        self,
        env_obj: Any = None,
        env_name: str | None = None,
        env_config: Mapping[str, Any] | None = None,
        num_envs: int = 1,
        blocks_per_env: int | None = None,
        env_backend: str | bool = "cpu",
        testing_mode: bool = False,
        testing_bin_filename: str | None = None,
        env_registrar: Any = None,
        event_messenger: Any = None,
        process_id: int = 0,
        use_cuda: bool | None = None,
    ) -> None:
        if use_cuda is not None:
            warnings.warn("use_cuda is deprecated, use env_backend", DeprecationWarning, stacklevel=2)
            env_backend = use_cuda
        if isinstance(env_backend, bool):
            env_backend = "numba" if env_backend else "cpu"
        if env_backend not in ("pycuda", "numba", "cpu"):
            logging.warning("env_backend is %r, expected pycuda, numba or cpu: using cpu", env_backend)
            env_backend = "cpu"
        self.env = self._created(env_obj, env_name, env_config, env_registrar, env_backend)
        if env_backend == "pycuda":
            logging.warning("env_backend 'pycuda' runs the environment's Numba kernels")
            env_backend = "numba"
        self.env_backend, self.name = env_backend, self.env.name
        self.n_agents, self.episode_length = self.env.num_agents, self.env.episode_length
        self.env.observation_space = recursive_obs_dict_to_spaces_dict(self.obs_at_reset())
        assert set(self.env.observation_space.keys()) == set(self.env.action_space.keys()), (
            "the observations and the action space have different keys"
        )
        if hasattr(self.env, "env_backend"):
            self.env.env_backend = env_backend
        self.reset_on_host = True
        if env_backend == "cpu":
            return
        if not isinstance(self.env, CUDAEnvironmentContext):
            raise DefinitionError(f"{type(self.env).__name__}: expected a subclass of CUDAEnvironmentContext")
        self.n_envs, self.blocks_per_env = num_envs, 1
        sizes = {"num_agents": self.n_agents, "num_envs": num_envs, "blocks_per_env": self.blocks_per_env}
        self.cuda_data_manager = CUDADataManager(episode_length=self.episode_length, **sizes)
        self.cuda_function_manager = CUDAFunctionManager(process_id=process_id, **sizes)
        self.cuda_function_manager.dynamic_import_numba(
            self.name, customized_env_registrar=env_registrar, event_messenger=event_messenger
        )
        self.cuda_function_feed = CUDAFunctionFeed(self.cuda_data_manager)
        step = f"Numba{self.name}Step"
        ready = self.env.initialize_step_function_context(
            cuda_data_manager=self.cuda_data_manager,
            cuda_function_manager=self.cuda_function_manager,
            cuda_step_function_feed=self.cuda_function_feed,
            step_function_name=step,
        )
        if not ready:
            raise DefinitionError(f"the environment '{self.name}' could not initialise its step: no kernel '{step}'?")
        self.env_resetter = CUDAEnvironmentReset(self.cuda_function_manager)
        self.env_resetter.register_custom_reset_function(self.cuda_data_manager, f"Cuda{self.name}Reset")

    @staticmethod
    def _created(env_obj: Any, name: str | None, config: Mapping[str, Any] | None, registrar: Any, backend: str) -> Any:
        if env_obj is not None:
            return env_obj
        if name is None or config is None or registrar is None:
            raise DefinitionError("pass EnvWrapper either env_obj, or env_name, env_config and env_registrar")
        other = {"pycuda": "numba", "numba": "pycuda"}.get(backend, backend)
        return registrar.get(name, backend if registrar.has_env(name, backend) else other)(**config)

    def reset_all_envs(self) -> Any:
        """Start a new episode in all replicas.

        Returns:
            The observations of the environment's own ``reset`` the first time and for the backend ``"cpu"``; later
            ``{}``, since arrays change in place.
        """
        self.env.timestep = 0
        if self.env_backend != "cpu" and not self.reset_on_host:
            self.env_resetter.reset_when_done(self.cuda_data_manager, mode="force_reset")
            return {}
        observations = self.obs_at_reset()
        if self.env_backend != "cpu":
            self._push_data()
            self.reset_on_host = False
        return observations

    def _push_data(self) -> None:
        data, tensors = self.env.get_data_dictionary(), self.env.get_tensor_dictionary()
        pools: Any = getattr(self.env, "get_reset_pool_dictionary", dict)()
        targets = {pool["attributes"]["reset_target"] for pool in pools.values()}
        for name in targets:
            if name not in data and name not in tensors:
                raise DefinitionError(f"the target '{name}' of a reset pool is not among the environment's data")
        for name, content in [*data.items(), *tensors.items()]:
            restored = content["attributes"]["save_copy_and_apply_at_reset"]
            assert not (restored and name in targets), f"'{name}' has a reset pool and save_copy_and_apply_at_reset"
            if restored or name in targets:
                content["data"] = np.stack([np.asarray(content["data"])] * self.n_envs)
        self.cuda_data_manager.push_data_to_device(data)
        self.cuda_data_manager.push_data_to_device(tensors, torch_accessible=True)
        self.cuda_data_manager.push_data_to_device(pools)

    def init_reset_pool(self, seed: int | None = None) -> None:
        """Set the seed of the draws from reset pools; None: the time."""
        self.env_resetter.init_reset_pool(self.cuda_data_manager, seed)

    def reset_only_done_envs(self, undo_done_after_reset: bool = True) -> dict[str, Any]:
        """Start a new episode in the replicas whose episode has ended.

        Args:
            undo_done_after_reset: If True, the flags of ended episodes and the time steps become 0.
        """
        assert self.env_backend != "cpu" and not self.reset_on_host, "call reset_all_envs() of a kernel backend first"
        self.env_resetter.reset_when_done(self.cuda_data_manager, "if_done", undo_done_after_reset)
        return {}

    def custom_reset_all_envs(
        self, args: Sequence[Any] | None = None, block: Any = None, grid: Any = None
    ) -> dict[str, Any]:
        """Launch the environment's own reset kernel.

        Args:
            args: Names of its arguments.
            block: Threads of a block; None: those of the step.
            grid: Blocks; None: those of the step.
        """
        self.env_resetter.custom_reset(args, block, grid)
        return {}

    def step_all_envs(self, actions: Any = None) -> Any:
        """Advance all replicas by one step; arrays change in place.

        Args:
            actions: Actions by agent, for the backend ``"cpu"`` only.

        Returns:
            None; for the backend ``"cpu"`` what the environment returns.
        """
        if self.env_backend != "cpu":
            self.env.step()
            return None
        assert actions is not None, "the backend cpu requires actions"
        return self.env.step(actions)

    def obs_at_reset(self) -> Any:
        """Return the observations of the environment's own ``reset``."""
        return self.env.reset()

    def reset(self) -> Any:
        """Start a new episode, see :meth:`reset_all_envs`."""
        return self.reset_all_envs()

    def step(self, actions: Any = None) -> Any:
        """Advance by one step, see :meth:`step_all_envs`."""
        return self.step_all_envs(actions)
