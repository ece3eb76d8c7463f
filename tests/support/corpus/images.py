"""Convolutions, filters and other work on images."""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32, int32, uint8

from .cases import case, close, equal

R = 1
SIDE = 8
SOBEL = np.array([[1, 0, -1], [2, 0, -2], [1, 0, -1]], np.int32)
LUMA = (0.299, 0.587, 0.114)


@cuda.jit
def convolve(image, mask, result):
    """The well-known one: bounds are checked for every tap."""
    i, j = cuda.grid(2)
    image_rows, image_cols = image.shape
    if (i >= image_rows) or (j >= image_cols):
        return
    delta_rows = mask.shape[0] // 2
    delta_cols = mask.shape[1] // 2
    s = 0
    for k in range(mask.shape[0]):
        for l in range(mask.shape[1]):
            i_k = i - k + delta_rows
            j_l = j - l + delta_cols
            if (i_k >= 0) and (i_k < image_rows) and (j_l >= 0) and (j_l < image_cols):
                s += mask[k, l] * image[i_k, j_l]
    result[i, j] = s


@case
def convolution(launch, rng):
    image, mask = rng.integers(0, 9, (10, 7)), rng.integers(-3, 4, (3, 5))
    result = np.zeros_like(image)
    launch(convolve, (3, 2), (4, 4), image, mask, result)
    padded = np.pad(image, ((1, 1), (2, 2)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 5))
    equal(result, (windows * mask[::-1, ::-1]).sum(axis=(2, 3)))


@cuda.jit
def blur_rows(image, weights, out):
    """Half of a separable filter: a row per block, the halo clamped to the border."""
    line = cuda.shared.array(SIDE + 4, float32)
    x, t, y = cuda.grid(1), cuda.threadIdx.x, cuda.blockIdx.y
    w = image.shape[1]
    line[t + 2] = image[y, min(x, w - 1)]
    if t < 2:
        line[t] = image[y, max(x - 2, 0)]
    elif t >= SIDE - 2:
        line[t + 4] = image[y, min(x + 2, w - 1)]
    cuda.syncthreads()
    if x < w:
        total = float32(0)
        for k in range(5):
            total += weights[k] * line[t + k]
        out[y, x] = total


@case
def separable_filter(launch, rng):
    image = rng.integers(0, 9, (5, 13)).astype(np.float32)
    weights = np.array([1, 4, 6, 4, 1], np.float32) / 16
    half, whole = np.zeros_like(image), np.zeros_like(image)
    launch(blur_rows, (2, 5), SIDE, image, weights, half)
    transposed = np.ascontiguousarray(half.T)
    turned = np.zeros_like(transposed)
    launch(blur_rows, (1, 13), SIDE, transposed, weights, turned)
    whole[...] = turned.T
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(image, 2, mode="edge"), (5, 5))
    close(whole, (windows * np.outer(weights, weights)).sum(axis=(2, 3)))


@cuda.jit
def sobel_tile(image, magnitude):
    """A mask that is a constant of the module; the halo is loaded by a loop over the tile."""
    tile = cuda.shared.array((SIDE + 2, SIDE + 2), int32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    h, w = image.shape
    linear = ty * SIDE + tx
    for index in range(linear, (SIDE + 2) * (SIDE + 2), SIDE * SIDE):
        row, column = index // (SIDE + 2), index % (SIDE + 2)
        y = cuda.blockIdx.y * SIDE + row - 1
        x = cuda.blockIdx.x * SIDE + column - 1
        tile[row, column] = image[y, x] if 0 <= y < h and 0 <= x < w else 0
    cuda.syncthreads()
    x, y = cuda.grid(2)
    if x < w and y < h:
        gx = gy = 0
        for i in range(3):
            for j in range(3):
                gx += SOBEL[i, j] * tile[ty + i, tx + j]
                gy += SOBEL[j, i] * tile[ty + i, tx + j]
        magnitude[y, x] = gx * gx + gy * gy


@case
def edges(launch, rng):
    image = rng.integers(0, 200, (9, 12)).astype(np.uint8)
    magnitude = np.zeros((9, 12), np.int64)
    launch(sobel_tile, (2, 2), (SIDE, SIDE), image, magnitude)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(image.astype(np.int64), 1), (3, 3))
    gx, gy = (windows * SOBEL).sum(axis=(2, 3)), (windows * SOBEL.T).sum(axis=(2, 3))
    equal(magnitude, gx**2 + gy**2)


@cuda.jit
def median3(image, out):
    """Nine values in local memory, sorted as far as needed."""
    x, y = cuda.grid(2)
    if x < 1 or y < 1 or x >= image.shape[0] - 1 or y >= image.shape[1] - 1:
        return
    window = cuda.local.array(9, dtype=uint8)
    n = 0
    for dx in (-1, 0, 1):
        for dy in (-1, 0, 1):
            window[n] = image[x + dx, y + dy]
            n += 1
    for i in range(5):
        for j in range(i + 1, 9):
            if window[j] < window[i]:
                window[i], window[j] = window[j], window[i]
    out[x, y] = window[4]


