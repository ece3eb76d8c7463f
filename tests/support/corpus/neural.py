"""Layers of neural networks."""

from __future__ import annotations

import math

import numba
import numpy as np
from numba import cuda, float32, float64, int32

from .cases import case, close, equal

WIDTH = 16
HEAD = 4
ZERO, ONE = np.float32(0), np.float32(1)


@cuda.jit(device=True)
def block_max(value, scratch):
    i = cuda.threadIdx.x
    scratch[i] = value
    cuda.syncthreads()
    s = WIDTH // 2
    while s >= 1:
        if i < s:
            scratch[i] = max(scratch[i], scratch[i + s])
        cuda.syncthreads()
        s = s // 2
    result = scratch[0]
    cuda.syncthreads()
    return result


@cuda.jit(device=True)
def block_sum(value, scratch):
    i = cuda.threadIdx.x
    scratch[i] = value
    cuda.syncthreads()
    s = WIDTH // 2
    while s >= 1:
        if i < s:
            scratch[i] += scratch[i + s]
        cuda.syncthreads()
        s = s // 2
    result = scratch[0]
    cuda.syncthreads()
    return result


@cuda.jit
def softmax(logits, out):
    """A row per block; rows are longer than blocks."""
    scratch = cuda.shared.array(WIDTH, float32)
    row, t = cuda.blockIdx.x, cuda.threadIdx.x
    highest = float32(-math.inf)
    for c in range(t, logits.shape[1], WIDTH):
        highest = max(highest, logits[row, c])
    highest = block_max(highest, scratch)
    total = ZERO
    for c in range(t, logits.shape[1], WIDTH):
        e = math.exp(logits[row, c] - highest)
        out[row, c] = e
        total += e
    total = block_sum(total, scratch)
    for c in range(t, logits.shape[1], WIDTH):
        out[row, c] /= total


@case
def softmax_of_rows(launch, rng):
    logits = rng.normal(0, 3, (3, 21)).astype(np.float32)
    out = np.zeros_like(logits)
    launch(softmax, 3, WIDTH, logits, out)
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    close(out, e / e.sum(axis=1, keepdims=True))


@cuda.jit
def layer_norm(x, gain, bias, out, eps):
    scratch = cuda.shared.array(WIDTH, float32)
    row, t = cuda.blockIdx.x, cuda.threadIdx.x
    mean = block_sum(x[row, t], scratch) / float32(WIDTH)
    centred = x[row, t] - mean
    variance = block_sum(centred * centred, scratch) / float32(WIDTH)
    out[row, t] = centred / math.sqrt(variance + eps) * gain[t] + bias[t]


