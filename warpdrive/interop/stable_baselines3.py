"""Vector environments of Stable-Baselines3, over Gymnasium's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from stable_baselines3.common.vec_env import VecEnv

from warpdrive.errors import WarpDriveError
from warpdrive.interop.gymnasium import GymnasiumVectorEnv


class StableBaselines3VecEnv(VecEnv):
    """Vector environment with NumPy outputs and the autoreset of ``SAME_STEP``; see ``wd.to_stable_baselines3``.

    ``infos`` of rows whose episode ended have ``terminal_observation``, ``TimeLimit.truncated``, and ``episode`` with
    the return ``r`` and length ``l``.
    """

    def __init__(self, envs: GymnasiumVectorEnv) -> None:
        self.envs = envs
        self._actions: Any = None
        self._empty_infos: list[dict[str, Any]] = [{} for _ in range(envs.num_envs)]  # new ones take longer than a step
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

    def reset(self) -> Any:
        """Start new episodes and return the observations ``[num_envs, *shape]``."""
        observations, _ = self.envs.reset(seed=self._seeds[0])
        self._reset_seeds()
        self._reset_options()
        return observations

    def step_async(self, actions: npt.NDArray[Any]) -> None:
        """Keep the actions for :meth:`step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[Any, npt.NDArray[np.float32], npt.NDArray[np.bool_], list[dict[str, Any]]]:
        """Step, and return observations, rewards ``[num_envs]``, dones ``[num_envs]`` and a list of infos."""
        observations, rewards, terminated, truncated = self.envs.advance(self._actions)
        dones, infos = terminated | truncated, self._empty_infos.copy()
        rows = dones.nonzero()[0]
        if len(rows):
            batch = self.envs.batch
            limits = truncated.take(rows) > terminated.take(rows)  # take() is faster than an index
            returns, lengths = (
                column.take(rows).tolist() for column in (batch.episode_return(), batch.episode_length())
            )
            lists = (rows.tolist(), self._final(rows), limits.tolist(), returns, lengths)
            for row, final, limit, r, length in zip(*lists, strict=True):
                infos[row] = {
                    "terminal_observation": final,
                    "TimeLimit.truncated": limit,
                    "episode": {"r": r, "l": length},
                }
        return observations, rewards, dones, infos

    def _final(self, rows: npt.NDArray[np.int64]) -> Iterable[Any]:
        """Return the final observations of some rows."""
        final = self.envs.batch.final_observations()
        if not isinstance(final, dict):
            return final.take(rows, axis=0)  # type: ignore[no-any-return]
        parts = {key: part.take(rows, axis=0) for key, part in final.items()}
        return [{key: part[index] for key, part in parts.items()} for index in range(len(rows))]

    def close(self) -> None:
        """Free the device's memory."""
        self.envs.close()

    def get_images(self) -> list[Any]:
        """Return an image per row."""
        return list(self.envs.render() or ())

    def get_attr(self, attr_name: str, indices: int | Iterable[int] | None = None) -> list[Any]:
        """Return an attribute of the vector environment, or of the environment, once per row."""
        owner = self.envs if hasattr(self.envs, attr_name) else self.envs.replicas.env
        return [getattr(owner, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: int | Iterable[int] | None = None) -> None:
        """Raise :class:`WarpDriveError`: kernels have read the attributes already."""
        raise WarpDriveError(
            f"set_attr: '{attr_name}' cannot change, as kernels are compiled: create another environment"
        )

    def env_method(
        self, method_name: str, *method_args: Any, indices: int | Iterable[int] | None = None, **method_kwargs: Any
    ) -> list[Any]:
        """Return ``action_masks`` ``[choices]`` bool per row, or the result of a method of the environment.

        Args:
            method_name: The name of the method.
            method_args: Positional arguments.
            indices: The rows; None for all.
            method_kwargs: Keyword arguments.

        Returns:
            A result per row.
        """
        rows = list(self._get_indices(indices))
        if method_name == "action_masks" and self.envs.batch.action_mask is not None:
            return list(self.envs.batch.action_mask()[rows])
        method = getattr(self.envs.replicas.env, method_name)
        return [method(*method_args, **method_kwargs) for _ in rows]

    def env_is_wrapped(self, wrapper_class: Any, indices: int | Iterable[int] | None = None) -> list[bool]:
        """Return False per row: there are no wrappers."""
        return [False for _ in self._get_indices(indices)]
