"""Functions as values within kernels: inner functions, variables and tuples that hold functions, and recursion."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest
from numba import cuda, float64
from oracle import launch_gpu_code

import warpdrive as wd

SCALE = 5
IS_FAST = False


@cuda.jit(device=True)
def twice(x):
    return 2 * x


@wd.device_function
def thrice(x):
    return 3 * x


def applied(function, x):
    return function(x)


def both(functions, x):
    return functions[0](x) - functions[1](x)


def totalled(first, *rest):
    total = first
    for value in rest:
        total += value
    return total


def forwarded(*numbers):
    return totalled(*numbers)


def exchanged(x, y):
    cuda.syncthreads()
    return x - y


def fibonacci(n):
    if n < 2:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)


def is_even(n):
    if n == 0:
        return 1
    return is_odd(n - 1)


def is_odd(n):
    if n == 0:
        return 0
    return is_even(n - 1)


def countdown(out, n):
    if n > 0:
        out[n] += n
        countdown(out, n - 1)


def shrinking(x, y):
    if x > 1 and y > 0:
        return x + shrinking(x - y, y)
    return y


PAIR = (twice, thrice)


def captures(out, a):
    i = cuda.threadIdx.x
    c = 1.0

    def f(x, scale=3):
        return x * scale + c + SCALE

    g = lambda x: f(x) + f(x, 2)  # noqa: E731
    first = g(a[i])
    c = 100.0  # the value at the call counts
    out[i] = first + 1000 * g(a[i])


def captures_of(i, x):
    first = (x * 3 + 1 + SCALE) + (x * 2 + 1 + SCALE)
    return first + 1000 * ((x * 3 + 100 + SCALE) + (x * 2 + 100 + SCALE))


def nested(out, a):
    i, thread = cuda.grid(1), cuda.threadIdx
    k = a[i]

    def outer(x):
        def inner(y):
            return y * x + k

        return inner(3) if x > 1 else -inner(thread.x)

    total = 0.0
    for j in range(4):
        step = lambda x: x + j  # noqa: E731, B023
        total += step(outer(a[i]))
    out[i] = total


def nested_of(i, x):
    return 4 * (3 * x + x if x > 1 else -(i * x + x)) + 6


def with_barrier(out, a):
    shared = cuda.shared.array(4, float64)

    def exchange(value):
        shared[cuda.threadIdx.x] = value
        cuda.syncthreads()
        return shared[3 - cuda.threadIdx.x]

    out[cuda.threadIdx.x] = exchange(a[cuda.threadIdx.x])


def held(out, a):
    i = cuda.grid(1)
    f, m = twice, math
    y = f(a[i])
    f = thrice
    functions = (f, twice, lambda x: x + 1, a[i])
    out[i] = y + functions[0](functions[3]) + functions[-2](m.floor(a[i]))


def held_of(i, x):
    return 2 * x + 3 * x + x + 1


def held_in_tuples(out, a):
    i = cuda.grid(1)
    f, g = PAIR
    h = f if IS_FAST else g
    p = (lambda x: x, operator.add)
    if IS_FAST:  # noqa: SIM108
        last = twice
    else:
        last = thrice
    out[i] = f(a[i]) + 10 * PAIR[1](a[i]) + 100 * both((twice, abs), a[i]) + 1000 * both(PAIR, a[i])
    out[i] += h(1) + p[1](p[0](2), applied(lambda x: x + SCALE, 1)) + last(1) + cuda.float64(1)


def held_in_tuples_of(i, x):
    return 2 * x + 30 * x + 100 * x - 1000 * x + 3 + 2 + 1 + SCALE + 3 + 1


def starred(out, a):
    i = cuda.grid(1)
    t = (a[i], 2.0)
    u = (*t, 3.0)
    out[i] = min(*t) + 10 * exchanged(*t) + 100 * totalled(*u, 4.0) + 1000 * forwarded(1, *cuda.gridsize(2))
    out[i] += len(u)
    cuda.atomic.add(out, *(i, 0.5))


def starred_of(i, x):
    return min(x, 2) + 10 * (x - 2) + 100 * (x + 9) + 1000 * (1 + 4 + 1) + 3 + 0.5


def recursive(out, a):
    i = cuda.grid(1)
    out[i] = fibonacci(int(a[i]) + 7)


def recursive_of(i, x):
    return [13, 21, 34, 55][i]


def mutually_recursive(out, a):
    i = cuda.grid(1)
    if i == 0:
        countdown(out, 3)
    out[i] += is_even(i) + 10 * is_odd(3) + 100 * shrinking(2, 0.5)


def mutually_recursive_of(i, x):
    return i + (i % 2 == 0) + 10 + 100 * (2 + 1.5 + 0.5)


KERNELS = [
    (captures, captures_of),
    (nested, nested_of),
    (with_barrier, lambda i, x: 3 - i),
    (held, held_of),
    (held_in_tuples, held_in_tuples_of),
    (starred, starred_of),
    (recursive, recursive_of),
]


def run(kernel, launch):
    out, a = np.zeros(4), np.arange(4.0)
    launch(kernel, 1, 4, out, a)
    return out.tolist()


def expected_of(function):
    return [function(i, float(i)) for i in range(4)]


def on_cpu(kernel, blocks, threads, *arguments):
    wd.kernel(kernel)[blocks, threads](*arguments)


def debugged(kernel, blocks, threads, *arguments):
    wd.debug(kernel)[blocks, threads](*arguments)


def on_gpu(kernel, blocks, threads, *arguments):
    launch_gpu_code(kernel, blocks, threads, arguments)


@pytest.mark.parametrize("launch", [on_cpu, debugged, on_gpu])
@pytest.mark.parametrize(("kernel", "expected"), KERNELS, ids=[kernel.__name__ for kernel, _ in KERNELS])
def test_functions_are_values(kernel, expected, launch):
    assert run(kernel, launch) == expected_of(expected)


@pytest.mark.parametrize("kernel", [kernel for kernel, _ in KERNELS], ids=lambda kernel: kernel.__name__)
def test_functions_are_values_in_checks(kernel):
    assert wd.check_launch(kernel, 1, 4, np.zeros(4), np.arange(4.0)).clean


@pytest.mark.parametrize("launch", [on_cpu, debugged])
def test_mutual_recursion_works_on_the_cpu(launch):
    assert run(mutually_recursive, launch) == expected_of(mutually_recursive_of)


def depth(n):
    return 0 if n == 0 else 1 + depth(n - 1)


def ping(n):
    return 0 if n == 0 else 1 + pong(n - 1)


def pong(n):
    return 0 if n == 0 else 1 + ping(n - 1)


def directly(out, n):
    out[0] = depth(n[0])


def through_another(out, n):
    out[0] = ping(n[0])


@pytest.mark.parametrize(("kernel", "names"), [(directly, "'depth'"), (through_another, "'(ping|pong)'")])
def test_endless_recursion_ends_with_an_error_on_the_cpu(kernel, names):
    out = np.zeros(1)
    on_cpu(kernel, 1, 1, out, np.array([1000]))
    assert out[0] == 1000
    expected = rf"test_function_values\.py:\d+: RecursionError: {names} calls itself more than 1000 times: check"
    with pytest.raises(wd.errors.WarpDriveError, match=expected):
        on_cpu(kernel, 1, 1, out, np.array([-1]))
    with pytest.raises(wd.errors.WarpDriveError, match=expected):  # in a part of the launch of another thread
        on_cpu(kernel, 4096, 1, out, np.array([-1]))


def test_mutual_recursion_is_refused_on_gpus():
    with pytest.raises(wd.errors.WarpDriveError, match="on a GPU a function can call itself only directly"):
        run(mutually_recursive, on_gpu)
