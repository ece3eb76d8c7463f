"""Prices, and simulations with random numbers of all kinds."""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32, float64, int32, uint32

from .cases import case, close, equal

RSQRT2PI = 0.39894228040143267793994605993438
STEPS = 12
A1, A2, A3, A4, A5 = 0.31938153, -0.356563782, 1.781477937, -1.821255978, 1.330274429


@cuda.jit(device=True)
def cnd(d):
    k = 1.0 / (1.0 + 0.2316419 * math.fabs(d))
    ret = RSQRT2PI * math.exp(-0.5 * d * d) * (k * (A1 + k * (A2 + k * (A3 + k * (A4 + k * A5)))))
    if d > 0:
        ret = 1.0 - ret
    return ret


@cuda.jit
def black_scholes(call, put, price, strike, years, rate, volatility):
    i = cuda.threadIdx.x + cuda.blockIdx.x * cuda.blockDim.x
    if i >= price.shape[0]:
        return
    root = math.sqrt(years[i])
    d1 = (math.log(price[i] / strike[i]) + (rate + 0.5 * volatility * volatility) * years[i]) / (volatility * root)
    d2 = d1 - volatility * root
    discount = math.exp(-1.0 * rate * years[i])
    call[i] = price[i] * cnd(d1) - strike[i] * discount * cnd(d2)
    put[i] = strike[i] * discount * (1.0 - cnd(d2)) - price[i] * (1.0 - cnd(d1))


@case
def options_in_closed_form(launch, rng):
    price, strike, years = rng.uniform(5, 30, 20), rng.uniform(1, 100, 20), rng.uniform(0.25, 10, 20)
    call, put = np.zeros(20), np.zeros(20)
    launch(black_scholes, 2, 16, call, put, price, strike, years, 0.02, 0.3)
    d1 = (np.log(price / strike) + (0.02 + 0.045) * years) / (0.3 * np.sqrt(years))

    def normal(x):
        return np.array([math.erf(value / math.sqrt(2)) for value in x]) / 2 + 0.5

    discounted = strike * np.exp(-0.02 * years)
    expected = price * normal(d1) - discounted * normal(d1 - 0.3 * np.sqrt(years))
    close(call, expected, rtol=1e-3, atol=1e-4)
    close(call - put, price - discounted, rtol=1e-6)


@cuda.jit
def binomial_tree(spot, strike, up, probability, discount, out):
    """An American put: a block per option, a level of the tree between barriers."""
    values = cuda.shared.array(STEPS + 1, float64)
    j, option = cuda.threadIdx.x, cuda.blockIdx.x
    s, k = spot[option], strike[option]
    values[j] = max(k - s * up ** (2 * j - STEPS), 0.0)
    cuda.syncthreads()
    for level in range(STEPS - 1, -1, -1):
        value = 0.0
        if j <= level:
            held = discount * (probability * values[j + 1] + (1.0 - probability) * values[j])
            value = max(held, k - s * up ** (2 * j - level))
        cuda.syncthreads()
        if j <= level:
            values[j] = value
        cuda.syncthreads()
    if j == 0:
        out[option] = values[0]


@case
def american_options_on_a_tree(launch, rng):
    spot, strike = rng.uniform(80, 120, 3), np.full(3, 100.0)
    up, discount = 1.05, 0.999
    probability = (1 / discount - 1 / up) / (up - 1 / up)
    out = np.zeros(3)
    launch(binomial_tree, 3, STEPS + 1, spot, strike, up, probability, discount, out)
    for s, found in zip(spot, out, strict=True):
        values = np.maximum(100 - s * up ** np.arange(-STEPS, STEPS + 1, 2.0), 0)
        for level in range(STEPS, 0, -1):
            values = discount * (probability * values[1:] + (1 - probability) * values[:-1])
            values = np.maximum(values, 100 - s * up ** np.arange(1 - level, level, 2.0))
        close(found, values[0], rtol=1e-10)


@cuda.jit(device=True)
def xorshift(state, i):
    x = state[i]
    x = uint32(x ^ (x << uint32(13)))
    x = uint32(x ^ (x >> uint32(17)))
    x = uint32(x ^ (x << uint32(5)))
    state[i] = x
    return x


@cuda.jit
def pi_by_chance(state, inside, samples):
    """A generator written by hand, with its state in memory."""
    hits = cuda.shared.array(1, int32)
    i = cuda.grid(1)
    if cuda.threadIdx.x == 0:
        hits[0] = 0
    cuda.syncthreads()
    mine = 0
    for _ in range(samples):
        x = np.float32(xorshift(state, i) >> uint32(8)) / np.float32(16777216)
        y = np.float32(xorshift(state, i) >> uint32(8)) / np.float32(16777216)
        if x * x + y * y < 1:
            mine += 1
    cuda.atomic.add(hits, 0, mine)
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        inside[cuda.blockIdx.x] = hits[0]


