"""``match``, ``:=`` and loops around barriers over several things at once, compared with Python itself."""

from __future__ import annotations

import enum
import itertools

import numpy as np
import pytest
from numba import cuda, float64
from oracle import launch_gpu_code

import warpdrive as wd


class Kind(enum.IntEnum):
    ONE = 1
    TWO = 2


def choices(out, a, m):
    i = cuda.threadIdx.x
    kept = -1.0
    match int(a[i]):
        case 0:
            out[i] = 10
        case Kind.ONE | Kind.TWO as x if a[i] > 1:
            kept = x
        case x if x > 2:
            match a[i] > 5:
                case True:
                    out[i] = 5
                case _:
                    out[i] = x + 20
        case _:
            out[i] = 7
    for j in range(6):
        match j:
            case 1:
                continue
            case 4:
                break
            case k:
                out[i] += k
    out[i] += 100 * kept


def named(out, a, m):
    i = cuda.threadIdx.x
    total = 1.0
    j = 0
    if (x := a[i]) > 1 and (y := x * 2) > 4:
        total += y
    while (v := a[j] if j < 4 else 9.0) < 2:
        j += 1
        if j == 1:
            continue
        total += v
    else:
        total += 50
    while (v := v - 1) > 5:
        if v == 7:
            break
    k = 1
    out[(p := i)] = 10 * (k + (k := 5) * k) + 100 * total + 1000 * v
    out[i] += p + k + (0 < (z := k) <= (k := 6)) + z


def named_around_barriers(out, a, m):
    i = cuda.threadIdx.x
    shared = cuda.shared.array(4, float64)
    shared[i] = a[i]
    if (count := cuda.syncthreads_count(int(a[i] > 0))) > 2:
        out[i] = shared[3 - i] + count
    j = 0
    while (x := shared[j]) < 2:
        cuda.syncthreads()
        j += 1
    out[i] += 10 * x


def several(out, a, m):
    i = cuda.threadIdx.x
    shared = cuda.shared.array(4, float64)
    total = 0.0
    for j, v in enumerate(a, 2):
        shared[i] = v * j
        cuda.syncthreads()
        total += shared[3 - i]
        cuda.syncthreads()
    for u, v, w in zip(a, range(7, 1, -2), m[0], strict=False):
        cuda.syncthreads()
        total += 10 * u * v - w
    for j, (u, v) in enumerate(zip(reversed(a), out, strict=False)):
        cuda.syncthreads()
        total += j * u + v
    for p in np.ndindex(m.shape):
        cuda.syncthreads()
        total += m[p] * p[0]
    for j, k in np.ndindex(2, 3):
        cuda.syncthreads()
        total = total * 1.5 + j * k
    for p, v in np.ndenumerate(m):
        cuda.syncthreads()
        total += v * (p[1] + 1)
    for v in m.flat:
        cuda.syncthreads()
        total = total + v * v
    cuda.syncthreads()
    out[i] = total


class Cuda:
    """Members of ``numba.cuda`` for threads that all do the same."""

    def __init__(self, i):
        self.threadIdx, self.shared = self, self
        self.x = i

    def array(self, shape, dtype):
        return Everywhere()

    def syncthreads(self):
        pass


class Everywhere:
    """An array whose elements are written by all threads alike."""

    def __setitem__(self, place, value):
        self.value = value

    def __getitem__(self, place):
        return self.value


def in_python(kernel, i):
    """Return what a thread computes, as Python runs it alone."""
    out, a, m = arguments()
    names = {**globals(), "cuda": Cuda(i), "zip": lambda *parts, strict: itertools.starmap(lambda *p: p, zip(*parts))}  # noqa: B905
    namespace = {**names}
    exec("", namespace)
    function = type(kernel)(kernel.__code__, namespace)
    function(out, a, m)
    return out[i]


def arguments():
    return np.zeros(4), np.arange(4.0), np.arange(6.0).reshape(2, 3) + 1


def on_cpu(kernel, *given):
    wd.kernel(kernel)[1, 4](*given)


def debugged(kernel, *given):
    wd.debug(kernel)[1, 4](*given)


def on_gpu(kernel, *given):
    launch_gpu_code(kernel, 1, 4, given)


@pytest.mark.parametrize("launch", [on_cpu, debugged, on_gpu])
@pytest.mark.parametrize("kernel", [choices, named, several])
def test_results_are_those_of_python(kernel, launch):
    given = arguments()
    launch(kernel, *given)
    assert given[0].tolist() == [in_python(kernel, i) for i in range(4)]


@pytest.mark.parametrize("launch", [on_cpu, debugged, on_gpu])
def test_names_are_assigned_around_barriers(launch):
    given = arguments()
    launch(named_around_barriers, *given)
    assert given[0].tolist() == [3 - i + 3 + 20 for i in range(4)]


@pytest.mark.parametrize("kernel", [choices, named, named_around_barriers, several])
def test_checks_run_them(kernel):
    assert wd.check_launch(kernel, 1, 4, *arguments()).clean
