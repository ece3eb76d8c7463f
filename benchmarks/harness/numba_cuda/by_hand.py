"""The computations of ``programs.py`` as one writes them for a CPU, compiled with ``njit(parallel=True)``."""

from __future__ import annotations

import math

import numpy as np
from numba import get_num_threads, njit, prange

from harness.numba_cuda.programs import BINS, SOFTENING, cumulative_normal


@njit(parallel=True, error_model="numpy")
def saxpy(a, x, y):
    """Add ``a * x`` to ``y``."""
    for i in prange(y.size):
        y[i] += a * x[i]
    return y


@njit(parallel=True, error_model="numpy")
def reduction(x):
    """Return the sum of ``x``."""
    total = np.float32(0)
    for i in prange(x.size):
        total += x[i]
    return total


@njit(parallel=True, error_model="numpy")
def product(a, b, c):
    """Multiply matrices row by row."""
    for i in prange(c.shape[0]):
        c[i, :] = 0
        for k in range(a.shape[1]):
            factor = a[i, k]
            for j in range(c.shape[1]):
                c[i, j] += factor * b[k, j]
    return c


@njit(parallel=True, error_model="numpy")
def laplace(old, new):
    """Run one Jacobi iteration for Laplace's equation."""
    for j in prange(1, old.shape[0] - 1):
        for i in range(1, old.shape[1] - 1):
            new[j, i] = 0.25 * (old[j, i - 1] + old[j, i + 1] + old[j - 1, i] + old[j + 1, i])
    return new


_cumulative_normal = njit(cumulative_normal.py_func)


@njit(parallel=True, error_model="numpy")
def black_scholes(call, put, price, strike, years, rate, volatility):
    """Price European options (Black and Scholes, 1973)."""
    for i in prange(price.size):
        root = math.sqrt(years[i])
        d1 = (math.log(price[i] / strike[i]) + (rate + 0.5 * volatility * volatility) * years[i]) / (volatility * root)
        d2 = d1 - volatility * root
        discount = math.exp(-rate * years[i])
        call[i] = price[i] * _cumulative_normal(d1) - strike[i] * discount * _cumulative_normal(d2)
        put[i] = strike[i] * discount * _cumulative_normal(-d2) - price[i] * _cumulative_normal(-d1)
    return np.stack((call, put))


@njit(parallel=True, error_model="numpy")
def histogram(values, low, high, counts):
    """Count values by bins, for each thread and then for all."""
    threads = get_num_threads()
    own = np.zeros((threads, BINS), np.int32)
    width = (high - low) / BINS
    size = (values.size + threads - 1) // threads
    for thread in prange(threads):
        for i in range(thread * size, min((thread + 1) * size, values.size)):
            bin_ = int((values[i] - low) / width)
            if 0 <= bin_ < BINS:
                own[thread, bin_] += 1
    counts[:] = own.sum(0)
    return counts


@njit(parallel=True, error_model="numpy")
def scan(x, out):
    """Compute the inclusive prefix sums in two passes over one part for each thread."""
    threads = get_num_threads()
    size = (x.size + threads - 1) // threads
    sums = np.zeros(threads)
    for thread in prange(threads):
        total = 0.0
        for i in range(thread * size, min((thread + 1) * size, x.size)):
            total += x[i]
        sums[thread] = total
    for thread in prange(threads):
        total = sums[:thread].sum()
        for i in range(thread * size, min((thread + 1) * size, x.size)):
            total += x[i]
            out[i] = total
    return out


@njit(parallel=True, error_model="numpy")
def n_body(position, mass, acceleration):
    """Compute the gravity of all bodies on each."""
    for i in prange(mass.size):
        px, py, pz = position[i, 0], position[i, 1], position[i, 2]
        ax, ay, az = np.float32(0), np.float32(0), np.float32(0)
        for j in range(mass.size):
            dx, dy, dz = position[j, 0] - px, position[j, 1] - py, position[j, 2] - pz
            inverse = np.float32(1) / math.sqrt(dx * dx + dy * dy + dz * dz + SOFTENING)
            pull = mass[j] * inverse * inverse * inverse
            ax += dx * pull
            ay += dy * pull
            az += dz * pull
        acceleration[i, 0], acceleration[i, 1], acceleration[i, 2] = ax, ay, az
    return acceleration
