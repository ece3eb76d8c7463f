"""``torch.cuda`` of programs that assume a GPU, on machines without one: one device, which is the CPU."""

from __future__ import annotations

import os
import time
from typing import Any

import torch

from warpdrive.backends.system_info import usable_cores

_FEW_CORES = 4


class Event:
    """Event that records the time of the host.

    Args:
        enable_timing: Accepted for compatibility.
        blocking: Accepted for compatibility.
        interprocess: Accepted for compatibility.
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self._time = 0.0

    def record(self, stream: Any = None) -> None:
        """Record the time."""
        self._time = time.perf_counter()

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds from this event to another."""
        return 1000.0 * (end_event._time - self._time)

    def synchronize(self) -> None:
        """Do nothing: work is synchronous."""

    wait = synchronize

    def query(self) -> bool:
        """Return True: work is synchronous."""
        return True


def _itself(self: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Any:
    return self


def _synchronize(device: Any = None) -> None:
    """Do nothing: work is synchronous."""


def _set_device(device: Any) -> None:
    """Do nothing: there is one device."""


def _init() -> None:
    """Do nothing: there is no driver."""


_STAND_INS: dict[Any, dict[str, Any]] = {
    torch.Tensor: {"cuda": _itself},
    torch.nn.Module: {"cuda": _itself},
    torch.cuda: {
        "Event": Event,
        # with PYTORCH_NVML_BASED_CUDA_CHECK, which Lightning sets, PyTorch infers it from the number of devices
        "is_available": lambda: False,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_name": lambda device=None: "WarpDrive (CPU)",
        "synchronize": _synchronize,
        "set_device": _set_device,
        "init": _init,
    },
}
_former: list[tuple[Any, str, Any]] = []
_former_threads: list[int] = []


def replace_torch_cuda() -> None:
    """Have ``tensor.cuda()`` and ``module.cuda()`` return the object, and ``torch.cuda`` report one device.

    On a machine with few cores PyTorch uses one thread: several spin while they wait for each other.
    """
    if usable_cores() <= _FEW_CORES and "OMP_NUM_THREADS" not in os.environ:
        _former_threads.append(torch.get_num_threads())
        torch.set_num_threads(1)
    for owner, names in _STAND_INS.items():
        for name, stand_in in names.items():
            _former.append((owner, name, getattr(owner, name)))
            setattr(owner, name, stand_in)


def restore_torch_cuda() -> None:
    """Undo :func:`replace_torch_cuda`."""
    if _former_threads:
        torch.set_num_threads(_former_threads.pop())
    while _former:
        owner, name, value = _former.pop()
        setattr(owner, name, value)
