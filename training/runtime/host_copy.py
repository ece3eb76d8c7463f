"""Asynchronous copies of numbers from devices to the host.

All metrics of a row are one copy, which is read once the work up to the next row is enqueued, so that the device is
never idle. Before a checkpoint is written it is read immediately, as non-finite losses are not saved.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


class HostCopy:
    """Asynchronous copy of tensors to the host, in one transfer per device.

    Args:
        tensors: At least one tensor of numbers, by name. They may be overwritten after construction.

    Attributes:
        is_here: True if :meth:`read` will not wait; always on the CPU.
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        by_device: dict[torch.device, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            by_device.setdefault(tensor.device, {})[name] = tensor.detach().reshape(-1).double()
        self._lengths = {name: len(flat) for part in by_device.values() for name, flat in part.items()}
        self._parts: list[Tensor] = []
        self._arrivals: list[torch.cuda.Event] = []
        for device, part in by_device.items():
            self._parts.append(torch.cat(list(part.values())).to("cpu", non_blocking=True))
            if device.type == "cuda":
                arrival = torch.cuda.Event()
                arrival.record(torch.cuda.current_stream(device))
                self._arrivals.append(arrival)
        self.is_here = not self._arrivals

    def read(self) -> dict[str, list[float]]:
        """Wait for the copy if necessary, and return the numbers by name."""
        if not self.is_here:
            for arrival in self._arrivals:
                arrival.synchronize()
            self.is_here = True
        parts = torch.cat(self._parts).split(list(self._lengths.values()))
        return {name: part.tolist() for name, part in zip(self._lengths, parts, strict=True)}
