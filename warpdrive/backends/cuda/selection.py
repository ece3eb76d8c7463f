"""Selection of the GPU of a process."""

from __future__ import annotations

from warpdrive.backends.cuda import pytorch
from warpdrive.backends.cuda.device import Device, device_at
from warpdrive.backends.diagnostics import gpu_of, lacks
from warpdrive.backends.system_info import this_machine
from warpdrive.errors import BackendError


def usable_device(backend: str, process_id: int) -> Device:
    """Return the GPU of a process, assigned round-robin, and make it PyTorch's current device.

    Raises :class:`BackendError` if it cannot be used.
    """
    check_usable(backend, process_id)
    device = device_at(gpu_of(process_id, this_machine()))
    pytorch.make_current(device.index)
    return device


def check_usable(backend: str, process_id: int) -> None:
    """Raise :class:`BackendError` with all unmet requirements of ``backend`` on this machine, if there are any."""
    missing = lacks(backend, this_machine(), process_id)
    if missing:
        raise BackendError(
            f"env_backend '{backend}' cannot be used on this machine. {'. '.join(map(str, missing))}. "
            "`warpdrive doctor` shows what was found, and what can be used"
        )
