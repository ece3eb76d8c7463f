"""Kernels launched through PyCUDA's interface: Numba kernels in place of the environments' CUDA C."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from warpdrive.interop.warpdrive2.cuda_source import CudaSource
from warpdrive.interop.warpdrive2.function_manager import CUDAFunctionManager
from warpdrive.interop.warpdrive2.kernel_modules import module_of


class PyCUDAFunctionManager(CUDAFunctionManager):
    """Numba kernels of an environment, launched as ``kernel(*arguments, block=..., grid=...)``.

    Args:
        num_agents: Number of agents of a replica.
        num_envs: Number of replicas.
        blocks_per_env: Accepted for compatibility: a replica has one block.
        process_id: Rank of this process.
    """

    def __init__(self, num_agents: int = 1, num_envs: int = 1, blocks_per_env: int = 1, process_id: int = 0) -> None:
        super().__init__(num_agents, num_envs, process_id=process_id)

    def load_cuda_from_binary_file(self, cubin: str, default_functions_included: bool = True) -> None:
        """Import the Numba kernels that the library's test binaries contain in CUDA C: those of ``DummyEnv``.

        The step of another environment, ``Cuda<name>Step``, is imported when it is initialised.

        Args:
            cubin: Accepted for compatibility.
            default_functions_included: If True, sampler, resetter and log controller may be used.
        """
        self.dynamic_import_numba("DummyEnv", default_functions_included=default_functions_included)

    def compile_and_load_cuda(
        self,
        env_name: str,
        template_header_file: str | None = None,
        template_runner_file: str | None = None,
        template_path: str | None = None,
        default_functions_included: bool = True,
        customized_env_registrar: Any = None,
        event_messenger: Any = None,
    ) -> None:
        """Import the Numba kernels of an environment, see :meth:`dynamic_import_numba`."""
        self.dynamic_import_numba(
            env_name,
            default_functions_included=default_functions_included,
            customized_env_registrar=customized_env_registrar,
            event_messenger=event_messenger,
        )

    def load_cuda_from_source_code(self, code: str, default_functions_included: bool = True) -> None:
        """Compile kernels in CUDA C, without barriers, for the host.

        Args:
            code: The text.
            default_functions_included: If True, sampler, resetter and log controller may be used.
        """
        assert self._module is None, "the kernels are already loaded"
        self._module = CudaSource(code)
        if default_functions_included:
            self.initialize_default_functions()

    def _compile(self, main_file: str | None = None, cubin_file: str | None = None, *_: Any, **__: Any) -> None:
        """Do nothing: there is no binary file."""

    def initialize_shared_constants(self, data_manager: Any, constant_names: Sequence[str]) -> None:
        """Check that the constants exist; Numba kernels read theirs as globals of their module."""
        for name in constant_names:
            data_manager.shared_constant(name)

    def _find(self, name: str) -> Any:
        own = getattr(self._module, name, None)
        if own is None and (step := re.fullmatch(r"Cuda(\w+)Step", name)):
            return getattr(importlib.import_module(module_of(step[1])), f"Numba{step[1]}Step")
        return super()._find(name) if own is None else own

    def _callable(self, kernel: Any) -> Callable[..., None]:
        if isinstance(self._module, CudaSource):
            return partial(kernel, block=self._block, grid=self._grid)

        def launch(*arguments: Any, block: Any = self._block, grid: Any = self._grid) -> None:
            kernel[tuple(grid), tuple(block)](*arguments)

        return launch
