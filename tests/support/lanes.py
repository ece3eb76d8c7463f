"""Run GPU code without a GPU: what is generated for numba.cuda is itself a kernel, which the CPU backend can run.

Its threads are then those of the GPU: so many blocks of so many threads, in warps that several replicas share.
"""

from __future__ import annotations

import ast
import importlib.util
import itertools
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numba import cuda

import warpdrive as wd
from warpdrive.backends.cuda.packing import Packing
from warpdrive.backends.numba_cuda.compile import lower_for_threads
from warpdrive.backends.numba_cuda.fused import prepare
from warpdrive.backends.numba_cuda.generate import ENTRY, REPLICAS, generate
from warpdrive.kernels.fusion import Fusion
from warpdrive.kernels.kernel import Kernel, device_function

WARP, MAX_WARPS = 32, 32


@device_function
def ballot_sync(mask, predicate):
    """Return the votes of the lanes of a mask, one bit each: the CPU backend lacks it."""
    said = cuda.shared.array((MAX_WARPS, WARP), np.int32)
    warp, lane = cuda.threadIdx.x // WARP, cuda.threadIdx.x % WARP
    said[warp, lane] = 1 if predicate else 0
    cuda.syncthreads()
    found = 0
    for other in range(WARP):
        if (mask >> other) & 1:
            found |= said[warp, other] << other
    cuda.syncthreads()
    return np.uint32(found)


@device_function
def any_sync(mask, predicate):
    """Return True if the condition holds for any lane of a mask."""
    return ballot_sync(mask, predicate) != 0


class Lanes:
    """A backend that runs what the Numba CUDA backend would, on the CPU, thread of the GPU by thread of the GPU."""

    name, language, device = "lanes", "Python", torch.device("cpu")

    def bind(self, fusion: Fusion, arguments: Mapping[str, Any], blocks: int, threads: int) -> Callable[[], None]:
        packing = Packing.of(threads, prepare(fusion.kernel(), arguments, blocks).shared_bytes)
        kernel = gpu_kernel(fusion.kernel(), arguments, blocks, packing)
        grid = packing.blocks(blocks), packing.threads
        given = [np.int32(blocks), *(arguments[name] for name in kernel.parameters[1:])]
        return lambda: kernel[grid](*given)

    def replicas_at_once(self, fusion: Fusion, arguments: Mapping[str, Any], blocks: int, threads: int) -> int:
        return 1


def gpu_kernel(kernel: Kernel, arguments: Mapping[str, Any], replicas: int, packing: Packing | None) -> Kernel:
    """Return the GPU code of a kernel as a kernel of its own, which takes arrays instead of addresses."""
    fused = prepare(kernel, arguments, replicas)
    kinds = {parameter.name: parameter.kind for parameter in fused.parameters}
    lowered, slots = lower_for_threads(f"lanes_{next(_numbers)}", fused.kernel, kinds, packing)
    text = generate(lowered, fused.parameters, slots, packing).text.replace("wd__", "gpu_")
    text = text.replace("warpdrive.backends.numba_cuda.mathematics", "math")
    for vote in (ballot_sync, any_sync):
        text = text.replace(f"gpu_cuda.{vote.__name__}(", f"{vote.__name__}(")
    module = ast.parse(text)
    module.body = [node for node in module.body if "array_at" not in ast.unparse(node) or _is_entry(node)]
    entry = next(node for node in module.body if _is_entry(node))
    assert isinstance(entry, ast.FunctionDef)
    entry.body = [node for node in entry.body if "gpu_array_" not in ast.unparse(node)]  # arrays are arguments instead
    names = [REPLICAS.replace("wd__", "gpu_")] * (packing is not None) + list(kinds)
    entry.args.args = [ast.arg(name) for name in names]
    return wd.kernel(_imported("from lanes import any_sync, ballot_sync\n" + ast.unparse(module)).entry)


_numbers = itertools.count()
_folder = tempfile.TemporaryDirectory()


def _is_entry(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == ENTRY


def _imported(text: str) -> ModuleType:
    """Import a module's text from a file, from which the kernel's source is read."""
    path = Path(_folder.name) / f"gpu_code_{next(_numbers)}.py"
    path.write_text(text)
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module
