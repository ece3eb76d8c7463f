"""Arguments, report and errors of ``wd.check_launch``."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest
import torch
from marked_lines import marked_lines
from numba import cuda, float32
from race_corpus import floats

import warpdrive as wd

COUNT = 0


@wd.kernel
def beyond_the_end(x):
    x[cuda.grid(1) + 1] = 1  # here


@wd.device_function
def endless(x):
    endless(x)


def test_the_report_as_text():
    report = wd.check_launch(beyond_the_end, 1, 4, np.zeros(4, np.int32))
    assert not report.clean
    assert f"bounds  {next(iter(marked_lines(beyond_the_end)))}: index 4 lies outside of 'x'" in str(report)
    assert "x[cuda.grid(1) + 1] = 1  # here" in str(report)
    assert "> use the element only where the index is less than shape[0], which is 4" in str(report)
    assert str(wd.check_launch(beyond_the_end, 1, 4, np.zeros(5, np.int32))) == "nothing found"


def test_every_finding_has_sources_and_advice():
    @wd.kernel
    def everything(x, out):
        own = cuda.local.array(1, float32)
        i = cuda.threadIdx.x
        out[0] = x[i + 1] * 0.5 + own[0]
        if i < 2:
            cuda.syncthreads()
        out[0] = math.log(x[i] - x[i])

    report = wd.check_launch(everything, 1, 4, floats(4), floats(1), nan=True)
    for kind in ("races", "bounds", "uninitialised", "divergence", "float64", "nan"):
        assert getattr(report, kind), kind
    for finding in report:
        assert finding.advice
        assert all(finding.sources), finding
    told = report.as_dict()
    assert not told["clean"]
    assert [finding["message"] for finding in told["races"]] == [finding.message for finding in report.races]


@pytest.mark.parametrize("kernel", [beyond_the_end.function, cuda.jit(beyond_the_end.function)])
def test_plain_functions_and_kernels_of_numba(kernel):
    assert wd.check_launch(kernel, 1, 4, np.zeros(4, np.int32)).bounds


def test_tensors():
    x = torch.zeros(4, dtype=torch.int32)
    assert wd.check_launch(beyond_the_end, 1, 4, x).bounds
    assert not x.any()


def test_an_exception_is_reported_with_its_line():
    @wd.kernel
    def asserts(x):
        assert x[0] > np.float32(100)

    line = inspect.getsourcelines(asserts.function)[1] + 2
    with pytest.raises(wd.KernelError, match=rf"test_check_launch.py:{line}: thread 0 of block 0 stopped with Assert"):
        wd.check_launch(asserts, 1, 1, floats(1))


def counted(x):
    global COUNT
    COUNT = 1
    x[0] = 1


def answers(x):
    x[0] = 1
    return 1


def copies_to_the_device(x):
    x[0] = cuda.to_device(x)[0]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (counted, "'COUNT' is a constant of the module"),
        (answers, "a kernel returns nothing"),
        (copies_to_the_device, "cuda.to_device is not part of the"),
    ],
)
def test_what_is_not_in_the_kernel_language_is_refused_with_its_line(function, said):
    with pytest.raises(wd.KernelError, match=rf"test_check_launch.py:\d+: {said}"):
        wd.check_launch(function, 1, 1, floats(1))


def test_endless_recursion_is_refused():
    @wd.kernel
    def calls_itself(x):
        endless(x)

    with pytest.raises(wd.KernelError, match=r"thread 0 of block 0 stopped with RecursionError"):
        wd.check_launch(calls_itself, 1, 1, floats(1))


def test_a_wrong_number_of_arguments_is_refused():
    with pytest.raises(wd.KernelError, match=r"takes 1 arguments \(x\), found 2"):
        wd.check_launch(beyond_the_end, 1, 4, floats(4), 1)