@case
def pi_with_xorshift(launch, rng):
    state = rng.integers(1, 2**32, 16, dtype=np.uint32)
    x = [int(s) for s in state]
    points = []
    for _ in range(2 * 10):
        for i in range(16):
            x[i] ^= x[i] << 13 & 0xFFFFFFFF
            x[i] ^= x[i] >> 17
            x[i] ^= x[i] << 5 & 0xFFFFFFFF
        points.append([(value >> 8) / 2**24 for value in x])
    pairs = np.float32(points).reshape(10, 2, 16)
    hits = ((pairs**2).sum(axis=1) < 1).sum(axis=0)
    inside = np.zeros(2, np.int32)
    launch(pi_by_chance, 2, 8, state, inside, 10)
    equal(state, np.array(x, np.uint32))
    equal(inside, hits.reshape(2, 8).sum(axis=1))


@cuda.jit
def geometric_brownian(normals, drift, diffusion, start, paths, mean):
    """A path per thread; all paths are averaged for each point of time without leaving the block."""
    now = cuda.shared.array(8, float64)
    path = cuda.threadIdx.x
    price = start
    for t in range(normals.shape[0]):
        price *= math.exp(drift + diffusion * normals[t, path])
        paths[t, path] = price
        now[path] = price
        cuda.syncthreads()
        if path == t % 8:
            total = 0.0
            for other in range(8):
                total += now[other]
            mean[t] = total / 8
        cuda.syncthreads()


@case
def paths_of_prices(launch, rng):
    normals = rng.normal(size=(9, 8))
    paths, mean = np.zeros((9, 8)), np.zeros(9)
    launch(geometric_brownian, 1, 8, normals, 0.01, 0.2, 100.0, paths, mean)
    expected = 100 * np.exp((0.01 + 0.2 * normals).cumsum(axis=0))
    close(paths, expected, rtol=1e-10)
    close(mean, expected.mean(axis=1), rtol=1e-10)


@cuda.jit
def halton(out, base_x, base_y):
    i = cuda.grid(1)
    if i < out.shape[0]:
        out[i, 0] = radical_inverse(i + 1, base_x)
        out[i, 1] = radical_inverse(i + 1, base=base_y)


@cuda.jit(device=True)
def radical_inverse(n, base=2):
    result, fraction = float32(0), float32(1) / float32(base)
    while n > 0:
        n, digit = n // base, n % base
        result += float32(digit) * fraction
        fraction /= float32(base)
    return result


@case
def low_discrepancy(launch, rng):
    out = np.zeros((12, 2), np.float32)
    launch(halton, 2, 8, out, 2, 3)
    close(out[:7, 0], [1 / 2, 1 / 4, 3 / 4, 1 / 8, 5 / 8, 3 / 8, 7 / 8])
    close(out[:8, 1], [1 / 3, 2 / 3, 1 / 9, 4 / 9, 7 / 9, 2 / 9, 5 / 9, 8 / 9])


@cuda.jit
def implied_volatility(target, forward, strike, out):
    """Newton's iteration that each thread leaves when it is done, with bisection as a way out."""
    i = cuda.grid(1)
    if i >= target.size:
        return
    low, high = 1e-4, 5.0
    sigma = 0.4
    for _ in range(60):
        d1 = math.log(forward / strike[i]) / sigma + sigma / 2
        value = forward * phi(d1) - strike[i] * phi(d1 - sigma)
        error = value - target[i]
        if math.fabs(error) < 1e-11:
            break
        if error > 0:
            high = sigma
        else:
            low = sigma
        vega = forward * math.exp(-d1 * d1 / 2) * RSQRT2PI
        sigma = sigma - error / vega if vega > 1e-9 else 0.5 * (low + high)
        if not low < sigma < high:
            sigma = 0.5 * (low + high)
    else:
        sigma = math.nan
    out[i] = sigma


@cuda.jit(device=True)
def phi(x):
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


@case
def root_finding(launch, rng):
    sigma, strike = rng.uniform(0.1, 0.9, 10), rng.uniform(80, 125, 10)
    d1 = np.log(100 / strike) / sigma + sigma / 2
    normal = np.vectorize(lambda x: math.erf(x / math.sqrt(2)) / 2 + 0.5)
    out = np.zeros(10)
    launch(implied_volatility, 2, 6, 100 * normal(d1) - strike * normal(d1 - sigma), 100.0, strike, out)
    close(out, sigma, rtol=1e-6)
