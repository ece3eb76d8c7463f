"""Table of the backends, and the selection of one for this machine."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

from warpdrive.backends.diagnostics import Lack, Lacks, cpu_lacks, numba_lacks, pycuda_lacks
from warpdrive.backends.interface import Backend, PortableCompiler
from warpdrive.backends.system_info import Machine, this_machine
from warpdrive.errors import BackendError, nearest, shown


@dataclass(frozen=True)
class Entry:
    """Entry of a backend in the table.

    Attributes:
        language: Language of the kernel functions it runs.
        device_types: Types of the devices it runs on, as in ``torch.device``, the usual one first.
        load: Creates the backend for a process, given its index among those on the machine.
        lacks: Yields the unmet requirements on a machine, for a process.
    """

    language: str
    device_types: tuple[str, ...]
    load: Callable[[int], Backend]
    lacks: Lacks


def backend_names() -> tuple[str, ...]:
    """Return the values of ``env_backend``: ``"auto"`` and the names of the backends."""
    return ("auto", *TABLE)


def lacks(name: str, machine: Machine, process_id: int = 0) -> list[Lack]:
    """Return the unmet requirements of a backend on the GPU of ``process_id``; empty if it is usable.

    Args:
        name: Name of the backend.
        machine: Description of the machine.
        process_id: Index of the process among those on the machine.

    Returns:
        The unmet requirements.
    """
    return list(TABLE[name].lacks(machine, process_id))


def chosen(machine: Machine, process_id: int = 0) -> tuple[str, list[Lack]]:
    """Return the backend that ``"auto"`` selects, and if it is not numba, the unmet requirements of that."""
    missing = lacks("numba", machine, process_id)
    return ("cpu", missing) if missing else ("numba", [])


def never_uses_gpu(name: str) -> bool:
    """Return True if a backend runs on the CPU alone; False for ``"auto"``."""
    return name in TABLE and "cuda" not in TABLE[name].device_types


def name_for(language: str, device_type: str) -> str:
    """Return the name of the backend that runs kernel functions of a language on a type of device.

    Raises:
        BackendError: If there is none.
    """
    for name, entry in TABLE.items():
        if entry.language == language and device_type in entry.device_types:
            return name
    raise BackendError(f"no backend runs kernel functions in {language} on {device_type}")


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
    if name not in TABLE:
        known = backend_names()
        raise BackendError(f"env_backend is {shown(name)}: expected one of {', '.join(known)}.{nearest(name, known)}")
    return TABLE[name].load(process_id)


def _best_backend(process_id: int) -> Backend:
    machine = this_machine()
    name, missing = chosen(machine, process_id)
    if name != "cpu":
        try:
            backend = TABLE[name].load(process_id)
            _log_once(logging.INFO, f"env_backend 'auto' is '{name}', on {backend.device}")
            return backend
        except BackendError as error:  # PyTorch cannot use the GPU
            missing = [Lack(str(error))]
    _log_once(
        logging.WARNING if machine.driver.gpus else logging.INFO,
        f"env_backend 'auto' is 'cpu', since {missing[0]} (see `warpdrive doctor`)",
    )
    return TABLE["cpu"].load(process_id)


def usable_backends() -> list[str]:
    """Return the names of the backends that this machine can run; the CPU is the first."""

    def is_usable(name: str) -> bool:
        try:
            load_backend(name)
        except BackendError:
            return False
        return True

    return [name for name in TABLE if is_usable(name)]


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


def wasm_backend() -> Backend:
    """Return the backend that runs kernels as WebAssembly in wasmtime, to compare them with those of other backends.

    It is slower than the CPU's, and thus none that ``env_backend`` names.

    Raises:
        BackendError: If the CPU backend cannot be used, which provides the code.
    """
    from warpdrive.backends.wasm import WasmBackend

    return WasmBackend(portable_compiler())


def portable_compiler() -> PortableCompiler:
    """Return the compiler of kernels to code for other processors.

    Raises:
        BackendError: If the CPU backend cannot be used.
    """
    compiler = TABLE["cpu"].load(0)
    assert isinstance(compiler, PortableCompiler)
    return compiler


@cache
def _log_once(level: int, message: str) -> None:
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


TABLE = {
    "cpu": Entry("Python", ("cpu",), _cpu, cpu_lacks),
    "numba": Entry("Python", ("cuda",), _numba, numba_lacks),
    "pycuda": Entry("CUDA C", ("cuda", "cpu"), _pycuda, pycuda_lacks),
}
"""Backends by name, that of the CPU first. On a CPU, CUDA C is compiled by a C++ compiler, for tests."""
