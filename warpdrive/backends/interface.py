"""What a backend is: it binds a fused kernel to arguments, and says where arrays live."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch

from warpdrive.errors import WarpDriveError, nearest
from warpdrive.kernels.fusion import Fusion


class BackendError(WarpDriveError):
    """A backend that does not exist or cannot be used on this machine."""


class Backend(Protocol):
    """Compiles and launches kernels on one device."""

    name: str
    device: torch.device
    language: str
    """In what the kernel functions are written that it runs: ``"Python"`` or ``"CUDA C"``."""

    def bind(self, fusion: Fusion, arguments: Mapping[str, Any], blocks: int, threads: int) -> Callable[[], None]:
        """Compile a fused kernel for these arguments and return a function that launches it with them.

        ``arguments`` maps each parameter to a tensor on ``device``, a read-only NumPy array or a NumPy number. The
        tensors must stay where they are as long as the function is used.
        """


def load_backend(name: str) -> Backend:
    """Return the backend ``"cpu"``, or for ``"auto"`` the best that this machine can run.

    Raises :class:`BackendError` for a name that is no backend, or one that cannot be used here.
    """
    from warpdrive.backends.cpu import CpuBackend
    from warpdrive.backends.pycuda import PyCudaBackend

    known: dict[str, Callable[[], Backend]] = {"auto": CpuBackend, "cpu": CpuBackend, "pycuda": PyCudaBackend}
    if name not in known:
        planned = " (the GPU backend 'numba' is not part of this version)" * (name == "numba")
        raise BackendError(
            f"env_backend is '{name}': expected one of {', '.join(sorted(known))}{planned}.{nearest(name, known)}"
        )
    return known[name]()
