"""PyCUDA backend: kernels in CUDA C, compiled by NVRTC for a GPU, or by a C++ compiler for tests on the host."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warpdrive.kernels.fusion import Fusion

ON_HOST_VARIABLE = "WARPDRIVE_CUDA_ON_HOST"
"""Environment variable that, set to 1, compiles CUDA C for the host and runs it there, without a GPU."""


class PyCudaBackend:
    """Backend that runs CUDA C kernels on a GPU, or with ``WARPDRIVE_CUDA_ON_HOST=1`` on the host's cores.

    Args:
        process_id: Index of this process among those on the machine; processes are assigned GPUs round-robin.
        on_host: If True, run on the host. If None, the environment variable decides.

    Raises:
        BackendError: If there is no usable GPU, or PyCUDA is not installed.
    """

    name = "pycuda"
    language = "CUDA C"

    def __init__(self, process_id: int = 0, on_host: bool | None = None) -> None:
        import torch

        self.on_host = os.environ.get(ON_HOST_VARIABLE, "") not in ("", "0") if on_host is None else on_host
        if self.on_host:
            self.device = torch.device("cpu")
        else:
            from warpdrive.backends.pycuda.launch import usable_device

            self.device = usable_device(process_id)

    def bind(self, fusion: Fusion, arguments: Mapping[str, Any], blocks: int, threads: int) -> Callable[[], None]:
        """Bind arguments to a fused kernel; see :class:`warpdrive.backends.interface.Backend`."""
        if self.on_host:
            from warpdrive.backends.pycuda.host import bind_on_host

            return bind_on_host(fusion, arguments, blocks, threads)
        from warpdrive.backends.pycuda.launch import bind_on_gpu

        return bind_on_gpu(fusion, arguments, blocks, threads, self.device)

    def replicas_at_once(self, fusion: Fusion, arguments: Mapping[str, Any], blocks: int, threads: int) -> int:
        """Return the number of replicas that run concurrently; see :class:`warpdrive.backends.interface.Backend`."""
        if self.on_host:
            from warpdrive.backends.host.workers import get_num_threads

            return get_num_threads()
        from warpdrive.backends.pycuda.launch import replicas_at_once

        return replicas_at_once(fusion, arguments, blocks, threads, self.device)
