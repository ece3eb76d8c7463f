"""Arrays on the device by name, shared by kernels and PyTorch."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from warpdrive.interop.warpdrive2.data_feed import DataFeed
from warpdrive.interop.warpdrive2.devices import device_copy

_NARROWED = {"float64": np.float32, "int64": np.int32}


class CUDADataManager:
    """Arrays and numbers of the replicas.

    Args:
        num_agents: Number of agents of a replica.
        num_envs: Number of replicas.
        blocks_per_env: Blocks of threads per replica.
        episode_length: Maximum number of steps of an episode, the length of the log.
    """

    def __init__(
        self,
        num_agents: int | None = None,
        num_envs: int | None = None,
        blocks_per_env: int = 1,
        episode_length: int | None = None,
    ) -> None:
        sizes = {"n_agents": num_agents, "n_envs": num_envs, "episode_length": episode_length}
        for name, size in sizes.items():
            assert size is not None, f"{name} is required"
        self._meta_info: dict[str, Any] = {}
        self._host_data: dict[str, Any] = {}
        self._scalar_data_list: list[str] = []
        self._reset_data_list: list[str] = []
        self._reset_target_to_pool: dict[str, str] = {}
        self._log_data_list: list[str] = []
        self._tensors: dict[str, torch.Tensor] = {}
        self._device_data_pointer: dict[str, Any] = {}
        self._device_data_via_torch: dict[str, torch.Tensor] = {}
        self._shared_constants: dict[str, Any] = {}
        self._shape: dict[str, tuple[int, ...]] = {}
        self._dtype: dict[str, str] = {}
        self.add_meta_info({**sizes, "blocks_per_env": blocks_per_env})
        mask = DataFeed()
        mask.add_data("_log_mask_", np.zeros(int(self.meta_info("episode_length")) + 1, np.int32))
        mask.add_data("_timestep_", np.zeros(int(self.meta_info("n_envs")), np.int32))
        self.push_data_to_device(mask)
        done = DataFeed()
        done.add_data("_done_", np.zeros(int(self.meta_info("n_envs")), np.int32))
        self.push_data_to_device(done, torch_accessible=True)

    def add_meta_info(self, meta: Mapping[str, Any]) -> None:
        """Add numbers: integers become int32, others float32."""
        for name, value in meta.items():
            assert name not in self._meta_info, f"the meta information '{name}' is already there"
            self._meta_info[name] = _number(name, value)

    def add_shared_constants(self, constants: Mapping[str, Any]) -> None:
        """Add constants of all replicas: numbers, arrays or lists."""
        for name, value in constants.items():
            assert name not in self._shared_constants, f"the shared constant '{name}' is already there"
            constant = self._array(name, value) if isinstance(value, np.ndarray | list) else _number(name, value)
            self._shared_constants[name] = constant
            self._describe(name, constant)

    def push_data_to_device(self, data: Mapping[str, Mapping[str, Any]], torch_accessible: bool = False) -> None:
        """Copy arrays to the device; numbers remain on the host, and are passed to kernels by value.

        Arrays of 64-bit numbers become 32-bit ones.

        Args:
            data: Arrays and numbers with their attributes, see :class:`DataFeed`.
            torch_accessible: If True, the arrays are also tensors, see :meth:`data_on_device_via_torch`.

        Raises:
            ValueError: If a value is neither an array, a list nor a number.
        """
        for name, content in data.items():
            assert name not in self._host_data, f"the data '{name}' is already on the device"
            value, attributes = content["data"], content["attributes"]
            if not isinstance(value, np.ndarray | list):
                self._host_data[name] = _number(name, value)
                self._describe(name, self._host_data[name])
                self._scalar_data_list.append(name)
                continue
            self._allocate(name, self._array(name, value), torch_accessible)
            if attributes.get("is_reset_pool"):
                self._add_reset_pool(name, attributes["reset_target"])
                continue
            if attributes.get("save_copy_and_apply_at_reset"):
                assert name not in self._reset_target_to_pool, f"'{name}' already has a reset pool"
                self._put(f"{name}_at_reset", self._host_data[name])
                self._reset_data_list.append(name)
            if attributes.get("log_data_across_episode"):
                self._add_log(name, torch_accessible)

    def pull_data_from_device(self, name: str) -> Any:
        """Return a copy of an array on the host, or a number."""
        if name in self._scalar_data_list:
            return self._host_data[name]
        assert name in self._tensors, f"there is no data '{name}' on the device"
        return self._tensors[name].detach().cpu().numpy().copy()

    def data_on_device_via_torch(self, name: str) -> torch.Tensor:
        """Return the tensor that shares memory with an array that was pushed as accessible to PyTorch."""
        assert name in self._device_data_via_torch, f"the data '{name}' was not pushed as accessible to PyTorch"
        return self._device_data_via_torch[name]

    def reset_device(self, name: str | None = None) -> None:
        """Copy an array, or all arrays, from the host to the device again."""
        for array in [name] if name is not None else self._tensors.keys() & self._host_data.keys():
            self._tensors[array].copy_(torch.from_numpy(self._host_data[array]))

    def meta_info(self, name: str) -> Any:
        """Return a number of the meta information."""
        assert name in self._meta_info, f"there is no meta information '{name}'"
        return self._meta_info[name]

    def shared_constant(self, name: str) -> Any:
        """Return a shared constant."""
        assert name in self._shared_constants, f"there is no shared constant '{name}'"
        return self._shared_constants[name]

    def device_data(self, name: str) -> Any:
        """Return the argument that a kernel takes for an array or a number."""
        if name in self._scalar_data_list:
            return self._host_data[name]
        assert name in self._device_data_pointer, f"there is no data '{name}' on the device"
        return self._device_data_pointer[name]

    def tensor(self, name: str) -> torch.Tensor:
        """Return the tensor that shares memory with an array, however it was pushed."""
        return self._tensors[name]

    def is_data_on_device(self, name: str) -> bool:
        """Return True if there is an array of this name on the device."""
        return name in self._device_data_pointer

    def is_data_on_device_via_torch(self, name: str) -> bool:
        """Return True if there is an array of this name that was pushed as accessible to PyTorch."""
        return name in self._device_data_via_torch

    def get_shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an array; ``()`` for numbers."""
        assert name in self._shape, f"there is no data '{name}'"
        return self._shape[name]

    def get_dtype(self, name: str) -> str:
        """Return the name of the dtype of an array or a number."""
        assert name in self._dtype, f"there is no data '{name}'"
        return self._dtype[name]

    def get_reset_pool(self, name: str) -> str:
        """Return the name of the pool that an array is reset from."""
        assert name in self._reset_target_to_pool, f"'{name}' has no reset pool"
        return self._reset_target_to_pool[name]

    @property
    def host_data(self) -> dict[str, Any]:
        """Arrays and numbers as they were pushed, by name."""
        return self._host_data

    @property
    def scalar_data_list(self) -> list[str]:
        """Names of the numbers."""
        return self._scalar_data_list

    @property
    def reset_data_list(self) -> list[str]:
        """Names of the arrays that are reset to their initial values."""
        return self._reset_data_list

    @property
    def reset_target_to_pool(self) -> dict[str, str]:
        """Names of the pools by the names of the arrays that are reset from them."""
        return self._reset_target_to_pool

    @property
    def log_data_list(self) -> list[str]:
        """Names of the logged arrays."""
        return self._log_data_list

    @property
    def device_data_via_torch(self) -> dict[str, torch.Tensor]:
        """Tensors by name."""
        return self._device_data_via_torch

    def _array(self, name: str, value: Any) -> np.ndarray[Any, Any]:
        array = np.asarray(value, order="C")
        narrow = _NARROWED.get(array.dtype.name)
        if narrow is not None:
            logging.info("the data '%s' is converted from %s to %s", name, array.dtype.name, np.dtype(narrow).name)
            array = array.astype(narrow)
        return array

    def _describe(self, name: str, value: Any) -> None:
        self._shape[name], self._dtype[name] = value.shape, value.dtype.name
        logging.info("- %-40s dtype=%-8s shape=%s", name, value.dtype.name, value.shape)

    def _allocate(self, name: str, array: np.ndarray[Any, Any], torch_accessible: bool = False) -> None:
        self._host_data[name] = array
        self._put(name, array)
        if torch_accessible:
            self._device_data_via_torch[name] = self._tensors[name]

    def _put(self, name: str, array: np.ndarray[Any, Any]) -> None:
        self._tensors[name], self._device_data_pointer[name] = device_copy(array)
        self._describe(name, array)

    def _add_reset_pool(self, pool: str, target: str) -> None:
        assert target not in self._reset_target_to_pool, f"'{target}' already has a reset pool"
        assert target not in self._reset_data_list, f"'{target}' is already reset to its initial values"
        self._reset_target_to_pool[target] = pool

    def _add_log(self, name: str, torch_accessible: bool) -> None:
        assert not torch_accessible, f"'{name}': data that is accessible to PyTorch cannot be logged"
        array = self._host_data[name]
        expected = (int(self.meta_info("n_envs")), int(self.meta_info("n_agents")))
        assert array.shape[:2] == expected, f"logged data '{name}' is {array.shape}, expected {(*expected, '...')}"
        steps = int(self.meta_info("episode_length")) + 1
        self._allocate(f"{name}_for_log", np.zeros((steps, *array.shape[1:]), array.dtype))
        self._log_data_list.append(name)


def _number(name: str, value: Any) -> Any:
    if isinstance(value, int | np.integer | np.bool_):
        return np.int32(value)
    if isinstance(value, float | np.floating):
        return np.float32(value)
    raise ValueError(f"the data '{name}' is a {type(value).__name__}, expected a number, a list or an array")
