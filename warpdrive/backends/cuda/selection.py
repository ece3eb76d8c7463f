"""Choose the GPU of a process, or say why there is none that a backend can use."""

from __future__ import annotations

from warpdrive.backends.cuda import pytorch
from warpdrive.backends.cuda.device import Device, device_at
from warpdrive.backends.machine import this_machine
from warpdrive.backends.requirements import gpu_of, lacks
from warpdrive.errors import BackendError


def usable_device(backend: str, process_id: int) -> Device:
    """Return the GPU that a process uses, which becomes PyTorch's current one: processes take turns.

    Raises :class:`BackendError` where it cannot be used.
    """
    check_usable(backend, process_id)
    device = device_at(gpu_of(process_id, this_machine()))
    pytorch.make_current(device.index)
    return device


def check_usable(backend: str, process_id: int) -> None:
    """Raise :class:`BackendError`, which tells all that ``backend`` lacks on this machine, if it lacks something."""
    missing = lacks(backend, this_machine(), process_id)
    if missing:
        raise BackendError(
            f"env_backend '{backend}' cannot be used on this machine. {'. '.join(map(str, missing))}. "
            "`warpdrive doctor` shows what was found, and what can be used"
        )
