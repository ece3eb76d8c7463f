"""Fixtures of the tests of CUDA C: files with one function, bound on the host or compiled for a GPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import warpdrive as wd
from warpdrive.backends.cuda.code import CudaCode
from warpdrive.backends.pycuda import PyCudaBackend
from warpdrive.backends.pycuda.nvrtc import compile_fused
from warpdrive.kernels.fusion import Call, Fusion

RING = Path(__file__).parent / "ring.py"


@pytest.fixture
def on_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPDRIVE_CUDA_ON_HOST", "1")


def fusion_of(file: Path, name: str = "step") -> Fusion:
    """Return a fused kernel that calls one function of a file."""
    kernel = wd.cuda_kernel(file, name)
    return Fusion(name, kernel.parameters, (Call(kernel, kernel.parameters),))


def values(arrays: dict[str, Any]) -> dict[str, Any]:
    """Return arguments as the library binds them: arrays as tensors, numbers as those of NumPy."""
    kinds: dict[type, Callable[[Any], Any]] = {bool: np.bool_, int: np.int32, float: np.float32}
    return {
        name: torch.from_numpy(value)
        if isinstance(value, np.ndarray) and value.flags.writeable
        else kinds.get(type(value), lambda same: same)(value)
        for name, value in arrays.items()
    }


@pytest.fixture
def run(tmp_path: Path, on_host: None) -> Callable[..., None]:
    """Give a function that runs ``step`` of a CUDA C text on the host, as that many replicas of that many agents."""

    def run(text: str, replicas: int, agents: int, **arrays: Any) -> None:
        file = tmp_path / "step.cu"
        file.write_text(text)
        PyCudaBackend().bind(fusion_of(file), values(arrays), replicas, agents)()

    return run


@pytest.fixture
def compile_for(tmp_path: Path) -> Callable[..., CudaCode]:
    """Give a function that compiles ``step`` of a CUDA C text for a GPU of a compute capability."""

    def compile_for(capability: tuple[int, int], text: str, replicas: int, agents: int, **arrays: Any) -> CudaCode:
        file = tmp_path / "step.cu"
        file.write_text(text)
        return compile_fused(fusion_of(file), values(arrays), replicas, agents, capability)[0]

    return compile_for
