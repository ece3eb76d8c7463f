"""Device, context and driver: this machine with the interface of a GPU, with the limits common to all GPUs."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numba

from warpdrive.kernels.configuration import MAX_BLOCKS, MAX_THREADS
from warpdrive.kernels.language import WARP
from warpdrive.numba_cuda.arrays import as_host_array, is_device_memory
from warpdrive.numba_cuda.errors import (
    INVALID_VALUE,
    NOT_SUPPORTED,
    CudaAPIError,
    CudaDriverError as CudaDriverError,
    CudaSupportError as CudaSupportError,
    LinkerError as LinkerError,
    NvrtcError as NvrtcError,
)
from warpdrive.numba_cuda.memory import MemoryPointer as MemoryPointer, new_array, registered
from warpdrive.numba_cuda.streams import Event, Stream, event_elapsed_time as event_elapsed_time, external_stream

COMPUTE_CAPABILITY = (7, 5)
"""Reported compute capability: it has every feature of the kernel language."""
USE_NV_BINDING = False
THREADS_AT_ONCE = 65536
"""Maximum number of threads that can wait for each other."""

_ATTRIBUTES = {
    **dict(zip(("MAX_BLOCK_DIM_X", "MAX_BLOCK_DIM_Y", "MAX_BLOCK_DIM_Z"), MAX_THREADS, strict=True)),
    **dict(zip(("MAX_GRID_DIM_X", "MAX_GRID_DIM_Y", "MAX_GRID_DIM_Z"), MAX_BLOCKS, strict=True)),
    **{"MAX_THREADS_PER_BLOCK": MAX_THREADS[0], "MAX_THREADS_PER_MULTI_PROCESSOR": MAX_THREADS[0]},
    **{"MAX_SHARED_MEMORY_PER_BLOCK": 48 * 1024, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 64 * 1024},
    **{"MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 64 * 1024, "TOTAL_CONSTANT_MEMORY": 64 * 1024},
    **{"MAX_REGISTERS_PER_BLOCK": 65536, "MAX_REGISTERS_PER_MULTIPROCESSOR": 65536, "WARP_SIZE": WARP},
    **{"COMPUTE_CAPABILITY_MAJOR": COMPUTE_CAPABILITY[0], "COMPUTE_CAPABILITY_MINOR": COMPUTE_CAPABILITY[1]},
    **{"CLOCK_RATE": 1_000_000, "MEMORY_CLOCK_RATE": 1_000_000, "GLOBAL_MEMORY_BUS_WIDTH": 64},
    **{"L2_CACHE_SIZE": 1 << 20, "TEXTURE_ALIGNMENT": 512, "SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO": 2},
    **dict.fromkeys(("UNIFIED_ADDRESSING", "MANAGED_MEMORY", "CONCURRENT_MANAGED_ACCESS", "INTEGRATED"), 1),
    **dict.fromkeys(("CAN_MAP_HOST_MEMORY", "COOPERATIVE_LAUNCH", "CONCURRENT_KERNELS", "ASYNC_ENGINE_COUNT"), 1),
    **dict.fromkeys(("PCI_BUS_ID", "PCI_DEVICE_ID", "PCI_DOMAIN_ID", "KERNEL_EXEC_TIMEOUT", "TCC_DRIVER"), 0),
    **dict.fromkeys(("ECC_ENABLED", "COMPUTE_MODE", "COOPERATIVE_MULTI_DEVICE_LAUNCH"), 0),
}


class MemoryInfo(NamedTuple):
    """Free and total bytes of memory."""

    free: int
    total: int


class Device:
    """This machine as a GPU; limits and properties are attributes, such as ``MAX_THREADS_PER_BLOCK``."""

    id = 0
    name = "WarpDrive (CPU)"
    uuid = "GPU-00000000-0000-0000-0000-000000000000"
    compute_capability = COMPUTE_CAPABILITY
    supports_float16 = True
    supports_bfloat16 = False

    @property
    def MULTIPROCESSOR_COUNT(self) -> int:  # noqa: N802
        """Number of cores that share a launch."""
        return int(numba.config.NUMBA_NUM_THREADS)

    def __getattr__(self, name: str) -> int:
        if name not in _ATTRIBUTES:
            raise AttributeError(f"{name} is not an attribute of this device")
        return _ATTRIBUTES[name]

    def __repr__(self) -> str:
        return f"<CUDA device 0 '{self.name}'>"

    def get_primary_context(self) -> Context:
        """Return the context."""
        return context

    def release_primary_context(self) -> None:
        """Do nothing."""

    def reset(self) -> None:
        """Do nothing: memory is released with the last reference to it."""

    @classmethod
    def from_identity(cls, identity: Any) -> Device:
        """Return the device."""
        return device


class _Deallocations:
    """Queue of memory to be released, which is always empty."""

    memory_capacity = 0

    def __len__(self) -> int:
        return 0

    def clear(self) -> None:
        """Do nothing."""


class Context:
    """Context of the device."""

    device_id = id = 0
    handle = None
    extras: dict[str, Any]
    deallocations = _Deallocations()

    def __init__(self) -> None:
        self.extras = {}
        self.device = device
        self.memory_manager = self

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *failure: object) -> None:
        pass

    def __repr__(self) -> str:
        return "<CUDA context of device 0>"

    @property
    def compute_capability(self) -> tuple[int, int]:
        """Compute capability of the device."""
        return COMPUTE_CAPABILITY

    def push(self) -> None:
        """Do nothing: there is one context."""

    pop = synchronize = reset = prepare_for_use = push

    def get_memory_info(self) -> MemoryInfo:
        """Return free and total memory of the machine."""
        return memory_info()

    @contextlib.contextmanager
    def defer_cleanup(self) -> Iterator[None]:
        """Return a context manager that does nothing."""
        yield

    def memalloc(self, bytesize: int) -> MemoryPointer:
        """Return new memory."""
        return MemoryPointer(new_array(bytesize, "u1"))

    def memhostalloc(self, bytesize: int, mapped: bool = False, portable: bool = False, wc: bool = False) -> Any:
        """Return new host memory.

        Args:
            bytesize: Number of bytes.
            mapped: Ignored: the device can use all memory.
            portable: Ignored: there is one device.
            wc: Ignored: memory is cached.

        Returns:
            The memory.
        """
        return self.memalloc(bytesize)

    def memallocmanaged(self, bytesize: int, attach_global: bool = True) -> MemoryPointer:
        """Return new memory."""
        return self.memalloc(bytesize)

    def mempin(self, owner: Any, pointer: Any, size: int, mapped: bool = False) -> Any:
        """Return the memory of a host array.

        Args:
            owner: The array.
            pointer: Ignored.
            size: Ignored.
            mapped: Ignored.

        Returns:
            The memory.
        """
        return MemoryPointer(registered(owner.reshape(-1, order="A").view("u1")))

    def create_stream(self) -> Stream:
        """Return a new stream."""
        return Stream(next(_handles))

    def get_default_stream(self) -> Stream:
        """Return the default stream."""
        return Stream(0)

    def get_legacy_default_stream(self) -> Stream:
        """Return the legacy default stream."""
        return Stream(1)

    def get_per_thread_default_stream(self) -> Stream:
        """Return the default stream of a thread."""
        return Stream(2)

    def create_external_stream(self, ptr: int) -> Stream:
        """Return the stream with that handle."""
        return external_stream(ptr)

    def create_event(self, timing: bool = True) -> Event:
        """Return a new event."""
        return Event(timing)

    def get_active_blocks_per_multiprocessor(self, func: Any, blocksize: int, memsize: int, flags: Any = None) -> int:
        """Return the number of blocks of that size that share a multiprocessor.

        Args:
            func: Ignored.
            blocksize: Number of threads per block.
            memsize: Ignored.
            flags: Ignored.

        Returns:
            The number of blocks.
        """
        return max(1, MAX_THREADS[0] // blocksize)

    def get_max_potential_block_size(
        self, func: Any, b2d_func: Any, memsize: int, blocksizelimit: int, flags: Any = None
    ) -> tuple[int, int]:
        """Return numbers of blocks and of threads per block that keep the device busy.

        Args:
            func: Ignored.
            b2d_func: Ignored.
            memsize: Ignored.
            blocksizelimit: Largest number of threads per block; 0 for no limit.
            flags: Ignored.

        Returns:
            The two numbers.
        """
        return device.MULTIPROCESSOR_COUNT, min(128, blocksizelimit or 128)

    def can_access_peer(self, peer_context: Any) -> bool:
        """Return False: there is one device."""
        return False

    def enable_peer_access(self, peer_context: Any, flags: int = 0) -> None:
        """Raise :class:`CudaAPIError`: there is one device."""
        raise CudaAPIError(NOT_SUPPORTED, "there is one device")


class DeviceList:
    """List of devices: this machine."""

    def __init__(self) -> None:
        self.lst = [ManagedDevice()]

    @property
    def current(self) -> ManagedDevice:
        """The current device."""
        return self.lst[0]

    def __getitem__(self, number: int) -> ManagedDevice:
        return self.lst[number]

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[ManagedDevice]:
        return iter(self.lst)

    def __str__(self) -> str:
        return f"0: {device.name}"


class ManagedDevice:
    """Device as an item of ``cuda.gpus``, which is also a context manager that makes it the current one."""

    def __getattr__(self, name: str) -> Any:
        return getattr(device, name)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *failure: object) -> None:
        pass

    def __str__(self) -> str:
        return f"<Managed Device {device.id}>"


class Driver:
    """Stand-in for the CUDA driver: each of its functions raises :class:`CudaAPIError`."""

    is_available = True
    is_initialized = True
    initialization_error = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)

        def refuse(*args: Any, **kwargs: Any) -> Any:
            raise CudaAPIError(NOT_SUPPORTED, f"{name} of the CUDA driver needs a GPU")

        return refuse

    def get_version(self) -> tuple[int, int]:
        """Return the reported version of CUDA."""
        return VERSION

    def get_device(self, devnum: int = 0) -> Device:
        """Return the device."""
        gpus[devnum]
        return device

    def get_device_count(self) -> int:
        """Return 1."""
        return 1


VERSION = (12, 0)
"""Reported version of CUDA."""
driver = Driver()
device = Device()
context = Context()
gpus = DeviceList()
_handles = iter(range(16, sys.maxsize, 16))


def get_context(devnum: int | None = None) -> Context:
    """Return the context of a device. Raises :class:`IndexError` if there is no such device."""
    if devnum is not None:
        gpus[devnum]
    return context


def reset() -> None:
    """Do nothing: memory is released with the last reference to it."""


def require_context(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function: there is always a context."""
    return function


