"""Signals end a process whose kernel does not return."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from warpdrive.backends.host import interrupts

PROGRAM = """
import signal, sys, threading, time
import numpy as np
from numba import cuda
import warpdrive as wd
from warpdrive.backends.host import workers
from warpdrive.backends.host.interrupts import launches_within


@wd.kernel
def spin(turns, forever):
    i = cuda.grid(1)
    x = forever[i]
    while x > 0:  # 1 to 6 for ever
        x = x * 5 % 7
    turns[i] = x


how = sys.argv[1]
if how == "bounded":  # as 'warpdrive check' does
    within = launches_within(2, 1)
    within.__enter__()
if how == "handled":  # as 'warpdrive train' does: the handler only makes a note
    signal.signal(signal.SIGTERM, lambda *_: None)
workers.set_num_threads(2 if how == "helper" else 1)
turns, forever = np.zeros(64, np.int64), np.zeros(64, np.int64)
spin[64, 1](turns, forever)
forever[-1] = 1
print("ready", flush=True)
if how == "thread":
    thread = threading.Thread(target=spin[64, 1], args=(turns, forever))
    thread.start()
    thread.join()
else:
    spin[64, 1](turns, forever)
"""


@pytest.mark.parametrize(
    ("how", "number", "times"),
    [
        ("alone", signal.SIGINT, 1),
        ("helper", signal.SIGINT, 2),
        pytest.param("handled", signal.SIGTERM, 2, marks=pytest.mark.exhaustive),
        ("thread", signal.SIGINT, 1),
    ],
)
def test_an_endless_kernel_ends_with_its_process(tmp_path, how, number, times):
    """Once, with some seconds for the launch to return, or twice, at once."""
    program = tmp_path / "endless.py"
    program.write_text(PROGRAM)
    with subprocess.Popen(
        [sys.executable, str(program), how], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            for _ in range(times):
                time.sleep(1.0)
                os.kill(process.pid, number)
            _, said = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == -number, said
    if how != "thread":  # which Python itself may give up
        assert "the process ends. Saved files are kept" in said
        assert f"launched at {program}:" in said


def test_a_bound_on_the_time_of_a_launch(tmp_path):
    program = tmp_path / "endless.py"
    program.write_text(PROGRAM)
    done = subprocess.run([sys.executable, str(program), "bounded"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "has not returned within 2 seconds: the process ends" in done.stderr


def test_a_launch_that_returns_is_waited_for(tmp_path):
    """Ctrl-C in the middle of a launch of several threads: all of it is done before KeyboardInterrupt is raised."""
    program = tmp_path / "long.py"
    program.write_text("""
import os, signal, threading, time
import numpy as np
from numba import cuda
import warpdrive as wd
from warpdrive.backends.host import workers


@wd.kernel
def work(values, turns):
    x = values[cuda.blockIdx.x]
    for _ in range(turns):
        x = (x * 1103515245 + 12345) % 2147483648
    values[cuda.blockIdx.x] = x


workers.set_num_threads(3)
expected, found = np.arange(24), np.arange(24)
work[24, 1](expected, 1)
began = time.perf_counter()
expected[:] = np.arange(24)
work[24, 1](expected, 1_000_000)
turns = max(1_000_000, int(1_000_000 / (time.perf_counter() - began)))  # a second or so
expected[:] = np.arange(24)
work[24, 1](expected, turns)
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    work[24, 1](found, turns)
    time.sleep(10)
except KeyboardInterrupt:
    assert (found == expected).all()
    print("whole")
""")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120)
    assert done.stdout == "whole\n", done.stderr


BUSY = """
import signal
import numpy as np
from numba import cuda
import warpdrive as wd


@wd.kernel
def add(total):
    for n in range(20_000_000):
        total[0] = total[0] * 5 % 7 + n


signal.signal(signal.SIGINT, lambda *_: None)
total = np.zeros(1, np.int64)
for _ in range(8):
    add[1, 1](total)
    signal.raise_signal(signal.SIGINT)
"""


def test_signals_between_launches_do_not_end_the_process(tmp_path):
    program = tmp_path / "busy.py"
    program.write_text(BUSY)
    ended = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize(("look", "ends"), [(1, False), (3, True)])
def test_only_a_signal_within_a_launch_ends_it(monkeypatch, look, ends):
    """A signal that comes while a launch is first looked up may be older than the launch.

    The clock goes on by a tenth of a second whenever it is read, so that a slow machine changes nothing.
    """
    read, write = os.pipe()
    looks, ticks, ended = itertools.count(1), itertools.count(), []

    def in_a_launch():
        if next(looks) == look:
            os.write(write, bytes([signal.SIGINT]))
        return launch

    launch = sys._getframe()
    monkeypatch.setattr(interrupts, "_blocking_launch", in_a_launch)
    monkeypatch.setattr(interrupts, "_end", lambda number, *_: ended.append(number))
    monkeypatch.setattr(interrupts, "time", SimpleNamespace(monotonic=lambda: next(ticks) / 10))
    monkeypatch.setattr(interrupts, "ATTENTION", 1.0)
    interrupts._watch_launch(read, signal.SIGTERM)
    os.close(read)
    os.close(write)
    assert ended == [signal.SIGINT] * ends


def test_looking_for_a_launch_survives_garbage_collections():
    """CPython waits for ever if a thread-local object dies while it lists the frames of all threads (issue 106883)."""
    program = """
import gc, threading
from warpdrive.backends.host.interrupts import _blocking_launch

class Node:
    pass

def look():
    one, other = Node(), Node()
    one.other, other.one, one.local = other, one, threading.local()
    one.local.x = 1
    del one, other
    _blocking_launch()

for threshold in range(1, 60):
    gc.set_threshold(threshold)
    for _ in range(200):
        look()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
