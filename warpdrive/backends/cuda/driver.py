"""NVIDIA driver API: the functions that query GPUs, and that load and launch compiled code.

They are called through ``ctypes``, as they have been stable since CUDA 4: inspecting a machine then requires no
package that may not be installed.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint, c_void_p
from dataclasses import dataclass
from functools import cache
from typing import Any

from warpdrive.backends.cuda.failures import explained
from warpdrive.errors import BackendError

_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceTotalMem_v2": (POINTER(c_size_t), c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuCtxGetCurrent": (POINTER(c_void_p),),
    "cuCtxPushCurrent_v2": (c_void_p,),
    "cuCtxPopCurrent_v2": (POINTER(c_void_p),),
    "cuModuleLoadDataEx": (POINTER(c_void_p), c_char_p, c_uint, POINTER(c_int), POINTER(c_void_p)),
    "cuModuleGetFunction": (POINTER(c_void_p), c_void_p, c_char_p),
    "cuFuncGetAttribute": (POINTER(c_int), c_int, c_void_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (POINTER(c_int), c_void_p, c_int, c_size_t),
    "cuLaunchKernel": (c_void_p, *[c_uint] * 7, c_void_p, c_void_p, c_void_p),
    "cuLaunchCooperativeKernel": (c_void_p, *[c_uint] * 7, c_void_p, c_void_p),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
}
"""Parameter types of each function, as declared in ``cuda.h``."""

MULTIPROCESSORS, CAPABILITY_MAJOR, CAPABILITY_MINOR = 16, 75, 76
"""Device attributes: ``CUdevice_attribute`` of ``cuda.h``."""


class DriverError(BackendError):
    """Failure of a driver call. ``code`` is its ``CUresult``."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class DriverMissingError(BackendError):
    """Absence of an NVIDIA driver."""


@dataclass(frozen=True)
class Gpu:
    """GPU as described by the driver."""

    name: str
    capability: tuple[int, int]
    memory_bytes: int
    multiprocessors: int


class Driver:
    """Driver library; its methods raise :class:`DriverError` on failure."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        for name, parameters in _FUNCTIONS.items():
            function = getattr(library, name)
            function.argtypes, function.restype = parameters, c_int

    def call(self, what: str, name: str, *arguments: Any) -> None:
        """Call a function of the driver.

        Args:
            what: Description of the failure, for an error's message.
            name: Name of the function.
            *arguments: Its arguments.

        Raises:
            DriverError: If the function returns an error.
        """
        self.check(what, getattr(self.library, name)(*arguments))

    def check(self, what: str, code: int, details: str = "") -> None:
        """Raise :class:`DriverError` if a function returned an error.

        Args:
            what: Description of the failure, for the message.
            code: The ``CUresult`` that the function returned.
            details: Cause of the failure, if known.

        Raises:
            DriverError: If ``code`` is not 0.
        """
        if code:
            raise DriverError(code, explained(what, code, self._name_of(code), details))

    def version(self) -> tuple[int, int]:
        """Return the newest CUDA version that the driver supports. Works without a GPU."""
        number = c_int()
        self.call("the driver's version cannot be read", "cuDriverGetVersion", number)
        return number.value // 1000, number.value % 1000 // 10

    def gpus(self) -> list[Gpu]:
        """Return the GPUs, in PyTorch's order. Raises :class:`DriverError` if there are none."""
        self.call("the NVIDIA driver cannot be initialised", "cuInit", 0)
        count = c_int()
        self.call("the GPUs cannot be counted", "cuDeviceGetCount", count)
        return [self._gpu(index) for index in range(count.value)]

    def _gpu(self, index: int) -> Gpu:
        what, device, name, memory = (
            f"GPU {index} cannot be queried",
            c_int(),
            ctypes.create_string_buffer(256),
            c_size_t(),
        )
        self.call(what, "cuDeviceGet", device, index)
        self.call(what, "cuDeviceGetName", name, len(name), device)
        self.call(what, "cuDeviceTotalMem_v2", memory, device)
        capability = self.attribute(device, CAPABILITY_MAJOR), self.attribute(device, CAPABILITY_MINOR)
        text = name.value.decode(errors="replace")
        return Gpu(text, capability, memory.value, self.attribute(device, MULTIPROCESSORS))

    def attribute(self, device: c_int, number: int) -> int:
        """Return an attribute of a device."""
        value = c_int()
        self.call(f"attribute {number} of a GPU cannot be read", "cuDeviceGetAttribute", value, number, device)
        return value.value

    def _name_of(self, code: int) -> str:
        name = c_char_p()
        self.library.cuGetErrorName(code, name)
        return name.value.decode() if name.value else f"CUDA error {code}"


@cache
def the_driver() -> Driver:
    """Return the driver of this machine. Raises :class:`DriverMissingError` if there is none."""
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        return Driver(ctypes.CDLL(name))
    except OSError as error:
        reason = f"{name} was not found" if "No such file" in str(error) else error
        raise DriverMissingError(
            f"there is no NVIDIA driver ({reason}): install that of the GPU (nvidia.com/drivers), or start the "
            "container with the GPUs (docker run --gpus all)"
        ) from error
    except AttributeError as error:
        raise DriverMissingError(
            f"the NVIDIA driver is too old for this library ({error}): install a newer one (nvidia.com/drivers)"
        ) from error
