"""The PyCUDA backend: kernels in CUDA C, compiled by NVRTC for a GPU, or by a C++ compiler to test them on the host."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warpdrive.kernels.fusion import Fusion

ON_HOST_VARIABLE = "WARPDRIVE_CUDA_ON_HOST"
"""Set to 1, it has CUDA C compiled for and run on the host, which needs no GPU."""


class PyCudaBackend:
    """Runs kernel functions written in CUDA C: on a GPU, or with ``WARPDRIVE_CUDA_ON_HOST=1`` on the host's cores.

    Args:
        process_id: which of several processes on this machine this is: they take turns at its GPUs.
        on_host: whether to run on the host; None: what the variable says.

    Raises:
        BackendError: there is no GPU that can be used, or PyCUDA is not installed.
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
        """See :class:`warpdrive.backends.interface.Backend`."""
        if self.on_host:
            from warpdrive.backends.pycuda.host import bind_on_host

            return bind_on_host(fusion, arguments, blocks, threads)
        from warpdrive.backends.pycuda.launch import bind_on_gpu

        return bind_on_gpu(fusion, arguments, blocks, threads, self.device)

    def replicas_at_once(self, fusion: Fusion, arguments: Mapping[str, Any], blocks: int, threads: int) -> int:
        """See :class:`warpdrive.backends.interface.Backend`."""
        if self.on_host:
            from warpdrive.backends.cpu.workers import get_num_threads

            return get_num_threads()
        from warpdrive.backends.pycuda.launch import replicas_at_once

        return replicas_at_once(fusion, arguments, blocks, threads, self.device)
