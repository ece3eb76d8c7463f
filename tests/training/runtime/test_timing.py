"""Durations by the clock of a device, here a fake with given times of events."""

from __future__ import annotations

import pytest
import torch

from warpdrive.training.runtime.timing import DeviceClock, Stopwatch


class FakeEvent:
    """An event of a GPU, in milliseconds."""

    moments = iter([5.0, 2005.0, 3000.0, 7000.0])

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self, stream: str) -> None:
        assert stream == "stream of cuda:1"
        self.moment = next(self.moments)

    def elapsed_time(self, later: FakeEvent) -> float:
        return later.moment - self.moment


def test_on_a_gpu_events_tell_the_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"stream of {device}")
    clock = DeviceClock(torch.device("cuda", 1))
    spans = [(clock.now(), clock.now()), (clock.now(), clock.now())]
    assert clock.mean_seconds(spans) == pytest.approx((2.0 + 4.0) / 2)


def test_a_stopwatch_counts_what_is_over_and_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    class Event(FakeEvent):
        moments = iter([5.0, 2005.0, 3000.0, 7000.0])
        reached = 0.0

        def query(self) -> bool:
            return self.moment <= Event.reached

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"stream of {device}")
    monkeypatch.setattr("time.perf_counter", iter([1.0, 3.5]).__next__)
    stopwatch = Stopwatch()
    for device in ("cpu", "cuda:1", "cuda:1"):
        with stopwatch.timing(torch.device(device)):
            pass
    assert stopwatch.seconds() == 2.5
    for reached, seconds in ((3000.0, 4.5), (7000.0, 8.5), (9000.0, 8.5)):
        Event.reached = reached
        assert stopwatch.seconds() == pytest.approx(seconds)


def test_on_the_cpu_the_hosts_clock_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.perf_counter", iter([1.0, 3.5]).__next__)
    clock = DeviceClock(torch.device("cpu"))
    assert clock.mean_seconds([(clock.now(), clock.now())]) == 2.5
