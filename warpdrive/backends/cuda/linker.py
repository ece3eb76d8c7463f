"""Linking of PTX to machine code with nvJitLink, which also reports resource usage. Needs no GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class Resources:
    """Resource usage of compiled GPU code.

    Attributes:
        registers: Registers per thread.
        local_bytes: Local memory per thread in bytes, for arrays and spilled registers.
        spilled_bytes: Bytes of spill stores per thread.
        shared_bytes: Static shared memory per block in bytes.
    """

    registers: int
    local_bytes: int
    spilled_bytes: int
    shared_bytes: int


class LinkError(Exception):
    """PTX that cannot be linked for a GPU."""


def link(ptx: str, capability: tuple[int, int]) -> tuple[bytes, Resources | None]:
    """Return a cubin for a GPU of that compute capability, and its resource usage.

    If nvJitLink is not installed, the PTX itself is returned, which the driver compiles on loading, and None. Raises
    :class:`LinkError`, with the log of ptxas, if the GPU does not support the code, or if it has barriers of the grid,
    which the device runtime of the CUDA toolkit implements, and that or nvJitLink is missing.
    """
    runtime = _device_runtime() if needs_device_runtime(ptx) else b""
    try:
        from cuda.bindings import nvjitlink
        from cuda.pathfinder import DynamicLibNotFoundError
    except ImportError:
        return _unlinked(ptx)
    options = [f"-arch=sm_{capability[0]}{capability[1]}", "-Xptxas=-v"]
    try:
        handle = nvjitlink.create(len(options), options)
    except DynamicLibNotFoundError:
        return _unlinked(ptx)
    try:
        code = ptx.encode()
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, code, len(code), "kernel")
        if runtime:
            nvjitlink.add_data(handle, nvjitlink.InputType.LIBRARY, runtime, len(runtime), "cudadevrt")
        try:
            nvjitlink.complete(handle)
        except nvjitlink.nvJitLinkError as error:
            log = bytearray(nvjitlink.get_error_log_size(handle))
            nvjitlink.get_error_log(handle, log)
            raise LinkError(log.decode(errors="replace").strip("\0 \n")) from error
        image = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, image)
        log = bytearray(nvjitlink.get_info_log_size(handle))
        nvjitlink.get_info_log(handle, log)
    finally:
        nvjitlink.destroy(handle)
    return bytes(image), replace(resources_in(log.decode(errors="replace")), shared_bytes=_shared_bytes(ptx))


def needs_device_runtime(ptx: str) -> bool:
    """Return True if PTX has barriers of the grid."""
    return "cudaCGSynchronize" in ptx


def _device_runtime() -> bytes:
    """Return the contents of the static library ``cudadevrt``."""
    try:
        from numba.cuda.cudadrv.libs import get_cudalib

        return Path(get_cudalib("cudadevrt", static=True)).read_bytes()
    except (ImportError, OSError, TypeError, RuntimeError) as error:
        raise LinkError(
            "a barrier of the grid needs the library cudadevrt of the CUDA toolkit: pip install nvidia-cuda-runtime"
        ) from error


def _unlinked(ptx: str) -> tuple[bytes, None]:
    if needs_device_runtime(ptx):
        raise LinkError("a barrier of the grid needs nvJitLink: pip install nvidia-nvjitlink cuda-bindings")
    return ptx.encode(), None


def _shared_bytes(ptx: str) -> int:
    """Return the size of the shared memory that PTX declares, which nvJitLink's log does not report."""
    size = 0
    for alignment, length in re.findall(r"\.shared \.align (\d+) \.b8 \w+\[(\d+)\]", ptx):
        size += -size % int(alignment) + int(length)
    return size


def resources_in(log: str) -> Resources:
    """Return the resource usage in ptxas' verbose log of a single kernel."""

    def number(pattern: str) -> int:
        found = re.search(pattern, log)
        return int(found[1]) if found else 0

    return Resources(
        registers=number(r"Used (\d+) registers"),
        local_bytes=number(r"(\d+) bytes stack frame"),
        spilled_bytes=number(r"(\d+) bytes spill stores"),
        shared_bytes=number(r"(\d+) bytes smem"),
    )
