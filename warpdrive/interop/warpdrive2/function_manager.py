"""Kernels by name, and their arguments."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Sequence
from typing import Any

from warpdrive.interop.warpdrive2 import kernel_modules
from warpdrive.interop.warpdrive2.data_manager import CUDADataManager


class CUDAFunctionManager:
    """Kernels of an environment.

    Args:
        num_agents: Number of agents of a replica, and of threads of its blocks together.
        num_envs: Number of replicas.
        blocks_per_env: Blocks of threads per replica.
        process_id: Rank of this process.
    """

    def __init__(self, num_agents: int = 1, num_envs: int = 1, blocks_per_env: int = 1, process_id: int = 0) -> None:
        self._num_agents, self._num_envs, self._blocks_per_env = int(num_agents), int(num_envs), int(blocks_per_env)
        if self._num_agents % self._blocks_per_env:
            logging.warning("the last block of each replica has threads without an agent: kernels must skip them")
        self._process_id = process_id
        self._block = (-(-self._num_agents // self._blocks_per_env), 1, 1)
        self._grid = (self._num_envs * self._blocks_per_env, 1)
        self._module: Any = None
        self._functions: dict[str, Any] = {}
        self._default_functions_initialized = False

    def import_numba_from_source_code(self, numba_path: str, default_functions_included: bool = True) -> None:
        """Import the module of the kernels.

        Args:
            numba_path: Name of the module, importable from the Python path.
            default_functions_included: If True, sampler, resetter and log controller may be used.
        """
        assert self._module is None, "the kernels are already loaded"
        self._module = importlib.import_module(numba_path)
        if default_functions_included:
            self.initialize_default_functions()

    def import_numba_env_config(
        self, template_header_file: str | None = None, template_path: str | None = None
    ) -> None:
        """Set the constants ``wkNumberEnvs``, ``wkNumberAgents`` and ``wkBlocksPerEnv`` of kernels imported next.

        Args:
            template_header_file: Accepted for compatibility.
            template_path: Accepted for compatibility.
        """
        kernel_modules.set_sizes(self._num_envs, self._num_agents, self._blocks_per_env)

    def dynamic_import_numba(
        self,
        env_name: str,
        template_header_file: str | None = None,
        template_runner_file: str | None = None,
        template_path: str | None = None,
        default_functions_included: bool = True,
        customized_env_registrar: Any = None,
        event_messenger: Any = None,
    ) -> None:
        """Import the kernels of an environment anew, with the sizes of this object as constants.

        Args:
            env_name: Name of the environment.
            template_header_file: Accepted for compatibility.
            template_runner_file: Accepted for compatibility.
            template_path: Accepted for compatibility.
            default_functions_included: If True, sampler, resetter and log controller may be used.
            customized_env_registrar: Registrar that may know the module of the kernels.
            event_messenger: Event that is set, for processes that wait for it.
        """
        self.import_numba_env_config()
        kernel_modules.forget()
        self.import_numba_from_source_code(
            kernel_modules.module_of(env_name, customized_env_registrar), default_functions_included
        )
        if event_messenger is not None:
            event_messenger.set()

    def initialize_default_functions(self) -> None:
        """Allow the use of sampler, resetter and log controller, whose work is that of PyTorch."""
        self._default_functions_initialized = True

    def initialize_functions(self, func_names: Sequence[str] | None = None) -> None:
        """Look up kernels of the imported module.

        Raises:
            AttributeError: If the module has no such kernel.
        """
        assert self._module is not None, "there are no kernels yet: import them first"
        for name in func_names or ():
            self._functions[name] = self._callable(self._find(name))

    def _find(self, name: str) -> Any:
        return getattr(self._module, name)

    def _callable(self, kernel: Any) -> Any:
        return kernel

    def _get_function(self, fname: str) -> Any:
        assert fname in self._functions, f"the function {fname} is not initialised"
        return self._functions[fname]

    @property
    def get_function(self) -> Callable[[str], Any]:
        """Function that returns a kernel by name."""
        return self._get_function

    @property
    def numba_function_names(self) -> list[str]:
        """Names of the initialised kernels."""
        return list(self._functions)

    cuda_function_names = numba_function_names

    @property
    def block(self) -> tuple[int, int, int]:
        """Threads of a block."""
        return self._block

    @property
    def grid(self) -> tuple[int, int]:
        """Blocks of a launch."""
        return self._grid

    @property
    def blocks_per_env(self) -> int:
        """Blocks of threads per replica."""
        return self._blocks_per_env


class CUDAFunctionFeed:
    """Arguments of a kernel by the names of the data, looked up once.

    Args:
        data_manager: The data.
    """

    def __init__(self, data_manager: CUDADataManager) -> None:
        self.data_manager = data_manager
        self._function_feeds: list[Any] | None = None

    def __call__(self, arguments: Sequence[Any]) -> list[Any]:
        """Return the arguments of a kernel.

        Args:
            arguments: Names, or tuples of a name and its source: ``"device"``, ``"meta"`` or ``"shared"``.

        Raises:
            ValueError: If an argument is neither.
        """
        if self._function_feeds is None:
            self._function_feeds = [self._argument(argument) for argument in arguments]
        return self._function_feeds

    def _argument(self, argument: Any) -> Any:
        name, source = (argument, "device") if isinstance(argument, str) else argument
        match source.lower():
            case "d" | "device":
                return self.data_manager.device_data(name)
            case "m" | "meta":
                return self.data_manager.meta_info(name)
            case "s" | "shared":
                return self.data_manager.shared_constant(name)
        raise ValueError(f"the argument {argument!r} has the source '{source}', expected device, meta or shared")
