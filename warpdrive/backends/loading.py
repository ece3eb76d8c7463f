"""Table of the backends, and the selection of one for this machine."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache

from warpdrive.backends.diagnostics import BACKENDS, Lack, chosen
from warpdrive.backends.interface import Backend
from warpdrive.backends.system_info import this_machine
from warpdrive.errors import BackendError, nearest, shown


def load_backend(name: str, process_id: int = 0) -> Backend:
    """Return the backend with this name; ``"auto"`` selects the best one that this machine can run.

    Args:
        name: ``"auto"``, ``"cpu"``, ``"numba"`` or ``"pycuda"``.
        process_id: Index of this process among those on the machine; processes are assigned GPUs round-robin.

    Returns:
        The backend.

    Raises:
        BackendError: If the name is unknown, or the backend cannot be used here; the message has the missing
            requirements and their remedies.
    """
    if name == "auto":
        return _best_backend(process_id)
    if name not in BACKENDS:
        known = ("auto", *BACKENDS)
        raise BackendError(f"env_backend is {shown(name)}: expected one of {', '.join(known)}.{nearest(name, known)}")
    return _LOADERS[name](process_id)


def _best_backend(process_id: int) -> Backend:
    machine = this_machine()
    name, missing = chosen(machine, process_id)
    if name != "cpu":
        try:
            backend = _LOADERS[name](process_id)
            _say(logging.INFO, f"env_backend 'auto' is '{name}', on {backend.device}")
            return backend
        except BackendError as error:  # PyTorch cannot use the GPU
            missing = [Lack(str(error))]
    _say(
        logging.WARNING if machine.driver.gpus else logging.INFO,
        f"env_backend 'auto' is 'cpu', since {missing[0]} (`warpdrive doctor` tells more)",
    )
    return _LOADERS["cpu"](process_id)


def usable_backends() -> list[str]:
    """Return the names of the backends that this machine can run; the CPU is the first."""

    def is_usable(name: str) -> bool:
        try:
            load_backend(name)
        except BackendError:
            return False
        return True

    return [name for name in _LOADERS if is_usable(name)]


def backends_at_hand() -> list[Backend]:
    """Return the backends that this machine can run; without a usable GPU, CUDA C is compiled for the host."""
    found = [load_backend(name) for name in usable_backends()]
    if all(backend.language != "CUDA C" for backend in found):
        from warpdrive.backends.pycuda import PyCudaBackend
        from warpdrive.backends.pycuda.host import host_compiler

        with suppress(BackendError):
            host_compiler()
            found.append(PyCudaBackend(on_host=True))
    return found


@cache
def _say(level: int, message: str) -> None:
    """Log a message, once."""
    logging.getLogger("warpdrive").log(level, message)


def _cpu(process_id: int) -> Backend:
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        raise BackendError("the environment variable NUMBA_DISABLE_JIT is set, and kernels must be compiled: unset it")
    from warpdrive.backends.cpu import CpuBackend

    return CpuBackend()


def _numba(process_id: int) -> Backend:
    from warpdrive.backends.numba_cuda import NumbaCudaBackend

    return NumbaCudaBackend(process_id)


def _pycuda(process_id: int) -> Backend:
    from warpdrive.backends.pycuda import PyCudaBackend

    return PyCudaBackend(process_id)


_LOADERS: dict[str, Callable[[int], Backend]] = {"cpu": _cpu, "numba": _numba, "pycuda": _pycuda}
