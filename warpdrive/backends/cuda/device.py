"""A GPU in use: its context, which PyTorch's is too, and the code that was loaded onto it."""

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

MOST_THREADS, SHARED_BYTES, LOCAL_BYTES, REGISTERS, MOST_DYNAMIC_SHARED_BYTES = 0, 1, 3, 4, 8
"""Attributes of a function: ``CUfunction_attribute`` of ``cuda.h``."""

_ERROR_LOG, _ERROR_LOG_BYTES = 5, 6
"""Options of loading: ``CUjit_option`` of ``cuda.h``."""

_LOG_BYTES = 4096
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True)
class Function:
    """A kernel that was loaded onto a GPU.

    Attributes:
        name: what messages call it.
        handle: the driver's ``CUfunction``.
        registers: that a thread takes.
        local_bytes: of memory that a thread takes beside them.
        shared_bytes: that a block takes, without those given at launch.
        most_threads: that a block can have, with so many registers.
    """

    name: str
    handle: int
    registers: int
    local_bytes: int
    shared_bytes: int
    most_threads: int


class Device:
    """A GPU with its primary context, which stays for as long as the process does.

    So does the code that is loaded onto it: CUDA graphs that were captured refer to it.
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

    @contextmanager
    def in_context(self) -> Iterator[None]:
        """Make this GPU's context the calling thread's for the time of a block."""
        what, before = f"GPU {self.index} cannot be used", c_void_p()
        self.driver.call(what, "cuCtxPushCurrent_v2", self.context)
        try:
            yield
        finally:
            self.driver.call(what, "cuCtxPopCurrent_v2", before)

    def load(self, name: str, symbol: str, image: bytes) -> Function:
        """Return a kernel of a cubin or PTX, which is loaded if it has not been before.

        ``symbol`` is what the code calls it, ``name`` what messages do. Raises
        :class:`warpdrive.backends.cuda.driver.DriverError`.
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
            attribute(MOST_THREADS),
        )

    def allow_shared_bytes(self, function: Function, dynamic: int) -> None:
        """Let a kernel have so much shared memory given at launch, which beyond 48 KiB must be asked for."""
        what = (
            f"kernel '{function.name}' cannot have {dynamic} bytes of shared memory given at launch, beside the "
            f"{function.shared_bytes} that it declares, on GPU {self.index}"
        )
        with self.in_context():
            self.driver.call(what, "cuFuncSetAttribute", function.handle, MOST_DYNAMIC_SHARED_BYTES, dynamic)

    def resident_blocks(self, function: Function, threads: int, dynamic_shared_bytes: int = 0) -> int:
        """Return how many blocks of so many threads a multiprocessor runs at a time."""
        blocks, what = c_int(), f"the occupancy of kernel '{function.name}' cannot be computed"
        name = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
        with self.in_context():
            self.driver.call(what, name, blocks, function.handle, threads, c_size_t(dynamic_shared_bytes))
        return blocks.value

    def replicas_at_once(self, function: Function, packing: Packing) -> int:
        """Return how many replicas all multiprocessors together run at a time, with no dynamic shared memory."""
        return self.gpu.multiprocessors * self.resident_blocks(function, packing.threads) * packing.replicas_per_block

    def _in_words(self) -> str:
        major, minor = self.gpu.capability
        supported = ".".join(map(str, self.driver.version()))
        return f"{self.gpu.name} of compute capability {major}.{minor}, whose driver supports CUDA {supported}"


@cache
def device_at(index: int) -> Device:
    """Return a GPU, which PyTorch is the first to use. Raises :class:`BackendError` where it cannot be used."""
    pytorch.start(index)
    return Device(index, the_driver())
