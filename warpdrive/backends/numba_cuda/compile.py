"""Compilation of kernels with numba.cuda, which only this module imports. It needs no GPU and no driver.

Products and sums are not contracted to ``fma``, which rounds once instead of twice, so that ``+``, ``-``, ``*``, ``/``
and ``sqrt`` of float32 have the same bits on every backend, and states diverge only through library functions (``exp``,
``log``, powers). Fused steps are bound by memory bandwidth, not by arithmetic. An explicit ``cuda.fma`` is one on every
backend; no other fast-math option is enabled.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from importlib.metadata import distributions
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import numba
import numpy as np
from numba import types
from numba.core.errors import NumbaError

from warpdrive.backends.cuda.code import Capability, CudaCode
from warpdrive.backends.cuda.linker import LinkError, Resources, link
from warpdrive.backends.cuda.packing import Packing
from warpdrive.backends.host.typing import lower_with_slots
from warpdrive.backends.numba_cuda.generate import ENTRY, generate
from warpdrive.backends.numba_cuda.parameters import Parameter
from warpdrive.backends.shared import cache
from warpdrive.backends.shared.arguments import ArgumentKind
from warpdrive.backends.shared.module_writer import GeneratedModule
from warpdrive.backends.shared.origins import errors_at_their_origin
from warpdrive.backends.shared.slots import Slot
from warpdrive.garbage_collection import no_garbage_collection
from warpdrive.kernels.dtypes import dtype_of
from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.lowering import LoweredKernel, ResolvedKernel, lower


def compile_kernel(
    kernel: ResolvedKernel, parameters: Sequence[Parameter], packing: Packing | None, capability: Capability
) -> CudaCode:
    """Compile a kernel for arguments of the given kinds, or load it from the cache.

    Args:
        kernel: The kernel, with its names resolved.
        parameters: Parameters of the kernel, except compile-time constants.
        packing: Assignment of replicas to the GPU; the first argument of the code is then their number (int32). If
            None, blocks and threads are the author's own.
        capability: Compute capability of the GPU.

    Returns:
        The compiled code.

    Raises:
        KernelError: If the kernel cannot be compiled; the message has the file and line of its source.
    """
    key = cache.key_of(kernel.content(), repr(parameters), repr(packing), repr(capability), *_versions())
    with cache.one_process_at_a_time(key, f"kernel {kernel.function.name}"), no_garbage_collection():
        if cache.is_stored(key):
            try:
                return _load(key)
            except (OSError, ValueError, TypeError):  # the stored code is damaged
                cache.discard(key)
        code = _compile(key, kernel, parameters, packing, capability)
        figures = {"name": code.name, "resources": code.resources and asdict(code.resources)}
        cache.store(key, {"kernel.ptx": code.ptx, "kernel.image": code.image, "kernel.json": json.dumps(figures)})
        return code


def _load(key: str) -> CudaCode:
    figures = json.loads(cache.path(key, "kernel.json").read_text())
    ptx, image = cache.path(key, "kernel.ptx").read_text(), cache.path(key, "kernel.image").read_bytes()
    taken = figures["resources"]
    return CudaCode(figures["name"], image, ptx, taken and Resources(**taken))


def _compile(
    key: str, kernel: ResolvedKernel, parameters: Sequence[Parameter], packing: Packing | None, capability: Capability
) -> CudaCode:
    from numba.cuda.core.errors import NumbaError as CudaError

    kinds = {parameter.name: parameter.kind for parameter in parameters}
    origins: dict[str, GeneratedModule] = {}
    lowered, slots = lower_for_threads(key, kernel, kinds, packing)
    with errors_at_their_origin(kernel, origins, (NumbaError, CudaError, NotImplementedError, AttributeError)):
        module = generate(lowered, parameters, slots, packing)
        origins[_FILE] = module
        ptx = _ptx(module.text, parameters, packing, capability)
    found = re.search(r"\.visible \.entry (\w+)", ptx)
    assert found is not None, "numba.cuda's PTX has no kernel"
    name = kernel.function.source.name
    ptx = ptx.replace(found[1], name)  # numba.cuda's name has a number that differs between processes
    try:
        image, resources = link(ptx, capability)
    except LinkError as error:
        source = kernel.function.source
        raise KernelError(
            f"{source.file}:{source.tree.lineno}: kernel '{name}' cannot run on any GPU: {error}"
        ) from error
    return CudaCode(name, image, ptx, resources)


def lower_for_threads(
    key: str, kernel: ResolvedKernel, kinds: Mapping[str, ArgumentKind], packing: Packing | None
) -> tuple[LoweredKernel, list[Slot]]:
    """Split a kernel into regions, and return the slots of the variables kept between them.

    There are slots only if a thread runs several agents. Their types are inferred for the CPU.

    Args:
        key: Cache key of the kernel.
        kernel: The kernel, with its names resolved.
        kinds: Kind of each parameter, by name.
        packing: Assignment of replicas to the GPU, or None.

    Returns:
        The lowered kernel and the slots.
    """
    if packing is None or packing.rounds == 1:
        return lower(kernel, [name for name, kind in kinds.items() if kind.rank is not None]), []
    origins: dict[str, GeneratedModule] = {}
    with errors_at_their_origin(kernel, origins):
        return lower_with_slots(key, kernel, kinds, origins)


def _versions() -> list[str]:
    """Return the versions of the installed GPU compiler packages."""
    wanted = ("numba-cuda", "nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-nvjitlink")
    of_cuda_12 = ("nvidia-cuda-nvcc-cu12", "nvidia-nvjitlink-cu12")
    return [f"{found.name} {found.version}" for name in (*wanted, *of_cuda_12) for found in distributions(name=name)]


_FILE = "wd__gpu_kernel"


def _ptx(text: str, parameters: Sequence[Parameter], packing: Packing | None, capability: Capability) -> str:
    from numba import cuda

    import warpdrive.backends.numba_cuda.half  # noqa: F401

    module = ModuleType(_FILE)
    namespace = vars(module)
    exec(compile(text, f"{_FILE}.py", "exec"), namespace)
    signature = [types.int32] * (packing is not None)
    for parameter in parameters:
        number = numba.from_dtype(dtype_of(parameter.kind.dtype))
        signature += [number] if parameter.kind.rank is None else [types.int64] * len(parameter.words)
    bounds = None if packing is None else packing.threads
    known = patch.dict(sys.modules, {_FILE: module})  # numba names functions that call themselves after their module
    with known, _a_device(capability), _nothing_contracted(), _report_missing_functions():
        ptx, _ = cuda.compile(
            namespace[ENTRY], types.void(*signature), device=False, abi="numba", cc=capability, launch_bounds=bounds
        )
    return str(ptx)


@contextmanager
def _report_missing_functions() -> Iterator[None]:
    try:
        yield
    except KeyError as error:  # numba.cuda can type all of NumPy's functions, but not lower all of them
        (function,) = error.args
        if not isinstance(function, np.ufunc):
            raise
        raise NotImplementedError(
            f"numba.cuda has no np.{function.__name__} on a GPU; functions of math and operators work on every backend"
        ) from error


@contextmanager
def _a_device(capability: Capability) -> Iterator[None]:
    """Set the compute capability, which numba.cuda otherwise queries from the current device for device functions."""
    from numba.cuda import dispatcher

    asked: Callable[[], Any] = dispatcher.get_current_device
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=capability)
    try:
        yield
    finally:
        dispatcher.get_current_device = asked


@contextmanager
def _nothing_contracted() -> Iterator[None]:
    """Disable the contraction of products and sums to ``fma``, NVVM's default, since a CPU rounds twice.

    For whole kernels, numba.cuda offers this NVVM option only along with all others that make arithmetic inexact.
    """
    from numba.cuda.cudadrv import nvvm

    compile_ir = nvvm.compile_ir
    nvvm.compile_ir = partial(compile_ir, fma=False)
    try:
        yield
    finally:
        nvvm.compile_ir = compile_ir
