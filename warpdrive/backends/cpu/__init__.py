"""CPU backend: kernels compiled to machine code by numba, with blocks executed in parallel over the cores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from warpdrive.backends.interface import PortableCode
from warpdrive.kernels.fusion import Fusion


class CpuBackend:
    """Backend that runs kernels on the cores of this machine."""

    name = "cpu"
    language = "Python"

    def __init__(self) -> None:
        import torch  # single kernels do without

        self.device = torch.device("cpu")

    def bind(self, fusion: Fusion, arguments: Mapping[str, Any], blocks: int, threads: int) -> Callable[[], None]:
        """Bind arguments to a fused kernel; see :class:`warpdrive.backends.interface.Backend`."""
        from warpdrive.backends.cpu.launch import bind

        return bind(fusion.kernel(), arguments, blocks, threads)

    def portable(self, fusion: Fusion, arguments: Mapping[str, Any], blocks: int, threads: int) -> PortableCode:
        """Return code for other processors; see :class:`warpdrive.backends.interface.PortableCompiler`."""
        from warpdrive.backends.cpu.portable import portable_code

        return portable_code(fusion.kernel(), arguments, blocks, threads)

    def replicas_at_once(self, fusion: Fusion, arguments: Mapping[str, Any], blocks: int, threads: int) -> int:
        """Return the number of replicas that run concurrently; see :class:`warpdrive.backends.interface.Backend`."""
        from warpdrive.backends.host.workers import get_num_threads

        return get_num_threads()
