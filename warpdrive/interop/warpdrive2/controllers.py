"""Sampling of actions, resetting and logging of replicas, on the device and without host synchronisation."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from warpdrive.interop.warpdrive2.data_feed import DataFeed
from warpdrive.interop.warpdrive2.data_manager import CUDADataManager
from warpdrive.interop.warpdrive2.function_manager import CUDAFunctionFeed, CUDAFunctionManager

_MOST_STEPS = 1000  # among which the order of a pool is drawn


class _Controller:
    def __init__(self, function_manager: CUDAFunctionManager) -> None:
        self._function_manager = function_manager
        assert function_manager._default_functions_initialized, "call initialize_default_functions() first"
        self._block, self._grid = function_manager.block, function_manager.grid
        self._blocks_per_env, self._num_envs = function_manager.blocks_per_env, function_manager._num_envs
        self._seed: int | None = None
        self._generator: torch.Generator | None = None

    @property
    def _random_initialized(self) -> bool:
        return self._seed is not None

    def _set_seed(self, seed: int | None) -> None:
        self._seed, self._generator = int(time.time() if seed is None else seed), None

    def _generator_on(self, device: torch.device) -> torch.Generator:
        if self._generator is None:
            assert self._seed is not None
            self._generator = torch.Generator(device).manual_seed(self._seed)
        return self._generator


class CUDASampler(_Controller):
    """Sampler of actions from the outputs of policies.

    Args:
        function_manager: The kernels, with default functions.
    """

    def init_random(self, seed: int | None = None) -> None:
        """Set the seed; None: the time."""
        self._set_seed(seed)

    def register_actions(
        self, data_manager: CUDADataManager, action_name: str, num_actions: int, is_deterministic: bool = False
    ) -> None:
        """Allocate memory for an array of actions.

        Args:
            data_manager: The data.
            action_name: Name of the actions, ``[num_envs, agents, 1]``.
            num_actions: Number of choices.
            is_deterministic: If True, actions are continuous, with the noise of an Ornstein-Uhlenbeck process.
        """
        shape = (data_manager.get_shape(action_name)[0], data_manager.get_shape(action_name)[1])
        feed = DataFeed()
        if is_deterministic:
            feed.add_data(f"{action_name}_ou_state", np.zeros((*shape, 1), np.float32))
        else:
            feed.add_data(f"{action_name}_cum_distr", np.zeros((*shape, num_actions), np.float32))
        data_manager.push_data_to_device(feed)

    def sample(
        self, data_manager: CUDADataManager, distribution: torch.Tensor, action_name: str, **sample_params: Any
    ) -> None:
        """Draw an action for each agent.

        Args:
            data_manager: The data.
            distribution: Probabilities ``[num_envs, agents, choices]`` float32, or actions ``[num_envs, agents, 1]``.
            action_name: Name of the actions, ``[num_envs, agents, 1]``.
            **sample_params: ``use_argmax`` takes the most probable choice. ``damping``, ``stddev`` and ``scale`` are
                those of the noise that is added to continuous actions; it is 0 for a scale of 0.
        """
        assert self._random_initialized, "call init_random() first"
        assert torch.is_tensor(distribution) and distribution.shape[0] == self._num_envs
        assert data_manager.get_shape(action_name)[1] == distribution.shape[1]
        values, actions = distribution.detach(), data_manager.tensor(action_name)
        if data_manager.is_data_on_device(f"{action_name}_ou_state"):
            ornstein_uhlenbeck = {"damping": 0.15, "stddev": 0.2, "scale": 1.0, **sample_params}
            self._add_noise(values, actions, data_manager.tensor(f"{action_name}_ou_state"), **ornstein_uhlenbeck)
        elif sample_params.get("use_argmax"):
            actions.copy_(values.argmax(dim=-1).view_as(actions))
        else:
            cumulative = data_manager.tensor(f"{action_name}_cum_distr")
            assert cumulative.shape[-1] == values.shape[-1], f"'{action_name}' has {cumulative.shape[-1]} choices"
            torch.cumsum(values, dim=-1, out=cumulative)
            generator, device = self._generator_on(values.device), values.device
            threshold = torch.rand((*values.shape[:-1], 1), generator=generator, device=device)
            chosen = torch.searchsorted(cumulative, threshold, right=True)  # skips choices of probability 0
            actions.copy_(chosen.clamp_(max=values.shape[-1] - 1).view_as(actions))

    def _add_noise(
        self,
        mean: torch.Tensor,
        actions: torch.Tensor,
        noise: torch.Tensor,
        damping: float,
        stddev: float,
        scale: float,
        **_: Any,
    ) -> None:
        if scale > 0.0:
            drawn = torch.randn(noise.shape, generator=self._generator_on(mean.device), device=mean.device)
            noise.mul_(1.0 - damping).add_(drawn, alpha=stddev)
        actions.copy_(mean + scale * noise if scale > 0.0 else mean)


class NumbaOUProcess(CUDASampler):
    """Sampler of continuous actions with the noise of an Ornstein-Uhlenbeck process."""

    def reset_state(self, data_manager: CUDADataManager, action_name: str) -> None:
        """Set the noise to 0."""
        name = f"{action_name}_ou_state"
        if data_manager.is_data_on_device(name):
            data_manager.tensor(name).zero_()
        else:
            self.register_actions(data_manager, action_name, 1, is_deterministic=True)


class _PoolOrder:
    """Order in which replicas draw the elements of a pool: each draws all of them before any again.

    Replica ``i`` draws ``(first[i] + step[i] * count[i]) % size``, with a random first element and a random step that
    has no divisor in common with the size; both are drawn anew once all elements are drawn.

    Args:
        num_envs: Number of replicas.
        size: Size of the pool.
        generator: Source of randomness.
    """

    def __init__(self, num_envs: int, size: int, generator: torch.Generator) -> None:
        self.size, self._generator, device = size, generator, generator.device
        steps = [step for step in range(1, min(size, _MOST_STEPS) + 1) if math.gcd(step, size) == 1]
        self._steps = torch.tensor(steps, device=device)
        self._count = torch.zeros(num_envs, dtype=torch.int64, device=device)
        self._first, self._step = self._drawn()

    def _drawn(self) -> tuple[torch.Tensor, torch.Tensor]:
        def random(below: int) -> torch.Tensor:
            shape, device = self._count.shape, self._count.device
            return torch.randint(below, shape, generator=self._generator, device=device)

        return random(self.size), self._steps[random(len(self._steps))]

    def draw(self, chosen: torch.Tensor) -> torch.Tensor:
        """Return an index into the pool for each replica, int64 ``[num_envs]``; it counts for those in ``chosen``."""
        indices = (self._first + self._step * self._count) % self.size
        self._count += chosen
        complete = self._count == self.size
        self._count.masked_fill_(complete, 0)
        first, step = self._drawn()
        self._first, self._step = torch.where(complete, first, self._first), torch.where(complete, step, self._step)
        return indices


class CUDAEnvironmentReset(_Controller):
    """Resetter of replicas whose episode has ended.

    Args:
        function_manager: The kernels, with default functions.
    """

    def __init__(self, function_manager: CUDAFunctionManager) -> None:
        super().__init__(function_manager)
        self._cuda_custom_reset: Any = None
        self._cuda_reset_feed: CUDAFunctionFeed | None = None
        self._orders: dict[str, _PoolOrder] = {}

    def register_custom_reset_function(
        self, data_manager: CUDADataManager, reset_function_name: str | None = None
    ) -> None:
        """Use a kernel for :meth:`custom_reset`, if it is initialised."""
        if reset_function_name in self._function_manager.numba_function_names:
            self._cuda_custom_reset = self._function_manager.get_function(str(reset_function_name))
            self._cuda_reset_feed = CUDAFunctionFeed(data_manager)

    def custom_reset(self, args: Sequence[Any] | None = None, block: Any = None, grid: Any = None) -> None:
        """Launch the registered kernel.

        Args:
            args: Names of its arguments.
            block: Threads of a block; None: those of the step.
            grid: Blocks; None: those of the step.
        """
        assert self._cuda_custom_reset is not None and self._cuda_reset_feed is not None, "no reset kernel"
        launch = self._cuda_custom_reset[grid or self._grid, block or self._block]
        launch(*(self._cuda_reset_feed(args) if args else ()))

    def init_reset_pool(self, data_manager: CUDADataManager, seed: int | None = None) -> None:
        """Set the seed of the draws from reset pools; None: the time."""
        for name, pool in data_manager.reset_target_to_pool.items():
            shape, of_pool = data_manager.get_shape(name), data_manager.get_shape(pool)
            assert data_manager.get_dtype(name) == data_manager.get_dtype(pool), f"'{name}', '{pool}': other dtypes"
            assert shape[0] == self._num_envs and shape[1:] == of_pool[1:], f"'{name}', '{pool}': {shape}, {of_pool}"
            assert of_pool[0] > 1, f"the pool '{pool}' has {of_pool[0]} elements, expected 2 or more"
        self._set_seed(seed)
        self._orders.clear()

    def reset_when_done(
        self, data_manager: CUDADataManager, mode: str = "if_done", undo_done_after_reset: bool = True
    ) -> None:
        """Reset replicas.

        Args:
            data_manager: The data.
            mode: ``"if_done"`` for the replicas whose episode has ended, ``"force_reset"`` for all.
            undo_done_after_reset: If True, the flags of ended episodes and the time steps become 0.
        """
        if mode not in ("if_done", "force_reset"):
            raise ValueError(f"unknown mode '{mode}', expected if_done or force_reset")
        force = int(mode == "force_reset")
        done = data_manager.tensor("_done_")
        if not force and done.device.type == "cpu" and not done.any():
            return
        self.reset_when_done_deterministic(data_manager, force)
        self.reset_when_done_from_pool(data_manager, force)
        if undo_done_after_reset:
            self._undo_done_flag_and_reset_timestep(data_manager, force)

    def reset_when_done_deterministic(self, data_manager: CUDADataManager, force_reset: int) -> None:
        """Reset arrays to their initial values: in all replicas, or in those whose episode has ended."""
        chosen = self._chosen(data_manager, force_reset)
        for name in data_manager.reset_data_list:
            self._set(data_manager.tensor(name), data_manager.tensor(f"{name}_at_reset"), chosen)

    def reset_when_done_from_pool(self, data_manager: CUDADataManager, force_reset: int) -> None:
        """Reset arrays to random elements of their pools: in all replicas, or in those whose episode has ended.

        A replica draws each element of a pool once before it draws any again.
        """
        if not data_manager.reset_target_to_pool:
            return
        assert self._random_initialized, "call init_reset_pool() first"
        chosen = self._chosen(data_manager, force_reset)
        for name, pool_name in data_manager.reset_target_to_pool.items():
            pool = data_manager.tensor(pool_name)
            if name not in self._orders:
                self._orders[name] = _PoolOrder(self._num_envs, len(pool), self._generator_on(pool.device))
            self._set(data_manager.tensor(name), pool[self._orders[name].draw(chosen)], chosen)

    def _undo_done_flag_and_reset_timestep(self, data_manager: CUDADataManager, force_reset: int) -> None:
        chosen = self._chosen(data_manager, force_reset)
        for name in ("_timestep_", "_done_"):
            data_manager.tensor(name).masked_fill_(chosen, 0)

    @staticmethod
    def _chosen(data_manager: CUDADataManager, force_reset: int) -> torch.Tensor:
        done = data_manager.tensor("_done_")
        return torch.ones_like(done, dtype=torch.bool) if force_reset else done > 0

    @staticmethod
    def _set(target: torch.Tensor, source: torch.Tensor, chosen: torch.Tensor) -> None:
        assert len(target) == len(chosen), f"the array is {tuple(target.shape)}, expected {len(chosen)} replicas"
        target.copy_(torch.where(chosen.view(-1, *[1] * (target.ndim - 1)), source, target))


class CUDALogController(_Controller):
    """Log of the episode of one replica.

    Args:
        function_manager: The kernels, with default functions.
    """

    def __init__(self, function_manager: CUDAFunctionManager) -> None:
        super().__init__(function_manager)
        self.last_valid_step = -1
        self._env_id = 0

    def update_log(self, data_manager: CUDADataManager, step: int) -> None:
        """Log the current values as those of a step, which must be later than all before."""
        assert step > self.last_valid_step, f"step {step} is already in the log"
        if step <= int(data_manager.meta_info("episode_length")):
            mask = data_manager.tensor("_log_mask_")
            for name in data_manager.log_data_list:
                data_manager.tensor(f"{name}_for_log")[step] = data_manager.tensor(name)[self._env_id]
            mask[step] = 1
        self.last_valid_step = step

    def reset_log(self, data_manager: CUDADataManager, env_id: int = 0) -> None:
        """Begin a new log of a replica, with the current values as those of step 0."""
        assert 0 <= env_id < self._num_envs, f"there is no replica {env_id}"
        logging.info("log of replica %s", env_id)
        self._env_id, self.last_valid_step = env_id, -1
        data_manager.tensor("_log_mask_").zero_()
        self.update_log(data_manager, step=0)

    def fetch_log(
        self,
        data_manager: CUDADataManager,
        names: Iterable[str] | None = None,
        last_step: int | None = None,
        check_last_valid_step: bool = True,
    ) -> dict[str, Any]:
        """Copy the log to the host.

        Args:
            data_manager: The data.
            names: Names of the arrays; None: all logged ones.
            last_step: The last step; None: all.
            check_last_valid_step: If True, check that no step is missing.

        Returns:
            ``[steps, agents, ...]`` for each array, under the name ``<name>_for_log``.

        Raises:
            ValueError: If steps are missing.
        """
        logged = np.flatnonzero(data_manager.pull_data_from_device("_log_mask_"))
        if check_last_valid_step and not np.array_equal(logged, np.arange(self.last_valid_step + 1)):
            raise ValueError(f"the log has the steps {logged.tolist()}, expected all up to {self.last_valid_step}")
        end = self.last_valid_step if last_step is None else min(last_step, self.last_valid_step)
        chosen = data_manager.log_data_list if names is None else names
        return {f"{name}_for_log": data_manager.pull_data_from_device(f"{name}_for_log")[: end + 1] for name in chosen}
