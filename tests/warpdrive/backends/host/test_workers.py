"""Distribution of blocks over cores: every block runs once, whatever the affinity."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pytest
from numba import cuda

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


def test_a_number_of_threads_that_cannot_be():
    for number in (0, workers.MAX_THREADS + 1):
        with pytest.raises(ValueError, match=f"the number of threads is {number}, expected 1 to 256"):
            workers.set_num_threads(number)