@case
def median_filter(launch, rng):
    image = rng.integers(0, 256, (7, 8)).astype(np.uint8)
    out = image.copy()
    launch(median3, (2, 2), (4, 4), image, out)
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3))
    equal(out[1:-1, 1:-1], np.median(windows, axis=(2, 3)))
    equal(out[0], image[0])


@cuda.jit
def grey(rgb, out):
    """Channels last; a tuple of the module as weights."""
    y, x = cuda.grid(2)
    if y < rgb.shape[0] and x < rgb.shape[1]:
        value = LUMA[0] * rgb[y, x, 0] + LUMA[1] * rgb[y, x, 1] + LUMA[2] * rgb[y, x, 2]
        out[y, x] = uint8(min(255, round(value)))


@case(float64=True)
def to_grey(launch, rng):
    rgb = rng.integers(0, 256, (5, 6, 3)).astype(np.uint8)
    out = np.zeros((5, 6), np.uint8)
    launch(grey, (2, 2), (4, 4), rgb, out)
    equal(out, np.rint(rgb @ np.array([0.299, 0.587, 0.114])))


@cuda.jit
def resize(image, out):
    """Bilinear, with a function for the fraction."""
    i, j = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        y, fy = split(i, out.shape[0], image.shape[0])
        x, fx = split(j, out.shape[1], image.shape[1])
        y1, x1 = min(y + 1, image.shape[0] - 1), min(x + 1, image.shape[1] - 1)
        top = (1 - fx) * image[y, x] + fx * image[y, x1]
        bottom = (1 - fx) * image[y1, x] + fx * image[y1, x1]
        out[i, j] = (1 - fy) * top + fy * bottom


@cuda.jit(device=True)
def split(index, size, source):
    place = index * (source - 1) / (size - 1)
    whole = int(place)
    return whole, place - whole


@case
def bilinear_interpolation(launch, rng):
    image = rng.normal(size=(4, 5))
    out = np.zeros((7, 9))
    launch(resize, (2, 3), (4, 4), image, out)
    rows = np.stack([np.interp(np.linspace(0, 4, 9), np.arange(5), row) for row in image])
    close(out, np.stack([np.interp(np.linspace(0, 3, 7), np.arange(4), column) for column in rows.T], axis=1))


@cuda.jit
def mandelbrot(counts, left, top, step, iterations):
    """The classic of the first page, with its device function."""
    start_x, start_y = cuda.grid(2)
    stride_x, stride_y = cuda.gridsize(2)
    for x in range(start_x, counts.shape[1], stride_x):
        real = left + x * step
        for y in range(start_y, counts.shape[0], stride_y):
            counts[y, x] = escape(real, top + y * step, iterations)


@cuda.jit(device=True)
def escape(x, y, max_iters):
    i = 0
    real = x
    imag = y
    for i in range(max_iters):
        real2 = real * real
        imag2 = imag * imag
        if real2 + imag2 > 4.0:
            return i
        imag = 2 * real * imag + y
        real = real2 - imag2 + x
    return 255


@case(float64=True)
def escape_times(launch, rng):
    counts = np.zeros((9, 12), np.uint8)
    launch(mandelbrot, (2, 2), (4, 2), counts, -2.0, -1.0, 0.25, 20)
    c = (-2 + 0.25 * np.arange(12)) + 1j * (-1 + 0.25 * np.arange(9))[:, None]
    z, expected = c.copy(), np.full(c.shape, 255)
    for i in range(20):
        expected[(abs(z) ** 2 > 4) & (expected == 255)] = i
        z = np.where(abs(z) > 4, 9, z * z + c)
    equal(counts, expected)


@cuda.jit
def bilateral(image, out, sigma):
    """Weights that depend on the values; float32 throughout."""
    i = cuda.grid(1)
    n = image.shape[0]
    if i >= n:
        return
    centre = image[i]
    total = weight = np.float32(0.0)
    for j in range(max(i - 2, 0), min(i + 3, n)):
        d = (image[j] - centre) / sigma
        w = math.exp(-d * d)
        total += w * image[j]
        weight += w
    out[i] = total / weight


@case
def weights_from_values(launch, rng):
    image = rng.normal(size=21).astype(np.float32)
    out = np.zeros_like(image)
    launch(bilateral, 3, SIDE, image, out, np.float32(0.7))
    distance = np.abs(np.subtract.outer(np.arange(21), np.arange(21)))
    weights = np.exp(-((np.subtract.outer(image, image) / 0.7) ** 2)) * (distance <= 2)
    close(out, weights @ image / weights.sum(axis=1))


@cuda.jit
def summed_areas(image, table):
    """An integral image: sums along rows, a barrier, sums along columns."""
    t = cuda.threadIdx.x
    if t < image.shape[0]:
        run = 0
        for x in range(image.shape[1]):
            run += image[t, x]
            table[t, x] = run
    cuda.syncthreads()
    if t < image.shape[1]:
        for y in range(1, image.shape[0]):
            table[y, t] += table[y - 1, t]


@case
def integral_image(launch, rng):
    image = rng.integers(0, 99, (6, 9)).astype(np.int32)
    table = np.zeros((6, 9), np.int32)
    launch(summed_areas, 1, 10, image, table)
    equal(table, image.cumsum(axis=0).cumsum(axis=1))
