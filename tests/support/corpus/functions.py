"""Device functions in all the ways they are written and called."""

from __future__ import annotations

import math
from functools import reduce

import numba
import numpy as np
from numba import cuda, float32, int32

import warpdrive as wd

from . import helpers
from .cases import case, close, equal
from .helpers import rotate, scaled as three_times

THREADS = 5


@cuda.jit
def of_another_module(values, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = helpers.scaled(values[i]) + three_times(values[i], by=7) + helpers.with_options(i, 4)


@case
def from_another_module(launch, rng):
    values = rng.integers(-9, 9, 10)
    out = np.zeros(10, np.int64)
    launch(of_another_module, 2, THREADS, values, out)
    equal(out, 10 * values + 10 * np.arange(10) + 4)


@cuda.jit
def rotations(values, out):
    """A function with barriers, in a loop, in an expression, with and without its default."""
    memory = cuda.shared.array(8, int32)
    i = cuda.threadIdx.x
    memory[i] = values[i]
    total = 0
    for _ in range(3):
        total = 10 * total + rotate(memory, i)
    out[i] = total + 1000 * rotate(memory, i, by=2)


@case
def barriers_in_functions(launch, rng):
    values = rng.integers(0, 9, 8).astype(np.int32)
    out = np.zeros(8, np.int32)
    launch(rotations, 1, 8, values, out)
    v = [np.roll(values, -k) for k in range(6)]
    equal(out, 100 * v[1] + 10 * v[2] + v[3] + 1000 * v[5])


@cuda.jit
def nested_sums(values, out):
    """Functions with shared memory of their own, called twice: the sum of the squares of the distances to the sum."""
    i = cuda.threadIdx.x
    total = helpers.sum_of_block(values[cuda.blockIdx.x, i])
    distance = values[cuda.blockIdx.x, i] * cuda.blockDim.x - total
    out[cuda.blockIdx.x, i] = helpers.sum_of_block(distance * distance) if cuda.blockDim.x > 1 else -1


@case
def shared_memory_in_functions(launch, rng):
    values = rng.integers(-9, 9, (2, 7))
    out = np.zeros((2, 7), np.int64)
    launch(nested_sums, 2, 7, values, out)
    distances = 7 * values - values.sum(axis=1, keepdims=True)
    equal(out, np.repeat((distances**2).sum(axis=1), 7).reshape(2, 7))
    alone = np.zeros((2, 1), np.int64)
    launch(nested_sums, 2, 1, values[:, :1].copy(), alone)
    equal(alone, -1)


@wd.device_function
def clamp(value, low=-1.0, high=1.0):
    if value < low:
        return low
    if value > high:
        return high
    return value


def smooth(x):
    t = clamp((x + 1.0) / 2.0, low=0.0)
    return t * t * (3.0 - 2.0 * t)


@cuda.jit
def deep(x, out):
    """Early returns, three levels deep."""
    i = cuda.grid(1)
    if i < x.size:
        out[i] = smooth(x[i]) + helpers.plain(x[i], 1.0)


@case
def early_returns_in_functions(launch, rng):
    x = rng.normal(size=12)
    out = np.zeros(12)
    launch(deep, 3, THREADS, x, out)
    t = np.clip((x + 1) / 2, 0, 1)
    close(out, t**2 * (3 - 2 * t) + np.sqrt(x**2 + 1), rtol=1e-12)


@cuda.jit
def statistics(rows, out):
    """Functions that write into local arrays and that return tuples."""
    row = cuda.grid(1)
    if row >= rows.shape[0]:
        return
    own = cuda.local.array(6, float32)
    helpers.fill(own, 2)
    for k in range(rows.shape[1]):
        own[k] += rows[row, k]
    mean, spread = helpers.mean_and_spread(own, 6)
    both = helpers.mean_and_spread(own, rows.shape[1])
    out[row, 0], out[row, 1] = mean, spread
    out[row, 2] = both[0] - both[1]


@case
def arrays_and_tuples(launch, rng):
    rows = rng.integers(-4, 5, (7, 4)).astype(np.float32)
    out = np.zeros((7, 3), np.float32)
    launch(statistics, 2, THREADS, rows, out)
    whole = np.pad(rows, ((0, 0), (0, 2))) + 2
    part = whole[:, :4]
    close(out, np.stack([whole.mean(1), whole.std(1), part.mean(1) - part.std(1)], 1), rtol=1e-3, atol=1e-3)


def polynomial(*coefficients):
    """A function made by a function, and a kernel around it."""
    c0, c1, c2 = coefficients

    @cuda.jit(device=True)
    def evaluate(x):
        return c0 + x * (c1 + x * c2)

    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        if i < x.shape[0]:
            out[i] = evaluate(x[i])

    return kernel


@case
def functions_made_by_functions(launch, rng):
    x = rng.normal(size=9)
    for coefficients in ((1.0, 2.0, 3.0), (0.5, 0.0, -1.0)):
        out = np.zeros(9)
        launch(polynomial(*coefficients), 2, THREADS, x, out)
        close(out, np.polynomial.polynomial.polyval(x, coefficients), rtol=1e-12)


class Physics:
    """Constants that kernels take from a closure."""

    gravity = 9.81
    steps = 4


def falling(physics, dt):
    gravity = physics.gravity
    half = 0.5 * gravity * dt * dt
    steps = physics.steps

    @cuda.jit
    def fall(height, speed):
        i = cuda.grid(1)
        if i >= height.size:
            return
        for _ in range(steps):
            height[i] -= speed[i] * dt + half
            speed[i] += dt * gravity
            if height[i] <= 0:
                height[i] = 0
                speed[i] = -speed[i]

    return fall


@case
def constants_of_closures(launch, rng):
    height, speed = rng.uniform(50, 60, 8), rng.uniform(0, 2, 8)
    h, v = height.copy(), speed.copy()
    launch(falling(Physics, 0.1), 2, THREADS, height, speed)
    close(height, h - 0.4 * v - 9.81 * 0.4**2 / 2, rtol=1e-10)
    close(speed, v + 0.4 * 9.81, rtol=1e-10)


@cuda.jit(fastmath=True, max_registers=32)
def with_options(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = math.sin(x[i]) ** 2 + math.cos(x[i]) ** 2


@case
def options_of_numba(launch, rng):
    x, out = rng.normal(size=7), np.zeros(7)
    launch(with_options, 2, THREADS, x, out)
    close(out, np.ones(7))


@cuda.jit
def all_of_math(x, out):
    i = cuda.grid(1)
    if i >= x.size:
        return
    v = x[i]
    out[i, 0] = math.exp(v) + math.log(v) + math.log10(v) + math.log2(v) + math.log1p(v) + math.expm1(v)
    out[i, 1] = math.sin(v) + math.cos(v) + math.tan(v) + math.asin(v / 4) + math.acos(v / 4) + math.atan(v)
    out[i, 2] = math.sinh(v) + math.cosh(v) + math.tanh(v) + math.asinh(v) + math.acosh(1 + v) + math.atanh(v / 4)
    out[i, 3] = math.erf(v) + math.erfc(v) + math.gamma(v) + math.lgamma(v) + math.atan2(v, 2.0) + math.hypot(v, 3.0)
    out[i, 4] = math.ceil(v) + math.floor(-v) + math.trunc(v) + math.fmod(v, 0.7) + math.copysign(v, -1.0)
    out[i, 4] += math.remainder(v, 0.7) - math.remainder(-2.5, v)
    out[i, 5] = math.pow(v, 1.5) + v**-2 + math.sqrt(v) + math.fabs(-v) + math.degrees(v) + math.radians(v)
    mantissa, exponent = math.frexp(v)
    fraction, whole = math.modf(v)
    out[i, 6] = mantissa + exponent + fraction * whole + math.ldexp(v, 3) + math.isnan(v) + math.isinf(v)
    out[i, 7] = abs(-v) + min(v, 1.0, 2.0) + max(v, 1.0) + round(v) + int(v) + math.pi * math.e


@case
def mathematics(launch, rng):
    x = rng.uniform(0.1, 3.9, 10)
    out = np.zeros((10, 8))
    launch(all_of_math, 2, THREADS, x, out)
    gamma, log_gamma = (np.vectorize(f)(x) for f in (math.gamma, math.lgamma))
    ieee = np.vectorize(math.remainder)
    columns = [
        np.exp(x) + np.log(x) + np.log10(x) + np.log2(x) + np.log1p(x) + np.expm1(x),
        np.sin(x) + np.cos(x) + np.tan(x) + np.pi / 2 + np.arctan(x),
        np.exp(x) + np.tanh(x) + np.arcsinh(x) + np.arccosh(1 + x) + np.arctanh(x / 4),
        1 + gamma + log_gamma + np.arctan2(x, 2) + np.hypot(x, 3),
        np.trunc(x) + np.fmod(x, 0.7) - x + ieee(x, 0.7) - ieee(-2.5, x),
        x**1.5 + x**-2.0 + np.sqrt(x) + x + np.degrees(x) + np.radians(x),
        sum(np.frexp(x)) + (x % 1) * np.trunc(x) + 8 * x,
        x + np.minimum(x, 1) + np.maximum(x, 1) + np.rint(x) + np.trunc(x) + np.pi * np.e,
    ]
    close(out, np.stack(columns, axis=1), rtol=1e-9)


@cuda.jit
def numpy_functions(x, out):
    i = cuda.grid(1)
    if i < x.size:
        v = x[i]
        out[i] = np.sqrt(np.abs(v)) + np.sin(v) * np.exp(-v) + np.minimum(v, np.float64(0.5)) + np.sign(v)


@case
def functions_of_numpy(launch, rng):
    x = rng.normal(size=10)
    out = np.zeros(10)
    launch(numpy_functions, 2, THREADS, x, out)
    close(out, np.sqrt(abs(x)) + np.sin(x) * np.exp(-x) + np.minimum(x, 0.5) + np.sign(x), rtol=1e-10)


@cuda.jit
def greatest_common_divisors(a, b, out):
    i = cuda.grid(1)
    if i < a.size:
        out[i, 0] = gcd(a[i], b[i])
        out[i, 1] = modular_power(a[i], b[i], 1009)


@cuda.jit(device=True)
def gcd(a, b):
    while b:
        a, b = b, a % b
    return a


@cuda.jit(device=True)
def modular_power(base, exponent, modulus):
    result = numba.int64(1)
    base %= modulus
    while exponent > 0:
        if exponent & 1:
            result = result * base % modulus
        exponent >>= 1
        base = base * base % modulus
    return result


@case
def whole_numbers(launch, rng):
    a, b = rng.integers(1, 500, (2, 12))
    out = np.zeros((12, 2), np.int64)
    launch(greatest_common_divisors, 3, THREADS, a, b, out)
    equal(out[:, 0], np.gcd(a, b))
    powers = [reduce(lambda p, _, x=int(x): p * x % 1009, range(y), 1) for x, y in zip(a, b, strict=True)]
    equal(out[:, 1], powers)