def memory_info() -> MemoryInfo:
    """Return free and total memory of the machine."""
    known = getattr(os, "sysconf_names", {})
    if "SC_PHYS_PAGES" not in known:
        return MemoryInfo(1 << 33, 1 << 33)  # 8 GiB, which most programs fit
    page, total = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_PHYS_PAGES")
    free = os.sysconf("SC_AVPHYS_PAGES") if "SC_AVPHYS_PAGES" in known else total
    return MemoryInfo(page * free, page * total)


def is_device_pointer(obj: Any) -> bool:
    """Return True for device memory."""
    return isinstance(obj, MemoryPointer) or is_device_memory(obj)


def host_pointer(obj: Any, readonly: bool = False) -> int:
    """Return the address of a host array."""
    return int(obj.ctypes.data) if hasattr(obj, "ctypes") else int(obj)


def host_memory_size(obj: Any) -> int:
    """Return the bytes of a host array."""
    return int(obj.nbytes)


def device_pointer(obj: Any) -> Any:
    """Return the address of device memory; None if there is none."""
    return obj.device_ctypes_pointer.value


def device_memory_size(devmem: Any) -> int:
    """Return the bytes of device memory."""
    return int(devmem.size if isinstance(devmem, MemoryPointer) else devmem.alloc_size)


