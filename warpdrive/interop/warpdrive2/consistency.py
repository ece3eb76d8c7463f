"""Comparison of an environment in Python with its kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from warpdrive.interop.warpdrive2.data_feed import Constants
from warpdrive.interop.warpdrive2.env_wrapper import EnvWrapper
from warpdrive.interop.warpdrive2.placeholders import AgentIds, create_and_push_data_placeholders, get_obs


def generate_random_actions(env: Any, num_envs: int, seed: int | None = None) -> list[dict[Any, Any]]:
    """Return random actions.

    Args:
        env: An environment with action spaces by agent id.
        num_envs: Number of replicas.
        seed: Seed of the draws; None: NumPy's global generator.

    Returns:
        Actions by agent id, for each replica.
    """
    drawn = np.random if seed is None else np.random.RandomState(seed)
    return [{agent: _random_action(space, drawn) for agent, space in env.action_space.items()} for _ in range(num_envs)]


def _random_action(space: Any, drawn: Any) -> Any:
    if hasattr(space, "low"):
        return drawn.uniform(space.low, space.high).astype(np.float32)
    return drawn.randint(0, getattr(space, "nvec", None) if hasattr(space, "nvec") else int(space.n), dtype=np.int32)


class EnvironmentCPUvsGPU:
    """Comparison of an environment's step in Python with its kernel, over whole episodes of random actions.

    Args:
        cpu_env_class: Class with the step in Python.
        cuda_env_class: Class with the kernel.
        dual_mode_env_class: Class with both, instead of the former two.
        env_configs: Arguments of the classes, by name.
        num_envs: Number of replicas.
        blocks_per_env: Blocks of threads per replica.
        assert_equal_num_agents_per_block: Accepted for compatibility.
        num_episodes: Number of episodes.
        gpu_env_backend: Backend of the kernels.
        use_gpu_testing_mode: Accepted for compatibility.
        testing_bin_filename: Accepted for compatibility.
        env_registrar: Registrar of the environment and its kernels.
        env_wrapper: Class of the replicas.
        policy_tag_to_agent_id_map: Agent ids by policy tag.
        create_separate_placeholders_for_each_policy: If True, each policy has arrays of its own.
        obs_dim_corresponding_to_num_agents: Position of the agents in the observations: ``"first"`` or ``"last"``.
    """

    def __init__(
        self,
        cpu_env_class: Any = None,
        cuda_env_class: Any = None,
        dual_mode_env_class: Any = None,
        env_configs: Mapping[str, Mapping[str, Any]] | None = None,
        num_envs: int = 3,
        blocks_per_env: int | None = None,
        assert_equal_num_agents_per_block: bool = False,
        num_episodes: int = 2,
        gpu_env_backend: str = "numba",
        use_gpu_testing_mode: bool = False,
        testing_bin_filename: str | None = None,
        env_registrar: Any = None,
        env_wrapper: Any = EnvWrapper,
        policy_tag_to_agent_id_map: Mapping[str, AgentIds] | None = None,
        create_separate_placeholders_for_each_policy: bool = False,
        obs_dim_corresponding_to_num_agents: str = "first",
    ) -> None:
        self.cpu_env_class = dual_mode_env_class or cpu_env_class
        self.cuda_env_class = dual_mode_env_class or cuda_env_class
        assert self.cpu_env_class is not None and self.cuda_env_class is not None
        self.env_configs, self.num_envs, self.num_episodes = env_configs or {}, num_envs, num_episodes
        self.blocks_per_env, self.gpu_env_backend = blocks_per_env, gpu_env_backend
        self.env_registrar, self.env_wrapper = env_registrar, env_wrapper
        self.policy_tag_to_agent_id_map = policy_tag_to_agent_id_map
        self.create_separate_placeholders_for_each_policy = create_separate_placeholders_for_each_policy
        self.obs_dim_corresponding_to_num_agents = obs_dim_corresponding_to_num_agents

    def test_env_reset_and_step(self, consistency_threshold_pct: float = 1, seed: int | None = None) -> None:
        """Compare observations, rewards and ends of episodes.

        Args:
            consistency_threshold_pct: Percentage by which values may differ, absolutely or relatively.
            seed: Seed of the actions, which are then the same in every step; None: NumPy's global generator.

        Raises:
            AssertionError: If they differ.
        """
        for name, config in self.env_configs.items():
            self._compare(name, config, consistency_threshold_pct / 100, seed)
            print(f"{name}: the environments agree within {consistency_threshold_pct} percent")

    def _compare(self, name: str, config: Mapping[str, Any], tolerance: float, seed: int | None) -> None:
        python, kernels = self._environments(config)
        observations = [env.reset() for env in python]
        self._check(name, "observations", 0, self._arrays(observations, kernels), tolerance)
        for step in range(1, self.num_episodes * kernels.episode_length + 1):
            actions = generate_random_actions(kernels.env, self.num_envs, seed)
            self._push(actions, kernels)
            results = [env.step(action) for env, action in zip(python, actions, strict=True)]
            kernels.step_all_envs()
            observations = [result[0] for result in results]
            self._check(name, "observations", step, self._arrays(observations, kernels), tolerance)
            rewards = [result[1] for result in results]
            self._check(name, "rewards", step, self._arrays(rewards, kernels, Constants.REWARDS), tolerance)
            done = np.array([bool(result[2]["__all__"]) for result in results])
            ended = kernels.cuda_data_manager.pull_data_from_device("_done_") > 0
            assert (done == ended).all(), f"{name}, step {step}: ends {done.tolist()} in Python, {ended.tolist()} here"
            kernels.reset_only_done_envs()
            assert not kernels.cuda_data_manager.pull_data_from_device("_done_").any()
            if done.any():
                for replica in np.flatnonzero(done):
                    observations[replica] = python[replica].reset()
                self._check(name, "observations", step, self._arrays(observations, kernels), tolerance)

    def _environments(self, config: Mapping[str, Any]) -> tuple[list[Any], Any]:
        registrar, name = self.env_registrar, self.cpu_env_class.name
        registered = registrar is not None and registrar.has_env(name, env_backend="cpu")
        cpu_class = registrar.get(name, env_backend="cpu") if registered else self.cpu_env_class
        python = [self.env_wrapper(env_obj=cpu_class(**config), env_backend="cpu") for _ in range(self.num_envs)]
        name = self.cuda_env_class.name
        registered = registrar is not None and registrar.has_env(name, env_backend=self.gpu_env_backend)
        kernels = self.env_wrapper(
            env_obj=None if registered else self.cuda_env_class(**config),
            env_name=name,
            env_config=config,
            num_envs=self.num_envs,
            blocks_per_env=self.blocks_per_env,
            env_backend=self.gpu_env_backend,
            env_registrar=registrar,
        )
        kernels.reset_all_envs()
        create_and_push_data_placeholders(
            kernels,
            None,
            self.policy_tag_to_agent_id_map,
            self.create_separate_placeholders_for_each_policy,
            self.obs_dim_corresponding_to_num_agents,
            push_data_batch_placeholders=False,
        )
        return python, kernels

    def _groups(self, env: Any) -> dict[str, AgentIds]:
        if not self.create_separate_placeholders_for_each_policy:
            return {"": sorted(env.action_space)}
        return {f"_{tag}": ids for tag, ids in (self.policy_tag_to_agent_id_map or {}).items()}

    def _push(self, actions: list[dict[Any, Any]], kernels: Any) -> None:
        for suffix, ids in self._groups(kernels.env).items():
            target = kernels.cuda_data_manager.data_on_device_via_torch(Constants.ACTIONS + suffix)
            values = np.array([[action[agent] for agent in ids] for action in actions]).reshape(target.shape)
            target.copy_(torch.from_numpy(values))

    def _arrays(self, values: list[Any], kernels: Any, name: str = Constants.OBSERVATIONS) -> dict[str, Any]:
        """Return pairs of arrays by name: of the environments in Python, and of the kernels."""
        pairs = {}
        position = self.obs_dim_corresponding_to_num_agents if name == Constants.OBSERVATIONS else "first"
        for suffix, ids in self._groups(kernels.env).items():
            first = values[0][ids[0]]
            for key in first if isinstance(first, Mapping) else [None]:
                array = name + suffix + ("" if key is None else f"_{key}")
                stacked = np.stack([get_obs(value, ids, position, key) for value in values])
                pairs[array] = stacked, kernels.cuda_data_manager.pull_data_from_device(array)
        return pairs

    @staticmethod
    def _check(name: str, what: str, step: int, pairs: Mapping[str, Any], tolerance: float) -> None:
        for array, (python, kernel) in pairs.items():
            if not np.allclose(kernel, python, rtol=tolerance, atol=tolerance):
                where = np.argwhere(~np.isclose(kernel, python, rtol=tolerance, atol=tolerance))[0]
                found = f"{python[tuple(where)]} in Python, {kernel[tuple(where)]} in the kernel"
                raise AssertionError(f"{name}, step {step}, {what}: '{array}' at {where.tolist()} is {found}")