@case
def normalisation_of_layers(launch, rng):
    x = rng.normal(size=(4, WIDTH)).astype(np.float32)
    gain, bias = rng.normal(size=(2, WIDTH)).astype(np.float32)
    out = np.zeros_like(x)
    launch(layer_norm, 4, WIDTH, x, gain, bias, out, np.float32(1e-5))
    close(out, (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * gain + bias, atol=1e-4)


@cuda.jit
def attention(q, k, v, out, scale):
    """Tiles of keys and values in shared memory; running maximum and sum; a query per thread; causal."""
    keys = cuda.shared.array((HEAD, HEAD), float64)
    values = cuda.shared.array((HEAD, HEAD), float64)
    acc = cuda.local.array(HEAD, float64)
    query, t = cuda.grid(1), cuda.threadIdx.x
    n = q.shape[0]
    peak, norm = -math.inf, 0.0
    for d in range(HEAD):
        acc[d] = 0.0
    for start in range(0, n, HEAD):
        for d in range(HEAD):
            inside = start + t < n
            keys[t, d] = k[start + t, d] if inside else 0.0
            values[t, d] = v[start + t, d] if inside else 0.0
        cuda.syncthreads()
        if query < n:
            for j in range(HEAD):
                if start + j > query:
                    break
                score = 0.0
                for d in range(HEAD):
                    score += q[query, d] * keys[j, d]
                score *= scale
                higher = max(peak, score)
                old, new = math.exp(peak - higher), math.exp(score - higher)
                norm = norm * old + new
                for d in range(HEAD):
                    acc[d] = acc[d] * old + new * values[j, d]
                peak = higher
        cuda.syncthreads()
    if query < n:
        for d in range(HEAD):
            out[query, d] = acc[d] / norm


@case
def causal_attention(launch, rng):
    q, k, v = rng.normal(size=(3, 10, HEAD))
    out = np.zeros((10, HEAD))
    launch(attention, 3, HEAD, q, k, v, out, 0.5)
    weights = np.tril(np.exp(0.5 * q @ k.T))
    close(out, weights / weights.sum(axis=1, keepdims=True) @ v, rtol=1e-9)


def make_activation(kind):
    """Kernels are made for each kind; the branch on it is known when they are compiled."""

    @cuda.jit
    def dense(x, weights, bias, out):
        row, unit = cuda.grid(2)
        if row >= out.shape[0] or unit >= out.shape[1]:
            return
        total = bias[unit]
        for k in range(x.shape[1]):
            total += x[row, k] * weights[k, unit]
        if kind == 0:
            out[row, unit] = max(ZERO, total)
        elif kind == 1:
            out[row, unit] = math.tanh(total)
        else:
            out[row, unit] = ONE / (ONE + math.exp(-total))

    return dense


relu_layer, tanh_layer, sigmoid_layer = (make_activation(kind) for kind in range(3))


@case
def layers_with_activations(launch, rng):
    x = rng.normal(size=(5, 4)).astype(np.float32)
    sizes = [(4, 6), (6, 5), (5, 2)]
    weights = [rng.normal(size=size).astype(np.float32) for size in sizes]
    biases = [rng.normal(size=size[1]).astype(np.float32) for size in sizes]
    expected = x.astype(np.float64)
    functions = [lambda y: np.maximum(y, 0), np.tanh, lambda y: 1 / (1 + np.exp(-y))]
    for kernel, w, b, function in zip((relu_layer, tanh_layer, sigmoid_layer), weights, biases, functions, strict=True):
        out = np.zeros((5, w.shape[1]), np.float32)
        launch(kernel, (2, 3), (4, 2), x, w, b, out)
        x, expected = out, function(expected @ w + b)
    close(x, expected, rtol=1e-3)


@cuda.jit
def convolution_layer(images, filters, out, stride):
    """Filters in shared memory; a block per image and filter; a position per thread."""
    taps = cuda.shared.array((2, 3, 3), float32)
    n, f = cuda.blockIdx.x, cuda.blockIdx.y
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    for c in range(2):
        if tx < 3 and ty < 3:
            taps[c, ty, tx] = filters[f, c, ty, tx]
    cuda.syncthreads()
    if ty >= out.shape[2] or tx >= out.shape[3]:
        return
    total = ZERO
    for c in range(2):
        for i in range(3):
            for j in range(3):
                total += taps[c, i, j] * images[n, c, ty * stride + i, tx * stride + j]
    out[n, f, ty, tx] = total


@case
def convolutions_of_a_batch(launch, rng):
    images = rng.integers(-4, 5, (2, 2, 9, 7)).astype(np.float32)
    filters = rng.integers(-2, 3, (3, 2, 3, 3)).astype(np.float32)
    out = np.zeros((2, 3, 4, 3), np.float32)
    launch(convolution_layer, (2, 3), (4, 4), images, filters, out, 2)
    windows = np.lib.stride_tricks.sliding_window_view(images, (3, 3), axis=(2, 3))[:, :, ::2, ::2]
    equal(out, np.einsum("nchwij,fcij->nfhw", windows, filters))


@cuda.jit
def max_pool(x, out, places):
    """A grid of three dimensions; the channel is z."""
    j, i, c = cuda.grid(3)
    if c >= out.shape[0] or i >= out.shape[1] or j >= out.shape[2]:
        return
    window = x[c, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
    best, place = window[0, 0], 0
    for k in range(1, 4):
        if window[k // 2, k % 2] > best:
            best, place = window[k // 2, k % 2], k
    out[c, i, j] = best
    places[c, i, j] = place


@case
def pooling(launch, rng):
    x = rng.normal(size=(3, 6, 10)).astype(np.float32)
    out, places = np.zeros((3, 3, 5), np.float32), np.zeros((3, 3, 5), np.int8)
    launch(max_pool, (2, 2, 2), (3, 2, 2), x, out, places)
    windows = x.reshape(3, 3, 2, 5, 2).swapaxes(2, 3).reshape(3, 3, 5, 4)
    equal(out, windows.max(axis=3))
    equal(places, windows.argmax(axis=3))


@cuda.jit
def adam(parameters, gradients, first, second, step, rate):
    i = cuda.grid(1)
    if i < parameters.size:
        g = gradients[i]
        first[i] = np.float32(0.9) * first[i] + np.float32(0.1) * g
        second[i] = np.float32(0.999) * second[i] + np.float32(0.001) * g * g
        m = first[i] / (ONE - np.float32(0.9) ** step)
        v = second[i] / (ONE - np.float32(0.999) ** step)
        parameters[i] -= rate * m / (math.sqrt(v) + np.float32(1e-8))


@case
def steps_of_an_optimizer(launch, rng):
    parameters = rng.normal(size=20).astype(np.float32)
    first, second = np.zeros((2, 20), np.float32)
    expected = parameters.astype(np.float64)
    m = v = np.zeros(20)
    for step in (1, 2, 3):
        gradients = rng.normal(size=20).astype(np.float32)
        launch(adam, 2, 16, parameters, gradients, first, second, np.int32(step), np.float32(0.1))
        m, v = 0.9 * m + 0.1 * gradients, 0.999 * v + 0.001 * gradients**2.0
        expected = expected - 0.1 * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    close(parameters, expected, rtol=2e-3, atol=1e-3)


@cuda.jit
def embed_and_pool(tokens, lengths, table, out):
    """Ragged rows: each block averages as many embeddings as its row has."""
    row, d = cuda.blockIdx.x, cuda.threadIdx.x
    n = lengths[row]
    if n == 0:
        out[row, d] = 0
        return
    total = 0.0
    for k in range(n):
        total += table[tokens[row, k]][d]
    out[row, d] = total / n


@case
def mean_of_embeddings(launch, rng):
    tokens, lengths = rng.integers(0, 7, (4, 5)), np.array([3, 0, 5, 1])
    table, out = rng.normal(size=(7, 6)), np.ones((4, 6))
    launch(embed_and_pool, 4, 6, tokens, lengths, table, out)
    for row, n in enumerate(lengths):
        close(out[row], table[tokens[row, :n]].mean(axis=0) if n else 0)


@cuda.jit
def generalised_advantages(rewards, values, done, out, gamma, lam):
    """Backwards in time, a replica per thread."""
    env = cuda.grid(1)
    if env >= rewards.shape[1]:
        return
    running = np.float32(0)
    for t in range(rewards.shape[0] - 1, -1, -1):
        alive = ZERO if done[t, env] else ONE
        delta = rewards[t, env] + gamma * values[t + 1, env] * alive - values[t, env]
        running = delta + gamma * lam * alive * running
        out[t, env] = running


@case
def advantages(launch, rng):
    rewards, done = rng.normal(size=(8, 5)).astype(np.float32), rng.random((8, 5)) < 0.2
    values, out = rng.normal(size=(9, 5)).astype(np.float32), np.zeros((8, 5), np.float32)
    launch(generalised_advantages, 2, 4, rewards, values, done, out, np.float32(0.9), np.float32(0.8))
    deltas = rewards + 0.9 * values[1:] * ~done - values[:-1]
    for t, env in np.ndindex(8, 5):  # the sum that the recursion stands for
        weights = 0.72 ** np.arange(8 - t) * np.concatenate([[1], np.cumprod(~done[t:-1, env])])
        close(out[t, env], (weights * deltas[t:, env]).sum(), rtol=1e-3, atol=1e-4)


@cuda.jit
def sample_categorical(logits, uniforms, actions):
    """Gumbel's trick without the trick: a cumulative sum and the place where it passes a number."""
    agent, env = cuda.threadIdx.x, cuda.blockIdx.x
    cumulative = cuda.local.array(5, numba.float32)
    total = ZERO
    for a in range(5):
        total += math.exp(logits[env, agent, a])
        cumulative[a] = total
    threshold = uniforms[env, agent] * total
    choice = int32(0)
    while choice < 4 and cumulative[choice] <= threshold:
        choice += 1
    actions[env, agent] = choice


@case
def sampling_of_actions(launch, rng):
    logits, uniforms = rng.normal(size=(3, 4, 5)).astype(np.float32), rng.random((3, 4)).astype(np.float32)
    actions = np.zeros((3, 4), np.int32)
    launch(sample_categorical, 3, 4, logits, uniforms, actions)
    cumulative = np.exp(logits).cumsum(axis=2)
    equal(actions, (cumulative <= (uniforms * cumulative[..., -1])[..., None]).sum(axis=2))
