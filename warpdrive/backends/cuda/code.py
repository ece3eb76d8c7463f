"""What compilers for GPUs make."""

from __future__ import annotations

from dataclasses import dataclass

from warpdrive.backends.cuda.linker import Resources

Capability = tuple[int, int]
"""Compute capability of a GPU: (8, 0), (9, 0) ..."""


@dataclass(frozen=True)
class CudaCode:
    """GPU code of a kernel for one kind of arguments.

    Attributes:
        name: what the kernel is called in ``image``.
        image: what the driver loads: a cubin, or PTX where there is no linker.
        ptx: the PTX that it was made of.
        resources: what it takes of the GPU; None where there is no linker to tell.
    """

    name: str
    image: bytes
    ptx: str
    resources: Resources | None
