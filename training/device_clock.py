"""How long a device works on something, measured without waiting for it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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

    def is_over(self, moment: Any) -> bool:
        """Return whether the device has come to a moment."""
        return self.device.type != "cuda" or bool(moment.query())

    def mean_seconds(self, spans: Sequence[Span]) -> float:
        """Return how long the spans are on average, all of which must be over on the device."""
        return sum(self.seconds(*span) for span in spans) / len(spans)

    def seconds(self, began: Any, ended: Any) -> float:
        """Return how long a span is, which must be over on the device."""
        if self.device.type != "cuda":
            return float(ended - began)
        return float(began.elapsed_time(ended)) * 1e-3


class Stopwatch:
    """Adds up how long devices work on what is done in some blocks."""

    def __init__(self) -> None:
        self._total = 0.0
        self._under_way: deque[tuple[DeviceClock, Span]] = deque()

    @contextmanager
    def timing(self, device: torch.device) -> Iterator[None]:
        """Time the work that the block gives to a device."""
        clock = DeviceClock(device)
        began = clock.now()
        yield
        self._under_way.append((clock, (began, clock.now())))
        self.seconds()  # so that few are under way, however seldom somebody asks

    def seconds(self) -> float:
        """Return the sum over all blocks whose work is done."""
        while self._under_way and self._under_way[0][0].is_over(self._under_way[0][1][1]):
            clock, span = self._under_way.popleft()
            self._total += clock.seconds(*span)
        return self._total
