"""Base class and registrar of WarpDrive 2 environments, and observation spaces derived from observations."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from warpdrive.errors import DefinitionError, nearest
from warpdrive.interop.warpdrive2.data_feed import DataFeed

_BOUND = 1e20


class CUDAEnvironmentContext:
    """Base class of environments whose step is a kernel."""

    def __init__(self) -> None:
        self.cuda_data_manager: Any = None
        self.cuda_function_manager: Any = None
        self.cuda_step: Any = None
        self.cuda_step_function_feed: Any = None

    def initialize_step_function_context(
        self, cuda_data_manager: Any, cuda_function_manager: Any, cuda_step_function_feed: Any, step_function_name: str
    ) -> bool:
        """Store the context of the step function.

        Args:
            cuda_data_manager: The data.
            cuda_function_manager: The kernels.
            cuda_step_function_feed: Arguments of the step by name.
            step_function_name: Name of the kernel of the step.

        Returns:
            False if there is no such kernel.
        """
        self.cuda_data_manager, self.cuda_function_manager = cuda_data_manager, cuda_function_manager
        self.cuda_step_function_feed = cuda_step_function_feed
        try:
            cuda_function_manager.initialize_functions([step_function_name])
        except AttributeError as error:
            logging.error(error)
            return False
        self.cuda_step = cuda_function_manager.get_function(step_function_name)
        return True

    def get_data_dictionary(self) -> DataFeed:
        """Return the arrays and numbers of one replica."""
        return DataFeed()

    def get_tensor_dictionary(self) -> DataFeed:
        """Return the arrays of one replica that are also tensors."""
        return DataFeed()

    def get_reset_pool_dictionary(self) -> DataFeed:
        """Return the pools that start values are drawn from."""
        return DataFeed()


CUDAEnvironmentState = CUDAEnvironmentContext


class EnvironmentRegistrar:
    """Environment classes by name and backend, and the modules or files of their kernels. All instances share them."""

    _classes: ClassVar[dict[str, dict[str, type]]] = {"cpu": {}, "pycuda": {}, "numba": {}}
    _kernels: ClassVar[dict[str, dict[str, str]]] = {"pycuda": {}, "numba": {}}

    def add(
        self, env_backend: str | Sequence[str] = "cpu", cuda_env_src_path: str | None = None
    ) -> Callable[[type], type]:
        """Return a decorator that registers a class under its attribute ``name``.

        Args:
            env_backend: ``"cpu"``, ``"pycuda"``, ``"numba"`` or a list of them.
            cuda_env_src_path: File of the kernels in CUDA C, or module of those in Python.

        Raises:
            DefinitionError: If another class has that name.
        """
        backends = [env_backend] if isinstance(env_backend, str) else list(env_backend)

        def register(cls: type) -> type:
            name = cls.name.lower()  # type: ignore[attr-defined]
            for backend in map(_backend, backends):
                known = self._classes[backend].setdefault(name, cls)
                if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
                    raise DefinitionError(f"the environment '{name}' is already registered for {backend}: rename it")
                self._classes[backend][name] = cls
                if cuda_env_src_path is not None and backend != "cpu":
                    self.add_cuda_env_src_path(name, cuda_env_src_path, backend)
            return cls

        return register

    def get(self, name: str, env_backend: str = "cpu") -> type:
        """Return the class of a name. Raises :class:`DefinitionError` if there is none."""
        known = self._classes[_backend(env_backend)]
        if name.lower() not in known:
            raise DefinitionError(f"no environment '{name}' is registered for {env_backend}.{nearest(name, known)}")
        return known[name.lower()]

    def add_cuda_env_src_path(self, name: str, cuda_env_src_path: str, env_backend: str = "pycuda") -> None:
        """Register the kernels of an environment.

        Args:
            name: Name of the environment.
            cuda_env_src_path: Path of a ``.cu`` file, or name of a module.
            env_backend: ``"pycuda"`` for the former, ``"numba"`` for the latter.

        Raises:
            DefinitionError: If the path is not of that kind.
        """
        if env_backend == "pycuda" and not cuda_env_src_path.endswith(".cu"):
            raise DefinitionError(f"found '{cuda_env_src_path}', expected a .cu file for pycuda")
        if env_backend == "numba" and "/" in cuda_env_src_path:
            raise DefinitionError(f"found '{cuda_env_src_path}', expected the name of a module for numba")
        self._kernels[env_backend][name.lower()] = cuda_env_src_path

    def get_cuda_env_src_path(self, name: str, env_backend: str = "pycuda") -> str | None:
        """Return the file or module of an environment's kernels, or None."""
        return self._kernels[env_backend].get(name.lower())

    def has_env(self, name: str, env_backend: str = "cpu") -> bool:
        """Return True if a name is registered for a backend."""
        return name.lower() in self._classes[_backend(env_backend)]


def _backend(name: str) -> str:
    backend = {"cuda": "pycuda", "gpu": "pycuda"}.get(name.lower(), name.lower())
    if backend not in EnvironmentRegistrar._classes:
        raise DefinitionError(f"env_backend is '{name}', expected cpu, numba or pycuda")
    return backend


env_registrar = EnvironmentRegistrar()


def recursive_obs_dict_to_spaces_dict(obs: Mapping[Any, Any]) -> spaces.Dict:
    """Return the observation spaces of nested dictionaries of observations."""
    return spaces.Dict({key: _space_of(value) for key, value in obs.items()})


def _space_of(value: Any) -> spaces.Space[Any]:
    if isinstance(value, Mapping):
        return recursive_obs_dict_to_spaces_dict(value)
    array = np.atleast_1d(np.asarray(value))
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"found an observation of type {type(value).__name__}, expected numbers, arrays or dictionaries"
        )
    if array.dtype.kind == "b":
        return spaces.MultiBinary(array.shape)
    limits = np.iinfo(array.dtype) if array.dtype.kind in "iu" else None
    low, high = (-_BOUND, _BOUND) if limits is None else (limits.min, limits.max)
    return spaces.Box(low, high, array.shape, array.dtype.type)
