"""How long a device works on something, measured without waiting for it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch

Span = tuple[Any, Any]
"""Two moments of one clock: a beginning and an end."""


class DeviceClock:
    """Tells when a device gets to a place in its work.

    The host runs ahead of a GPU, so there a moment is an event among the GPU's work, which can be read once it has
    happened: after the next copy to the host.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def now(self) -> Any:
        """Return the moment at which the device has done all that it was asked for so far."""
        if self.device.type != "cuda":
            return time.perf_counter()
        moment = torch.cuda.Event(enable_timing=True)
        moment.record(torch.cuda.current_stream(self.device))
        return moment

    def mean_seconds(self, spans: Sequence[Span]) -> float:
        """Return how long the spans are on average, all of which must be over on the device."""
        return sum(self._seconds(*span) for span in spans) / len(spans)

    def _seconds(self, began: Any, ended: Any) -> float:
        if self.device.type != "cuda":
            return float(ended - began)
        return float(began.elapsed_time(ended)) * 1e-3
