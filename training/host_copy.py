"""Bring numbers from devices to the host without waiting for them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


class HostCopy:
    """A copy of some tensors that is on its way to the host, all of a device in one transfer.

    Args:
        tensors: of numbers, by name; at least one. They may be overwritten as soon as this is made.

    Attributes:
        is_here: whether :meth:`read` is certain not to wait: true on the CPU.
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
        """Return the numbers by name; wait for them if need be."""
        if not self.is_here:
            for arrival in self._arrivals:
                arrival.synchronize()
            self.is_here = True
        parts = torch.cat(self._parts).split(list(self._lengths.values()))
        return {name: part.tolist() for name, part in zip(self._lengths, parts, strict=True)}
