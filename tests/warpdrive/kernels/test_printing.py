"""``print`` in kernels writes to the standard output of the process."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda

import warpdrive as wd


def tell(values, out):
    i = cuda.threadIdx.x
    staged = cuda.shared.array(2, np.float32)
    staged[i] = values[i]
    cuda.syncthreads()
    if i == 1:
        print("thread", i, "has", staged[i], values[0] > 0)
        print()
        print(np.int8(-3), 7, 2.5, "end")
    out[i] = staged[i]


@pytest.mark.parametrize("made", [wd.kernel, wd.debug], ids=["kernel", "debug"])
def test_kernels_print(made, capfd):
    made(tell)[1, 2](np.array([1.5, 0.25], np.float32), np.zeros(2))
    assert capfd.readouterr().out.splitlines() == ["thread 1 has 0.25 True", "", "-3 7 2.5 end"]


@wd.device_function
def say(value):
    print("says", value > 0)


def test_device_functions_print(capfd):
    @wd.kernel
    def tell_all(values):
        say(values[cuda.threadIdx.x])

    tell_all[1, 2](np.array([1.5, -0.25], np.float32))
    assert capfd.readouterr().out.splitlines() == ["says True", "says False"]
