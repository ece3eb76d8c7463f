"""Distribution of blocks over cores: every block runs once, whatever the affinity; rounds of launches."""

from __future__ import annotations

import _thread
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from numba import carray, cfunc, cuda

import warpdrive as wd
from warpdrive.backends.host import workers


@wd.kernel
def count(visits):
    visits[cuda.blockIdx.x] += cuda.blockIdx.x + 1


@pytest.fixture
def threads():
    before = workers.get_num_threads()
    yield workers.set_num_threads
    workers.set_num_threads(before)


def launch_often(blocks, rest):
    visits = np.zeros(blocks, np.int64)
    for _ in range(20):
        count[blocks, 1](visits)
        time.sleep(rest)
    np.testing.assert_array_equal(visits, 20 * np.arange(1, blocks + 1))


@pytest.mark.parametrize("number", [1, 2, 3, 7])
def test_every_block_is_done_once(threads, number):
    threads(number)
    for blocks in (1, 2, 5, 1000):
        launch_often(blocks, 0)
    launch_often(100, 0.002)  # helpers have gone to sleep in between


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs a system that binds threads to cores")
def test_a_process_that_may_use_one_core(threads):
    threads(3)
    cores = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(cores)})
        launch_often(100, 0.002)
    finally:
        os.sched_setaffinity(0, cores)
    launch_often(100, 0.002)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs a system that binds threads to cores")
def test_the_caller_keeps_its_cores(threads):
    threads(2)
    cores = os.sched_getaffinity(0)
    launch_often(100, 0.002)
    assert os.sched_getaffinity(0) == cores
    found = []
    thread = threading.Thread(target=lambda: found.append(os.sched_getaffinity(0)))
    thread.start()
    thread.join()
    assert found == [cores]


# Words of a table: number of the round, result of the last round, number of parts, and a number per part.
@cfunc("void(CPointer(int64), int64, int64)")
def part_of_round(table, part, parts):
    words = carray(table, (3 + parts,))
    words[3 + part] += (part + 1) * (words[0] + words[1])


@cfunc("void(CPointer(int64), int64, int64)")
def end_of_round(table, part, parts):
    words = carray(table, (3 + 16,))
    words[1] = words[3 : 3 + words[2]].sum() % 1_000_003


def run_rounds(table, last):
    table[2] = len(table) - 3
    address = table.ctypes.data
    workers.launch_rounds(part_of_round.address, end_of_round.address, address, address, last, len(table) - 3)


@pytest.mark.parametrize("number", [1, 2, 7])
@pytest.mark.parametrize("parts", [1, 2, 16])
def test_each_round_sees_the_end_of_the_one_before(threads, number, parts):
    threads(number)
    for first, last in ((0, 1), (5, 5 + 3 * workers.ROUNDS_AT_ONCE)):
        words = np.zeros(3 + parts, np.int64)
        words[0] = first
        run_rounds(words, last)
        total, result = 0, 0
        for counter in range(first, last):
            total += (counter + result) * parts * (parts + 1) // 2
            result = total % 1_000_003
        assert (words[0], words[1], words[3:].sum()) == (last, result, total)


@pytest.mark.parametrize("number", [1, 3])
def test_rounds_are_interrupted_between_launches(threads, number):
    threads(number)
    words = np.zeros(3 + 16, np.int64)
    threading.Timer(0.2, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        run_rounds(words, 10**8)
    assert words[0] > 0
    np.testing.assert_array_equal(words[3:], words[3] * np.arange(1, 17))  # all parts of the last round are done
    launch_often(100, 0)


FORK = """
import os, runpy, sys
import numpy as np
from warpdrive.backends.host import workers

count, run_rounds = map(runpy.run_path(sys.argv[1]).get, ("count", "run_rounds"))

def work():
    visits = np.zeros(100, np.int64)
    count[100, 1](visits)
    np.testing.assert_array_equal(visits, np.arange(1, 101))
    words = np.zeros(3 + 16, np.int64)
    run_rounds(words, 40)
    assert words[0] == 40 and (words[3:] > 0).all()

workers.set_num_threads(3)
work()
workers._the_pool().busy.acquire()  # as another thread would hold it in a launch
child = os.fork()
if child == 0:
    work()
    os._exit(len(workers._the_pool().helpers))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system with fork")
def test_the_child_of_a_fork_has_helpers_of_its_own():
    done = subprocess.run([sys.executable, "-c", FORK, __file__], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2, done.stderr


def test_busy_cores_are_left_to_other_programs(monkeypatch):
    now = 100.0
    monkeypatch.setattr(workers.time, "perf_counter", lambda: now)
    spare = workers.SpareCores()
    for used in (0.8, 0.7):  # seconds of four threads in 0.2 seconds: all of it, and half a core less
        assert [spare.helpers(most) for most in (0, 1, 3)] == [0, 1, 3]
        spare.observe(0.2, used, 3)
    assert [spare.helpers(most) for most in (0, 1, 3)] == [0, 0, 2]
    now += 1.9
    spare.observe(0.2, 0.6, 2)
    assert spare.helpers(3) == 2
    now += 0.2
    assert spare.helpers(3) == 3


def test_a_number_of_threads_that_cannot_be():
    for number in (0, workers.MAX_THREADS + 1):
        with pytest.raises(ValueError, match=f"the number of threads is {number}, expected 1 to 256"):
            workers.set_num_threads(number)
