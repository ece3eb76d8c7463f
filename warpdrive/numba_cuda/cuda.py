"""Replacement of the module ``numba.cuda``: kernels run on this machine, which is presented as one GPU."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from numba import vectorize as _vectorize
from numba.core import config as config, types as types
from numba.np.ufunc import guvectorize as _guvectorize

from warpdrive.numba_cuda import arrays as devicearray, driver as _driver
from warpdrive.numba_cuda.arguments import In as In, InOut as InOut, Out as Out
from warpdrive.numba_cuda.arrays import (
    as_cuda_array as as_cuda_array,
    device_array as device_array,
    device_array_like as device_array_like,
    from_cuda_array_interface as from_cuda_array_interface,
    is_cuda_array as is_cuda_array,
    managed_array as managed_array,
    mapped_array as mapped_array,
    mapped_array_like as mapped_array_like,
    pinned_array as pinned_array,
    pinned_array_like as pinned_array_like,
    to_device as to_device,
)
from warpdrive.numba_cuda.compilers import (
    LTOIR as LTOIR,
    Archive as Archive,
    Cubin as Cubin,
    CUSource as CUSource,
    Fatbin as Fatbin,
    LinkableCode as LinkableCode,
    Object as Object,
    PTXSource as PTXSource,
    compile as compile,
    compile_all as compile_all,
    compile_for_current_device as compile_for_current_device,
    compile_ptx as compile_ptx,
    compile_ptx_for_current_device as compile_ptx_for_current_device,
)
from warpdrive.numba_cuda.dispatcher import declare_device as declare_device, jit as jit
from warpdrive.numba_cuda.driver import (
    BaseCUDAMemoryManager as BaseCUDAMemoryManager,
    Device,
    GetIpcHandleMixin as GetIpcHandleMixin,
    HostOnlyCUDAMemoryManager as HostOnlyCUDAMemoryManager,
    IpcHandle as IpcHandle,
    MappedMemory as MappedMemory,
    MemoryInfo as MemoryInfo,
    MemoryPointer as MemoryPointer,
    PinnedMemory as PinnedMemory,
    gpus as gpus,
    profile_start as profile_start,
    profile_stop as profile_stop,
    profiling as profiling,
    require_context as require_context,
    runtime as runtime,
    set_memory_manager as set_memory_manager,
)
from warpdrive.numba_cuda.elementwise import Reduce as Reduce
from warpdrive.numba_cuda.errors import CudaSupportError as CudaSupportError, KernelRuntimeError as KernelRuntimeError
from warpdrive.numba_cuda.members import members as _members
from warpdrive.numba_cuda.memory import registered as _registered
from warpdrive.numba_cuda.streams import Event, Stream, event_elapsed_time as event_elapsed_time

__path__: list[str] = []
reduce = Reduce
close, current_context = _driver.reset, _driver.get_context
_auto_device = devicearray.auto_device
implementation = "WarpDrive"
HAS_NUMBA = True
globals().update({name: getattr(types, name) for name in types.__all__}, **_members())


def is_available() -> bool:
    """Return True: kernels can be launched."""
    return True


def is_supported_version() -> bool:
    """Return True: there is no CUDA whose version could be too old."""
    return True


def is_float16_supported() -> bool:
    """Return True: arrays of the device may hold float16."""
    return True


def is_bfloat16_supported() -> bool:
    """Return False."""
    return False


def cuda_error() -> None:
    """Return None: there is no driver that could fail to initialise."""


def stream() -> Stream:
    """Return a new stream."""
    return _driver.context.create_stream()


def default_stream() -> Stream:
    """Return the default stream."""
    return _driver.context.get_default_stream()


def legacy_default_stream() -> Stream:
    """Return the legacy default stream."""
    return _driver.context.get_legacy_default_stream()


def per_thread_default_stream() -> Stream:
    """Return the default stream of a thread."""
    return _driver.context.get_per_thread_default_stream()


def external_stream(ptr: int) -> Stream:
    """Return the stream with that handle."""
    return _driver.context.create_external_stream(ptr)


def event(timing: bool = True) -> Event:
    """Return a new event, which records the time if ``timing`` is True."""
    return Event(timing)


def synchronize() -> None:
    """Return at once: launches and copies are synchronous."""


def select_device(device_id: int) -> Device:
    """Return a device. Raises :class:`IndexError` if there is no such device."""
    return _driver.get_context(device_id).device


def get_current_device() -> Device:
    """Return the device."""
    return _driver.device


def list_devices() -> Any:
    """Return the devices."""
    return gpus


def detect() -> bool:
    """Print the devices; return True, as there is one."""
    device = _driver.device
    print("Found 1 CUDA devices")
    print(f"id {device.id} {device.name:>40} [SUPPORTED]")
    print(f"{'Compute Capability':>40}: {'.'.join(map(str, device.compute_capability))}")
    print(f"{'UUID':>40}: {device.uuid}")
    print("Summary:\n\t1/1 devices are supported")
    return True


@contextlib.contextmanager
def pinned(*arylist: Any) -> Iterator[None]:
    """Return a context manager that does nothing: the device can use all memory of the host."""
    yield


@contextlib.contextmanager
def mapped(*arylist: Any, stream: Any = 0) -> Iterator[Any]:
    """Return a context manager whose value is a device array with the memory of a host array, or a list of them.

    The memory of contiguous arrays is device memory within the context.
    """
    kept = [_registered(array.view()) for array in arylist if array.flags.forc]
    found = [devicearray.DeviceNDArray._of(array, stream) for array in arylist]
    yield found[0] if len(found) == 1 else found
    del kept  # until here, as registrations end with the last reference


@contextlib.contextmanager
def defer_cleanup() -> Iterator[None]:
    """Return a context manager that does nothing."""
    yield


def open_ipc_array(*args: Any, **kwargs: Any) -> Any:
    """Raise :class:`NotImplementedError`: memory is not shared with other processes."""
    raise NotImplementedError("device memory of other processes cannot be opened without a GPU")


def vectorize(*args: Any, **kwargs: Any) -> Any:
    """Return ``numba.vectorize(..., target="cuda")``."""
    return _vectorize(*args, **{"target": "cuda", **kwargs})


def guvectorize(*args: Any, **kwargs: Any) -> Any:
    """Return ``numba.guvectorize(..., target="cuda")``."""
    return _guvectorize(*args, **{"target": "cuda", **kwargs})


def __getattr__(name: str) -> Any:
    from warpdrive.numba_cuda.installation import NAME, submodule

    return submodule(NAME, name)
