"""Numba CUDA backend: kernels compiled for GPUs by numba.cuda's compiler, launched on PyTorch's stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

if TYPE_CHECKING:
    from warpdrive.kernels.fusion import Fusion


class NumbaCudaBackend:
    """Backend that runs kernels written in Python on a GPU.

    Args:
        process_id: Index of this process among those on the machine; processes are assigned GPUs round-robin.

    Raises:
        BackendError: If there is no usable GPU, or another requirement is missing.
    """

    name = "numba"
    language = "Python"

    def __init__(self, process_id: int = 0) -> None:
        from warpdrive.backends.cuda.selection import usable_device
        from warpdrive.backends.diagnostics import numba_lacks

        self.gpu = usable_device(self.name, numba_lacks, process_id)
        self.device = torch.device("cuda", self.gpu.index)
        self._constants: dict[int, tuple[npt.NDArray[Any], torch.Tensor]] = {}

    def bind(self, fusion: Fusion, arguments: Mapping[str, Any], blocks: int, threads: int) -> Callable[[], None]:
        """Bind arguments to a fused kernel; see :class:`warpdrive.backends.interface.Backend`."""
        from warpdrive.backends.numba_cuda.launch import bind

        return bind(fusion.kernel(), arguments, blocks, threads, self.gpu, self._copy_of)

    def replicas_at_once(self, fusion: Fusion, arguments: Mapping[str, Any], blocks: int, threads: int) -> int:
        """Return the number of replicas that run concurrently; see :class:`warpdrive.backends.interface.Backend`."""
        from warpdrive.backends.numba_cuda.launch import replicas_at_once

        return replicas_at_once(fusion.kernel(), arguments, blocks, threads, self.gpu)

    def _copy_of(self, array: npt.NDArray[Any]) -> torch.Tensor:
        """Return a constant's copy on the GPU, made once. The array is kept, so that its ``id`` is not reused."""
        if id(array) not in self._constants:
            copy = torch.from_numpy(np.array(array, order="C")).to(self.device)
            self._constants[id(array)] = (array, copy)
        return self._constants[id(array)][1]
