"""Matrix products, transposition and other work on whole matrices."""

from __future__ import annotations

import numba
import numpy as np
from numba import cuda, float32, int32

from .cases import case, close, equal

TPB = 4


@cuda.jit
def naive(A, B, C):
    i, j = cuda.grid(2)
    if i < C.shape[0] and j < C.shape[1]:
        tmp = 0.0
        for k in range(A.shape[1]):
            tmp += A[i, k] * B[k, j]
        C[i, j] = tmp


@case
def product(launch, rng):
    a, b = rng.normal(size=(6, 9)), rng.normal(size=(9, 5))
    c = np.zeros((6, 5))
    launch(naive, (2, 2), (4, 4), a, b, c)
    close(c, a @ b, rtol=1e-12)


@cuda.jit
def with_double_buffer(a, b, c):
    """While one pair of tiles is multiplied the next one is loaded."""
    sa = cuda.shared.array((2, TPB, TPB), int32)
    sb = cuda.shared.array((2, TPB, TPB), int32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    row = cuda.blockIdx.y * TPB + ty
    col = cuda.blockIdx.x * TPB + tx
    tiles = a.shape[1] // TPB
    sa[0, ty, tx] = a[row, tx]
    sb[0, ty, tx] = b[ty, col]
    cuda.syncthreads()
    now, later = 0, 1
    acc = 0
    for t in range(tiles):
        if t + 1 < tiles:
            sa[later, ty, tx] = a[row, (t + 1) * TPB + tx]
            sb[later, ty, tx] = b[(t + 1) * TPB + ty, col]
        for k in range(TPB):
            acc += sa[now, ty, k] * sb[now, k, tx]
        cuda.syncthreads()
        now, later = later, now
    c[row, col] = acc


@case
def product_with_tiles_loaded_ahead(launch, rng):
    a, b = rng.integers(-9, 9, (8, 12)).astype(np.int32), rng.integers(-9, 9, (12, 8)).astype(np.int32)
    c = np.zeros((8, 8), np.int32)
    launch(with_double_buffer, (2, 2), (TPB, TPB), a, b, c)
    equal(c, a @ b)


@cuda.jit
def several_results_per_thread(a, b, c):
    """A column of results in local memory; padded tiles."""
    sa = cuda.shared.array(shape=(8, 4 + 1), dtype=float32)
    sb = cuda.shared.array(shape=(4, 8), dtype=float32)
    acc = cuda.local.array(4, float32)
    tid = cuda.threadIdx.x
    column = tid % 8
    first_row = tid // 8 * 4
    for r in range(4):
        acc[r] = 0
    for base in range(0, a.shape[1], 4):
        for load in range(2):
            element = tid + 16 * load
            sa[element // 4, element % 4] = a[cuda.blockIdx.y * 8 + element // 4, base + element % 4]
            sb[element // 8, element % 8] = b[base + element // 8, cuda.blockIdx.x * 8 + element % 8]
        cuda.syncthreads()
        for k in range(4):
            factor = sb[k, column]
            for r in range(4):
                acc[r] += sa[first_row + r, k] * factor
        cuda.syncthreads()
    for r in range(4):
        c[cuda.blockIdx.y * 8 + first_row + r, cuda.blockIdx.x * 8 + column] = acc[r]


@case
def product_with_results_in_local_memory(launch, rng):
    a, b = rng.integers(-9, 9, (2, 16, 16)).astype(np.float32)
    c = np.zeros((16, 16), np.float32)
    launch(several_results_per_thread, (2, 2), 16, a, b, c)
    equal(c, a @ b)


@cuda.jit
def transpose_padded(a, out):
    """Reads and writes rows; the extra column keeps the banks apart."""
    tile = cuda.shared.array((8, 9), numba.float64)
    x = cuda.blockIdx.x * 8 + cuda.threadIdx.x
    y = cuda.blockIdx.y * 8 + cuda.threadIdx.y
    for j in range(0, 8, 2):
        if x < a.shape[1] and y + j < a.shape[0]:
            tile[cuda.threadIdx.y + j, cuda.threadIdx.x] = a[y + j, x]
    cuda.syncthreads()
    x = cuda.blockIdx.y * 8 + cuda.threadIdx.x
    y = cuda.blockIdx.x * 8 + cuda.threadIdx.y
    for j in range(0, 8, 2):
        if x < out.shape[1] and y + j < out.shape[0]:
            out[y + j, x] = tile[cuda.threadIdx.x, cuda.threadIdx.y + j]


@case
def transposition(launch, rng):
    a = rng.normal(size=(13, 10))
    out = np.zeros((10, 13))
    launch(transpose_padded, (2, 2), (8, 2), a, out)
    equal(out, a.T)


@cuda.jit
def batched(a, b, c, alpha):
    """A matrix per block along z, with matrices that are not contiguous."""
    z = cuda.blockIdx.z
    for i in range(cuda.threadIdx.x, c.shape[1], cuda.blockDim.x):
        for j in range(cuda.threadIdx.y, c.shape[2], cuda.blockDim.y):
            total = 0
            for k in range(a.shape[2]):
                total += a[z, i, k] * b[z, k, j]
            c[z, i, j] += alpha * total


@case
def products_of_a_batch_in_fortran_order(launch, rng):
    a = np.asfortranarray(rng.integers(-9, 9, (3, 4, 6)))
    b = rng.integers(-9, 9, (6, 5, 3)).T.swapaxes(1, 2)
    c = np.ones((3, 4, 5), np.int64)
    launch(batched, (1, 1, 3), (2, 3), a, b, c, 2)
    equal(c, 1 + 2 * a @ b)


@cuda.jit
def sparse_times_vector(offsets, columns, data, x, y):
    """Rows of a sparse matrix, compressed; four threads share a row."""
    parts = cuda.shared.array((4, 4), float32)
    lane, local_row = cuda.threadIdx.x, cuda.threadIdx.y
    row = cuda.blockIdx.x * cuda.blockDim.y + local_row
    total = float32(0)
    if row < y.size:
        for k in range(offsets[row] + lane, offsets[row + 1], 4):
            total += data[k] * x[columns[k]]
    parts[local_row, lane] = total
    cuda.syncthreads()
    if lane == 0 and row < y.size:
        y[row] = parts[local_row, 0] + parts[local_row, 1] + parts[local_row, 2] + parts[local_row, 3]


@case
def sparse_matrix_and_vector(launch, rng):
    dense = rng.integers(1, 9, (10, 12)) * (rng.random((10, 12)) < 0.4)
    offsets = np.concatenate([[0], (dense != 0).sum(axis=1).cumsum()]).astype(np.int32)
    columns = np.nonzero(dense)[1].astype(np.int32)
    data, x = dense[dense != 0].astype(np.float32), rng.integers(-9, 9, 12).astype(np.float32)
    y = np.zeros(10, np.float32)
    launch(sparse_times_vector, 3, (4, 4), offsets, columns, data, x, y)
    equal(y, dense @ x)


@cuda.jit
def power(matrix, exponent, result):
    """Squares again and again inside one block, in shared memory."""
    base = cuda.shared.array((3, 3), numba.int64)
    out = cuda.shared.array((3, 3), numba.int64)
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    base[i, j] = matrix[i, j]
    out[i, j] = 1 if i == j else 0
    cuda.syncthreads()
    while exponent > 0:
        if exponent & 1:
            value = out[i, 0] * base[0, j] + out[i, 1] * base[1, j] + out[i, 2] * base[2, j]
            cuda.syncthreads()
            out[i, j] = value
            cuda.syncthreads()
        value = 0
        for k in range(3):
            value += base[i, k] * base[k, j]
        cuda.syncthreads()
        base[i, j] = value
        cuda.syncthreads()
        exponent >>= 1
    result[i, j] = out[i, j]


@case
def powers_by_squaring(launch, rng):
    matrix = rng.integers(-2, 3, (3, 3))
    result = np.zeros((3, 3), np.int64)
    launch(power, 1, (3, 3), matrix, 11, result)
    equal(result, np.linalg.matrix_power(matrix, 11))


@cuda.jit
def pairwise_distances(points, others, out):
    """Tiles of points of a dimension known only at the launch."""
    tile = cuda.shared.array((TPB, TPB), float32)
    mine = cuda.shared.array((TPB, TPB), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.grid(2)
    d = points.shape[1]
    total = float32(0.0)
    for start in range(0, d, TPB):
        k = start + ty
        mine[tx, ty] = points[x, k] if x < points.shape[0] and k < d else float32(0)
        k = start + tx
        tile[tx, ty] = others[y, k] if y < others.shape[0] and k < d else float32(0)
        cuda.syncthreads()
        for k in range(TPB):
            difference = mine[tx, k] - tile[k, ty]
            total += difference * difference
        cuda.syncthreads()
    if x < out.shape[0] and y < out.shape[1]:
        out[x, y] = total


@case
def distances(launch, rng):
    points, others = rng.normal(size=(7, 6)).astype(np.float32), rng.normal(size=(5, 6)).astype(np.float32)
    out = np.zeros((7, 5), np.float32)
    launch(pairwise_distances, (2, 2), (TPB, TPB), points, others, out)
    close(out, ((points[:, None] - others) ** 2).sum(axis=2))
