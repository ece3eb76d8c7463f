"""Selection of the GPU of a process."""

from __future__ import annotations

from warpdrive.backends.cuda import pytorch
from warpdrive.backends.cuda.device import Device, device_at
from warpdrive.backends.diagnostics import Lacks, gpu_of
from warpdrive.backends.system_info import this_machine
from warpdrive.errors import BackendError


def usable_device(backend: str, lacks: Lacks, process_id: int) -> Device:
    """Return the GPU of a process, assigned round-robin, and make it PyTorch's current device.

    Args:
        backend: Name of the backend, for messages.
        lacks: Requirements of the backend.
        process_id: Index of the process among those on the machine.

    Returns:
        The GPU.

    Raises:
        BackendError: If the GPU cannot be used.
    """
    check_usable(backend, lacks, process_id)
    device = device_at(gpu_of(process_id, this_machine()))
    pytorch.make_current(device.index)
    return device


def check_usable(backend: str, lacks: Lacks, process_id: int) -> None:
    """Check that a backend can be used on this machine.

    Args:
        backend: Name of the backend, for messages.
        lacks: Requirements of the backend.
        process_id: Index of the process among those on the machine.

    Raises:
        BackendError: If there are unmet requirements; the message has all of them.
    """
    missing = list(lacks(this_machine(), process_id))
    if missing:
        raise BackendError(
            f"env_backend '{backend}' cannot be used on this machine. {'. '.join(map(str, missing))}. "
            "`warpdrive doctor` shows what was found, and what can be used"
        )
