"""Output of the compilers for GPUs."""

from __future__ import annotations

from dataclasses import dataclass

from warpdrive.backends.cuda.linker import Resources, needs_device_runtime

Capability = tuple[int, int]
"""Compute capability of a GPU: (8, 0), (9, 0) ..."""


@dataclass(frozen=True)
class CudaCode:
    """GPU code of a kernel for one kind of arguments.

    Attributes:
        name: Symbol of the kernel in ``image``.
        image: Code that the driver loads: a cubin, or PTX if there is no linker.
        ptx: PTX that the image was made from.
        resources: GPU resources that it uses; None if there is no linker to report them.
    """

    name: str
    image: bytes
    ptx: str
    resources: Resources | None

    @property
    def is_cooperative(self) -> bool:
        """True if blocks wait for each other at barriers of the grid, and so must run at once."""
        return needs_device_runtime(self.ptx)
