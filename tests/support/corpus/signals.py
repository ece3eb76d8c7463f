"""Transforms and filters of signals."""

from __future__ import annotations

import cmath
import math

import numba
import numpy as np
from numba import cuda, float32, float64

from .cases import case, close, equal

N = 16
LOG_N = 4
TAPS = 5


@cuda.jit
def fft_radix_2(real, imag):
    """Cooley and Tukey in shared memory, half as many threads as samples, real and imaginary parts apart."""
    re = cuda.shared.array(N, float64)
    im = cuda.shared.array(N, float64)
    t, signal = cuda.threadIdx.x, cuda.blockIdx.x
    for half in range(2):
        i = t + half * (N // 2)
        reverse = 0
        for bit in range(LOG_N):
            reverse |= ((i >> bit) & 1) << (LOG_N - 1 - bit)
        re[reverse] = real[signal, i]
        im[reverse] = imag[signal, i]
    cuda.syncthreads()
    for stage in range(LOG_N):
        span = 1 << stage
        k = t & (span - 1)
        a = ((t >> stage) << (stage + 1)) + k
        b = a + span
        angle = -math.pi * k / span
        wr, wi = math.cos(angle), math.sin(angle)
        tr = wr * re[b] - wi * im[b]
        ti = wr * im[b] + wi * re[b]
        re[a], re[b] = re[a] + tr, re[a] - tr
        im[a], im[b] = im[a] + ti, im[a] - ti
        cuda.syncthreads()
    for i in range(t, N, N // 2):
        real[signal, i] = re[i]
        imag[signal, i] = im[i]


@case
def fast_fourier_transform(launch, rng):
    real, imag = rng.normal(size=(2, 3, N))
    expected = np.fft.fft(real + 1j * imag)
    launch(fft_radix_2, 3, N // 2, real, imag)
    close(real + 1j * imag, expected, rtol=1e-10)


@cuda.jit
def dft(signal, spectrum):
    """Directly, with complex numbers of Python's cmath."""
    k = cuda.grid(1)
    n = signal.shape[0]
    if k < n:
        total = 0j
        for t in range(n):
            total += signal[t] * cmath.exp(-2j * math.pi * k * t / n)
        spectrum[k] = total


@case
def discrete_fourier_transform(launch, rng):
    signal = rng.normal(size=13) + 1j * rng.normal(size=13)
    spectrum = np.zeros(13, np.complex128)
    launch(dft, 2, 8, signal, spectrum)
    close(spectrum, np.fft.fft(signal), rtol=1e-9)


@cuda.jit
def fir(signal, taps, out):
    """A filter over a stream in pieces: the tail of the last piece is kept in shared memory."""
    piece = cuda.shared.array(N + TAPS - 1, float32)
    t = cuda.threadIdx.x
    if t < TAPS - 1:
        piece[t] = 0
    for start in range(0, signal.shape[0], N):
        cuda.syncthreads()
        piece[TAPS - 1 + t] = signal[start + t]
        cuda.syncthreads()
        total = float32(0)
        for k in range(TAPS):
            total += taps[k] * piece[TAPS - 1 + t - k]
        out[start + t] = total
        tail = float32(0)
        if t < TAPS - 1:
            tail = piece[N + t]
        cuda.syncthreads()
        if t < TAPS - 1:
            piece[t] = tail


@case
def filter_of_a_stream(launch, rng):
    signal, taps = rng.integers(-9, 9, 3 * N).astype(np.float32), rng.integers(-3, 4, TAPS).astype(np.float32)
    out = np.zeros_like(signal)
    launch(fir, 1, N, signal, taps, out)
    equal(out, np.convolve(signal, taps)[: len(signal)])


@cuda.jit
def haar(signal, levels):
    """Wavelets: the averages move to the front, level after level."""
    i = cuda.threadIdx.x
    length = signal.shape[0]
    for _ in range(levels):
        half = length // 2
        low = high = 0.0
        if i < half:
            low = 0.5 * (signal[2 * i] + signal[2 * i + 1])
            high = 0.5 * (signal[2 * i] - signal[2 * i + 1])
        cuda.syncthreads()
        if i < half:
            signal[i] = low
            signal[half + i] = high
        cuda.syncthreads()
        length = half


@case
def wavelets(launch, rng):
    signal = rng.normal(size=N)
    expected, length = signal.copy(), N
    for _ in range(3):
        pairs = expected[:length].reshape(-1, 2)
        expected[:length] = np.concatenate([pairs.mean(axis=1), (pairs[:, 0] - pairs[:, 1]) / 2])
        length //= 2
    launch(haar, 1, N // 2, signal, 3)
    close(signal, expected, rtol=1e-12)


@cuda.jit
def walsh_hadamard(values):
    """Butterflies with their partner by exclusive or; every thread writes its own element only."""
    shared = cuda.shared.array(N, numba.int32)
    i = cuda.threadIdx.x
    shared[i] = values[i]
    cuda.syncthreads()
    bit = 1
    while bit < N:
        mine, other = shared[i], shared[i ^ bit]
        cuda.syncthreads()
        shared[i] = other - mine if i & bit else mine + other
        cuda.syncthreads()
        bit <<= 1
    values[i] = shared[i]


@case
def hadamard_transform(launch, rng):
    values = rng.integers(-9, 9, N).astype(np.int32)
    matrix = np.array([[1]])
    for _ in range(LOG_N):
        matrix = np.kron(matrix, [[1, 1], [1, -1]])
    expected = matrix @ values
    launch(walsh_hadamard, 1, N, values)
    equal(values, expected)


@cuda.jit
def biquads(signals, coefficients, out):
    """Recursive filters have no parallel time: a channel per thread, sections in local memory."""
    channel = cuda.grid(1)
    if channel >= signals.shape[1]:
        return
    state = cuda.local.array((2, 2), float64)
    for section in range(2):
        for k in range(2):
            state[section, k] = 0.0
    for t in range(signals.shape[0]):
        x = signals[t, channel]
        for section in range(2):
            b0, b1, b2, a1, a2 = (
                coefficients[section, 0],
                coefficients[section, 1],
                coefficients[section, 2],
                coefficients[section, 3],
                coefficients[section, 4],
            )
            y = b0 * x + state[section, 0]
            state[section, 0] = b1 * x - a1 * y + state[section, 1]
            state[section, 1] = b2 * x - a2 * y
            x = y
        out[t, channel] = x


@case
def recursive_filters(launch, rng):
    signals, coefficients = rng.normal(size=(12, 5)), rng.uniform(-0.4, 0.4, (2, 5))
    out = np.zeros_like(signals)
    launch(biquads, 1, 8, signals, coefficients, out)
    x = signals
    for b0, b1, b2, a1, a2 in coefficients:
        y = np.zeros((14, 5))
        padded = np.concatenate([np.zeros((2, 5)), x])
        for t in range(2, 14):
            y[t] = b0 * padded[t] + b1 * padded[t - 1] + b2 * padded[t - 2] - a1 * y[t - 1] - a2 * y[t - 2]
        x = y[2:]
    close(out, x, rtol=1e-9)


@cuda.jit
def crossings(signal, out):
    """Sign changes: an atomic counter and the lowest index."""
    i = cuda.grid(1)
    if i + 1 < signal.size and (signal[i] < 0) != (signal[i + 1] < 0):
        cuda.atomic.add(out, 0, 1)
        cuda.atomic.min(out, 1, i)
        cuda.atomic.max(out, 2, i)


@case
def zero_crossings(launch, rng):
    signal = rng.normal(size=40)
    out = np.array([0, 99, -1], np.int32)
    launch(crossings, 3, N, signal, out)
    where = np.flatnonzero(np.diff(np.signbit(signal)))
    equal(out, [len(where), where[0], where[-1]])


@cuda.jit
def cross_correlation(a, b, out, lags):
    """A block per lag, a tree over time."""
    partial = cuda.shared.array(N, float64)
    lag, t = cuda.blockIdx.x - lags, cuda.threadIdx.x
    total = 0.0
    for i in range(t, a.size, N):
        j = i + lag
        if 0 <= j < b.size:
            total += a[i] * b[j]
    partial[t] = total
    for shift in range(LOG_N - 1, -1, -1):
        cuda.syncthreads()
        if t < (1 << shift):
            partial[t] += partial[t + (1 << shift)]
    if t == 0:
        out[cuda.blockIdx.x] = partial[0]


@case
def correlation_by_lag(launch, rng):
    a, b = rng.normal(size=(2, 30))
    out = np.zeros(9)
    launch(cross_correlation, 9, N, a, b, out, 4)
    close(out, np.correlate(b, a, "full")[29 - 4 : 29 + 5], rtol=1e-10)
