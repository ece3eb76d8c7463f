"""Compilation of fused CUDA C for a GPU with NVRTC, which needs neither a GPU nor a driver.

Contraction of products and sums is disabled (``--fmad=false``), as in all other backends; ``fmaf`` is explicit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from warpdrive.backends.cuda.code import Capability, CudaCode
from warpdrive.backends.cuda.linker import Resources, resources_in
from warpdrive.backends.cuda.packing import Packing
from warpdrive.backends.pycuda.generate import (
    GENERATED,
    LIBRARY,
    FusedSource,
    device_source,
    packing_of,
    uses_raw_shared_memory,
)
from warpdrive.backends.pycuda.messages import compile_error
from warpdrive.backends.shared import cache
from warpdrive.errors import BackendError
from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.fusion import Fusion

OPTIONS = ("--std=c++17", "--fmad=false", "--ptxas-options=-v", f"-I{LIBRARY / 'nvrtc'}")
"""Compiler options. Contraction of products and sums is off, as it would change results between backends.

The include folder has the parts of the C library that authors may include.
"""

_TOO_MUCH_SHARED = "uses too much shared data"


def compile_fused(
    fusion: Fusion, arguments: Mapping[str, Any], replicas: int, agents: int, capability: Capability
) -> tuple[CudaCode, Packing]:
    """Compile a fused kernel for a GPU, or load it from the cache.

    Small replicas share blocks, unless their shared memory does not fit then, or is declared for the whole block.

    Args:
        fusion: The fused kernel.
        arguments: Argument of each parameter, by name.
        replicas: Number of replicas.
        agents: Number of agents per replica.
        capability: Compute capability of the GPU.

    Returns:
        The code, and the assignment of replicas to the GPU.

    Raises:
        KernelError: If the kernel cannot be compiled; the message has the author's file and line.
        BackendError: If NVRTC is not installed, or does not support the GPU.
    """
    packing = Packing.unshared(agents) if uses_raw_shared_memory(fusion) else packing_of(agents)
    while True:
        source = device_source(fusion, arguments, replicas, packing)
        try:
            return compile_for_gpu(source, capability), packing
        except KernelError as error:
            if _TOO_MUCH_SHARED not in str(error) or packing == Packing.unshared(agents):
                raise
            packing = Packing.unshared(agents)


def compile_for_gpu(source: FusedSource, capability: Capability) -> CudaCode:
    """Compile for a compute capability, or load from the cache. Raises the errors of :func:`compile_fused`."""
    nvrtc = _nvrtc()
    version = _check(nvrtc, nvrtc.nvrtcVersion())
    key = cache.key_of(source.text, *source.included, repr(version), repr(capability), *OPTIONS)
    with cache.one_process_at_a_time(key, f"kernel {source.name}"):
        if cache.is_stored(key):
            try:
                return _load(key, source.name)
            except (OSError, ValueError, TypeError):  # the stored code is damaged
                cache.discard(key)
        code = _compile(nvrtc, source, capability)
        assert code.resources is not None
        resources = json.dumps(asdict(code.resources))
        cache.store(key, {"kernel.ptx": code.ptx, "kernel.image": code.image, "kernel.json": resources})
        return code


def _load(key: str, name: str) -> CudaCode:
    resources = Resources(**json.loads(cache.path(key, "kernel.json").read_text()))
    ptx, image = cache.path(key, "kernel.ptx").read_text(), cache.path(key, "kernel.image").read_bytes()
    return CudaCode(name, image, ptx, resources)


def _compile(nvrtc: Any, source: FusedSource, capability: Capability) -> CudaCode:
    program = _check(nvrtc, nvrtc.nvrtcCreateProgram(source.text.encode(), GENERATED.encode(), 0, [], []))
    try:
        architecture = f"--gpu-architecture=sm_{capability[0]}{capability[1]}"
        options = [architecture, *OPTIONS, *(f"-I{folder}" for folder in source.folders)]
        (outcome,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        log = _read(nvrtc, program, "ProgramLog").decode(errors="replace").strip("\0 \n")
        if outcome == nvrtc.nvrtcResult.NVRTC_ERROR_INVALID_OPTION:
            raise BackendError(
                f"NVRTC {_version(nvrtc)} cannot compile for compute capability {capability[0]}.{capability[1]}: {log}"
            )
        if outcome != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise compile_error(log or str(outcome), source.authors)
        image = _read(nvrtc, program, "CUBIN")
        ptx = _read(nvrtc, program, "PTX").decode().strip("\0")
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return CudaCode(source.name, image, ptx, resources_in(log))


def _read(nvrtc: Any, program: Any, what: str) -> bytes:
    size: int = _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}Size")(program))
    content = b" " * size
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}")(program, content))
    return content


def _version(nvrtc: Any) -> str:
    return ".".join(str(part) for part in _check(nvrtc, nvrtc.nvrtcVersion()))


def _check(nvrtc: Any, outcome: tuple[Any, ...]) -> Any:
    """Return the results of an NVRTC function; raise :class:`BackendError` if it failed."""
    result, *values = outcome
    if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise BackendError(f"NVRTC failed: {result!s}")
    return values[0] if len(values) == 1 else tuple(values)


def _nvrtc() -> Any:
    """Return the module of NVRTC. Raises :class:`BackendError` if it is not installed."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as error:  # RuntimeError if the bindings are installed but the library is not
        raise BackendError(
            "CUDA C is compiled for GPUs by NVRTC, which is not installed: pip install 'warpdrive[pycuda]' "
            f"({str(error).splitlines()[0]})"
        ) from None
    return nvrtc
