"""Heartbeats detect collectives that never complete, also if the host does not wait for them."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from torch._C._distributed_c10d import TCPStore

from warpdrive.training.distributed.heartbeat import Heartbeat, Identity


@pytest.fixture
def watches(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give the watches of two processes, both of them this one, which they may neither kill nor end.

    Waits of 1.5 seconds are too long. The threads end before ``os._exit`` is the real one again.
    """
    store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    ended = threading.Event()

    def end(code: int) -> None:
        ended.set()
        raise SystemExit  # of the thread

    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr("warpdrive.training.distributed.heartbeat._EXIT_DELAY", 0.0)
    monkeypatch.setattr(os, "kill", lambda pid, number: None)

    def connect(seconds: float) -> TCPStore:
        return TCPStore("localhost", store.port, timeout=timedelta(seconds=seconds), wait_for_workers=False)

    both = [Heartbeat(connect, "here", "watch", rank, 2, timeout=1.5) for rank in range(2)]
    starts = [threading.Thread(target=heartbeat.start) for heartbeat in both]
    for start in starts:
        start.start()
    for start in starts:
        start.join()
    yield both, ended
    for heartbeat in both:
        heartbeat.end()
    assert not any(thread.is_alive() for heartbeat in both for thread in heartbeat._threads)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # the SystemExit
def test_a_message_that_never_comes_to_a_gpu_is_noticed(watches: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """The host has gone on, as it does with nccl, and rank 1 has never sent anything."""
    (heartbeat, _), ended = watches
    with heartbeat.in_collective(lambda: lambda: False):
        pass
    assert ended.wait(120)
    told = capfd.readouterr().err
    assert "rank 1 (process" in told and "is alive, but has kept the others waiting for" in told


def test_one_that_came_is_waited_for_no_longer(watches: Any) -> None:
    (heartbeat, _), ended = watches
    with heartbeat.in_collective(lambda: lambda: True):
        pass
    with heartbeat.in_collective():
        pass
    assert not ended.wait(3)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # the SystemExit
@pytest.mark.parametrize(("pid", "is_killed"), [(2**22, True), (0, False), (-1, False), ("1", False)])
def test_only_processes_are_killed(watches: Any, monkeypatch: pytest.MonkeyPatch, pid: Any, is_killed: bool) -> None:
    """The store is no more trusted than the network; 0 and negative numbers mean process groups."""
    (heartbeat, _), ended = watches
    killed: list[Any] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append(pid))
    heartbeat.identities = {rank: replace(Identity.own(), kernel="k") for rank in range(2)}
    heartbeat.identities[1] = replace(heartbeat.identities[1], pid=pid)
    with pytest.raises(SystemExit):
        heartbeat._abort("rank 1 is missing", [1])
    assert ended.is_set() and killed == ([pid] if is_killed else [])
