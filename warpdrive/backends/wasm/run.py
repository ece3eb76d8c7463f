"""Launches of WebAssembly modules in wasmtime, on arrays of this process."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from warpdrive.backends.interface import MachineCode, PortableCode, PortableCompiler
from warpdrive.backends.wasm.compile import compile_module
from warpdrive.backends.wasm.link import PAGE
from warpdrive.backends.wasm.memory import Image
from warpdrive.errors import BackendError
from warpdrive.kernels.errors import KernelError

_ENTRY = "run"


class WasmLaunch:
    """Launch of a kernel in wasmtime. Its arrays are copied to the memory of the module, and back.

    Args:
        code: The code of the kernel.
        compiler: The compiler of the code.

    Raises:
        BackendError: If wasmtime is not installed.
        KernelError: If the kernel cannot be compiled.
    """

    def __init__(self, code: PortableCode, compiler: PortableCompiler) -> None:
        linked = compile_module({_ENTRY: code}, compiler)
        self._code, self._arrays = code, [array for _, array in code.arrays]
        self._image = image = Image(self._arrays, linked.first_free)
        words = image.table(self._arrays)
        self._store, exports = instance_of(linked.module)
        self._memory, self._function = exports["memory"], exports[_ENTRY]
        missing = image.end + words.nbytes - self._memory.data_len(self._store)
        if missing > 0:
            self._memory.grow(self._store, -(-missing // PAGE))
        self._memory.write(self._store, words.tobytes(), image.end)

    def __call__(self) -> None:
        """Launch the kernel. Raises :class:`KernelError` if it raises an exception."""
        base = ctypes.addressof(self._memory.data_ptr(self._store).contents)
        for block in self._image.blocks:
            ctypes.memmove(base + block.address, block.source, block.size)
        status = self._function(self._store, self._image.end)
        for block in self._image.blocks:
            ctypes.memmove(block.source, base + block.address, block.size)
        if status:
            raise KernelError(" or ".join(self._code.faults) or f"{self._code.where}: the kernel raised an exception")

    def repeated(self, counter: str, steps: int, before: Sequence[MachineCode]) -> Callable[[], None] | None:
        """Return None: see :class:`warpdrive.backends.interface.RepeatableLaunch`."""
        return None


def instance_of(module: bytes) -> tuple[Any, Any]:
    """Return wasmtime's store and the exports of an instance of a module.

    Raises:
        BackendError: If wasmtime is not installed.
    """
    try:
        import wasmtime
    except ImportError:
        raise BackendError(
            "WebAssembly modules run in a browser, in Node.js, or here in wasmtime, which is not installed: "
            'pip install "warpdrive[web]"'
        ) from None
    store = wasmtime.Store()
    instance = wasmtime.Instance(store, wasmtime.Module(store.engine, module), [])
    return store, instance.exports(store)