def _bytes_of(memory: Any) -> Any:
    if isinstance(memory, MemoryPointer):
        return memory.buffer
    array = as_host_array(memory)
    return array.reshape(-1, order="A").view("u1")


def host_to_device(dst: Any, src: Any, size: int, stream: Any = 0) -> None:
    """Copy bytes.

    Args:
        dst: Memory to copy to.
        src: Memory to copy from.
        size: Number of bytes.
        stream: Ignored: copies are synchronous.

    Raises:
        CudaAPIError: If one of them is smaller.
    """
    target, source = _bytes_of(dst), _bytes_of(src)
    if size > min(target.size, source.size):
        raise CudaAPIError(INVALID_VALUE, f"{size} bytes are copied between memory of {source.size} and {target.size}")
    target[:size] = source[:size]


device_to_host = device_to_device = host_to_device


def device_memset(dst: Any, val: int, size: int, stream: Any = 0) -> None:
    """Set bytes.

    Args:
        dst: Device memory.
        val: Value of each byte.
        size: Number of bytes.
        stream: Ignored: calls are synchronous.
    """
    _bytes_of(dst)[:size] = val


def profile_start() -> None:
    """Do nothing: GPU profilers do not see launches on the CPU."""


profile_stop = profile_start


@contextlib.contextmanager
def profiling() -> Iterator[None]:
    """Return a context manager that does nothing."""
    yield


class Linker:
    """Linker of GPU code; its methods raise :class:`LinkerError`."""

    lto = False

    @classmethod
    def new(cls, max_registers: int = 0, lineinfo: bool = False, cc: Any = None, **options: Any) -> Linker:
        """Return a linker."""
        return cls()

    def __getattr__(self, name: str) -> Any:
        raise LinkerError(f"'{name}': GPU code cannot be linked on the CPU")


_Linker = Linker


def _have_nvjitlink() -> bool:
    return False


class BaseCUDAMemoryManager:
    """Base class of memory managers, which are not used."""


class HostOnlyCUDAMemoryManager(BaseCUDAMemoryManager):
    """Base class of memory managers, which are not used."""


class GetIpcHandleMixin:
    """Base class of memory managers, which are not used."""


class MappedMemory(MemoryPointer):
    """Host memory that the device can use."""


class PinnedMemory(MemoryPointer):
    """Host memory."""


class ManagedMemory(MemoryPointer):
    """Memory that moves between host and device."""


class IpcHandle:
    """Handle of memory of another process; there are none."""


def set_memory_manager(mm_plugin: Any) -> None:
    """Raise :class:`NotImplementedError`: device memory is that of NumPy."""
    raise NotImplementedError("memory managers of GPUs cannot be used on the CPU")


def launch_kernel(*args: Any, **kwargs: Any) -> None:
    """Raise :class:`NotImplementedError`: kernels are launched as ``kernel[blocks, threads](...)``."""
    raise NotImplementedError("functions of the CUDA driver cannot be launched on the CPU")


class Runtime:
    """The reported CUDA runtime."""

    supported_versions = (VERSION,)

    def get_version(self) -> tuple[int, int]:
        """Return the reported version of CUDA."""
        return VERSION

    def is_supported_version(self) -> bool:
        """Return True."""
        return True


runtime = Runtime()
