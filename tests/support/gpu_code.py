"""A backend that runs the GPU code of the Numba CUDA backend on the host, as numba-cuda compiles it for NVVM."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from cuda_on_host import CAPABILITY, HostCode, llvm_modules, words_of

from warpdrive.backends.cuda.code import CudaCode
from warpdrive.backends.cuda.packing import Packing
from warpdrive.backends.numba_cuda import compile as gpu
from warpdrive.backends.numba_cuda.fused import prepare
from warpdrive.backends.numba_cuda.launch import _value
from warpdrive.backends.numba_cuda.parameters import words_of as words_of_parameters
from warpdrive.kernels.fusion import Fusion


class GpuCode:
    """The Numba CUDA backend with the host in the place of a GPU, thread after thread.

    Args:
        linked: compile kernels for GPUs, too; their code is in ``compiled``, by the kernels' names.
    """

    name, language, device = "GPU code on the host", "Python", torch.device("cpu")

    def __init__(self, linked: bool = False) -> None:
        self.linked = linked
        self.compiled: dict[str, CudaCode] = {}

    def bind(self, fusion: Fusion, arguments: Mapping[str, Any], blocks: int, threads: int) -> Callable[[], None]:
        fused = prepare(fusion.kernel(), arguments, blocks)
        packing = Packing.of(threads, fused.shared_bytes)
        link = gpu.link if self.linked else lambda ptx, capability: (b"", None)
        with llvm_modules(self.linked) as modules, patch.object(gpu, "link", link):
            self.compiled[fusion.name] = gpu._compile("", fused.kernel, fused.parameters, packing, CAPABILITY)
        code = HostCode(modules)
        there = {
            name: torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value
            for name, value in arguments.items()
        }
        words = [_value(word, there[word.name]) for word in words_of_parameters(fused.parameters)]
        given = [part for word in [np.int32(blocks), *words] for part in words_of(word)]

        def launch() -> None:
            assert there
            code.run(packing.blocks(blocks), packing.threads, given)

        return launch

    def replicas_at_once(self, fusion: Fusion, arguments: Mapping[str, Any], blocks: int, threads: int) -> int:
        return 1
