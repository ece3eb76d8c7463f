"""GPU in use: its primary context, shared with PyTorch, and the code loaded onto it.

A thread in which another context (of another GPU, or none) is current gets this one for the duration of the call. Code
stays loaded until the process ends, since CUDA graphs refer to it.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_int, c_size_t, c_void_p, cast, create_string_buffer
from dataclasses import dataclass
from functools import cache

from warpdrive.backends.cuda import pytorch
from warpdrive.backends.cuda.driver import Driver, Gpu, the_driver
from warpdrive.backends.cuda.packing import Packing

MAX_THREADS, SHARED_BYTES, LOCAL_BYTES, REGISTERS, MAX_DYNAMIC_SHARED_BYTES = 0, 1, 3, 4, 8
"""Function attributes: ``CUfunction_attribute`` of ``cuda.h``."""

_ERROR_LOG, _ERROR_LOG_BYTES = 5, 6
"""Options of module loading: ``CUjit_option`` of ``cuda.h``."""

_LOG_BYTES = 4096
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True)
class Function:
    """Kernel that was loaded onto a GPU.

    Attributes:
        name: Name in messages.
        handle: The driver's ``CUfunction``.
        registers: Registers per thread.
        local_bytes: Local memory per thread in bytes.
        shared_bytes: Static shared memory per block in bytes.
        most_threads: Maximum number of threads per block with this many registers.
    """

    name: str
    handle: int
    registers: int
    local_bytes: int
    shared_bytes: int
    most_threads: int


class Device:
    """GPU with its primary context and loaded code, both of which are retained until the process ends.

    Captured CUDA graphs refer to the code.
    """

    def __init__(self, index: int, driver: Driver) -> None:
        self.index, self.driver = index, driver
        self.gpu: Gpu = driver.gpus()[index]
        handle, context = c_int(), c_void_p()
        what = f"GPU {index} cannot be used"
        driver.call(what, "cuDeviceGet", handle, index)
        driver.call(what, "cuDevicePrimaryCtxRetain", context, handle)
        self.context = context.value
        self._functions: dict[tuple[str, str], Function] = {}
        self._allowed_shared_bytes: dict[int, int] = {}

    @contextmanager
    def in_context(self) -> Iterator[None]:
        """Make this GPU's context current in the calling thread within the block."""
        what, before = f"GPU {self.index} cannot be used", c_void_p()
        self.driver.call(what, "cuCtxPushCurrent_v2", self.context)
        try:
            yield
        finally:
            self.driver.call(what, "cuCtxPopCurrent_v2", before)

    def load(self, name: str, symbol: str, image: bytes) -> Function:
        """Return a kernel of a cubin or PTX image, loading it on first use.

        Args:
            name: Name of the kernel in messages.
            symbol: Symbol of the kernel in the image.
            image: The cubin or PTX.

        Returns:
            The loaded kernel.

        Raises:
            DriverError: If the driver cannot load the image.
        """
        key = (symbol, hashlib.sha256(image).hexdigest())
        with _ONE_AT_A_TIME:
            if key not in self._functions:
                with self.in_context():
                    self._functions[key] = self._load(name, symbol, image)
            return self._functions[key]

    def _load(self, name: str, symbol: str, image: bytes) -> Function:
        driver, module, function, log = self.driver, c_void_p(), c_void_p(), create_string_buffer(_LOG_BYTES)
        options = (c_int * 2)(_ERROR_LOG, _ERROR_LOG_BYTES)
        values = (c_void_p * 2)(cast(log, c_void_p), c_void_p(_LOG_BYTES))
        what = f"the code of kernel '{name}' cannot be loaded onto GPU {self.index}, a {self._in_words()}"
        code = driver.library.cuModuleLoadDataEx(module, image, len(options), options, values)
        driver.check(what, code, details=log.value.decode(errors="replace").strip().partition("\n")[0])
        driver.call(what, "cuModuleGetFunction", function, module, symbol.encode())
        assert function.value is not None

        def attribute(number: int) -> int:
            value = c_int()
            driver.call(what, "cuFuncGetAttribute", value, number, function)
            return value.value

        return Function(
            name,
            function.value,
            attribute(REGISTERS),
            attribute(LOCAL_BYTES),
            attribute(SHARED_BYTES),
            attribute(MAX_THREADS),
        )

    def allow_shared_bytes(self, function: Function, dynamic: int) -> None:
        """Allow a kernel at least this many bytes of dynamic shared memory, as required beyond a total of 48 KiB.

        The limit is never lowered: another launch of the kernel may have more.
        """
        what = (
            f"kernel '{function.name}' cannot have {dynamic} bytes of dynamic shared memory in addition to its "
            f"{function.shared_bytes} static ones on GPU {self.index}"
        )
        with _ONE_AT_A_TIME:
            if dynamic > self._allowed_shared_bytes.get(function.handle, 0):
                with self.in_context():
                    self.driver.call(what, "cuFuncSetAttribute", function.handle, MAX_DYNAMIC_SHARED_BYTES, dynamic)
                self._allowed_shared_bytes[function.handle] = dynamic

    def resident_blocks(self, function: Function, threads: int, dynamic_shared_bytes: int = 0) -> int:
        """Return the occupancy: the number of blocks of this size that a multiprocessor runs concurrently.

        Args:
            function: The kernel.
            threads: Number of threads per block.
            dynamic_shared_bytes: Dynamic shared memory per block in bytes.

        Returns:
            The number of blocks.
        """
        blocks, what = c_int(), f"the occupancy of kernel '{function.name}' cannot be computed"
        name = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
        with self.in_context():
            self.driver.call(what, name, blocks, function.handle, threads, c_size_t(dynamic_shared_bytes))
        return blocks.value

    def replicas_at_once(self, function: Function, packing: Packing) -> int:
        """Return the number of replicas that all multiprocessors run concurrently, without dynamic shared memory."""
        return self.gpu.multiprocessors * self.resident_blocks(function, packing.threads) * packing.replicas_per_block

    def _in_words(self) -> str:
        major, minor = self.gpu.capability
        supported = ".".join(map(str, self.driver.version()))
        return f"{self.gpu.name} of compute capability {major}.{minor}, whose driver supports CUDA {supported}"


@cache
def device_at(index: int) -> Device:
    """Return a GPU, after initialising it through PyTorch. Raises :class:`BackendError` if it cannot be used."""
    pytorch.start(index)
    return Device(index, the_driver())
