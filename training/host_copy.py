"""Bring numbers from the device to the host without waiting for them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


class HostCopy:
    """A copy of some tensors that is on its way to the host, all in one transfer.

    Args:
        tensors: of numbers, by name; at least one. They may be overwritten as soon as this is made.

    Attributes:
        is_here: whether :meth:`read` is certain not to wait: true on the CPU.
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._lengths = {name: tensor.numel() for name, tensor in tensors.items()}
        flat = torch.cat([tensor.detach().reshape(-1).double() for tensor in tensors.values()])
        self._flat = flat.to("cpu", non_blocking=True)
        self.is_here = flat.device.type != "cuda"
        if not self.is_here:
            self._arrival = torch.cuda.Event()
            self._arrival.record(torch.cuda.current_stream(flat.device))

    def read(self) -> dict[str, list[float]]:
        """Return the numbers by name; wait for them if need be."""
        if not self.is_here:
            self._arrival.synchronize()
            self.is_here = True
        parts = self._flat.split(list(self._lengths.values()))
        return {name: part.tolist() for name, part in zip(self._lengths, parts, strict=True)}
