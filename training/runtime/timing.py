"""Timing of device work without synchronisation."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

Span = tuple[Any, Any]
"""Start and end moments of one clock."""


class DeviceClock:
    """Clock of a device's progress.

    The host runs ahead of a GPU, so its moments are CUDA events, which can be read once they have occurred: after the
    next copy to the host.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def now(self) -> Any:
        """Return the moment at which the device completes all work submitted so far."""
        if self.device.type != "cuda":
            return time.perf_counter()
        moment = torch.cuda.Event(enable_timing=True)
        moment.record(torch.cuda.current_stream(self.device))
        return moment

    @contextmanager
    def timing(self, spans: list[Span]) -> Iterator[None]:
        """Append the span of the device work submitted within the block to ``spans``."""
        began = self.now()
        yield
        spans.append((began, self.now()))

    def is_over(self, moment: Any) -> bool:
        """Return True if the device has reached a moment."""
        return self.device.type != "cuda" or bool(moment.query())

    def mean_seconds(self, spans: Sequence[Span]) -> float:
        """Return the mean duration of spans, all of which must have completed on the device, in seconds."""
        return sum(self.seconds(*span) for span in spans) / len(spans)

    def seconds(self, began: Any, ended: Any) -> float:
        """Return the duration in seconds of a span, which must have completed on the device."""
        if self.device.type != "cuda":
            return float(ended - began)
        return float(began.elapsed_time(ended)) * 1e-3


class Stopwatch:
    """Accumulated device time of several blocks."""

    def __init__(self) -> None:
        self._total = 0.0
        self._under_way: deque[tuple[DeviceClock, Span]] = deque()

    @contextmanager
    def timing(self, device: torch.device) -> Iterator[None]:
        """Time the device work submitted within the block."""
        clock = DeviceClock(device)
        began = clock.now()
        yield
        self._under_way.append((clock, (began, clock.now())))
        self.seconds()  # bounds the number of pending events

    def seconds(self) -> float:
        """Return the seconds of all blocks whose work has completed."""
        while self._under_way and self._under_way[0][0].is_over(self._under_way[0][1][1]):
            clock, span = self._under_way.popleft()
            self._total += clock.seconds(*span)
        return self._total
