"""WebAssembly backend: kernels compiled for browsers, and run in wasmtime to compare them with other backends.

It has no kernel compiler: portable code of kernels comes from a backend with a compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from warpdrive.backends.interface import PortableCompiler
from warpdrive.kernels.fusion import Fusion


class WasmBackend:
    """Backend that runs kernels as WebAssembly, in one thread.

    Args:
        compiler: The compiler of kernels to portable code.
    """

    name = "wasm"
    language = "Python"

    def __init__(self, compiler: PortableCompiler) -> None:
        import torch

        self.device, self.compiler = torch.device("cpu"), compiler

    def bind(self, fusion: Fusion, arguments: Mapping[str, Any], blocks: int, threads: int) -> Callable[[], None]:
        """Bind arguments to a fused kernel; see :class:`warpdrive.backends.interface.Backend`."""
        from warpdrive.backends.wasm.run import WasmLaunch

        return WasmLaunch(self.compiler.portable(fusion, arguments, blocks, threads), self.compiler)

    def replicas_at_once(self, fusion: Fusion, arguments: Mapping[str, Any], blocks: int, threads: int) -> int:
        """Return 1: replicas run one after the other; see :class:`warpdrive.backends.interface.Backend`."""
        return 1
