"""Factorisations and solvers."""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32, float64, int32

from .cases import case, close, equal

N = 6


def well_conditioned(rng, *shape):
    return rng.normal(size=shape) + 4 * np.eye(shape[-1])


@cuda.jit
def lu_in_place(matrix):
    """Without pivots: a column of factors, a barrier, an update of the rest, a barrier."""
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    for k in range(N - 1):
        if i > k and j == k:
            matrix[i, k] /= matrix[k, k]
        cuda.syncthreads()
        if i > k and j > k:
            matrix[i, j] -= matrix[i, k] * matrix[k, j]
        cuda.syncthreads()


@case
def lu(launch, rng):
    matrix = well_conditioned(rng, N, N)
    factors = matrix.copy()
    launch(lu_in_place, 1, (N, N), factors)
    close((np.tril(factors, -1) + np.eye(N)) @ np.triu(factors), matrix, rtol=1e-9)


@cuda.jit
def gauss_jordan(matrices, rights, pivots):
    """With pivots, a system per block, the pivot found by one thread and shared by shared memory."""
    a = cuda.shared.array((N, N + 1), float64)
    chosen = cuda.shared.array((1,), int32)
    t, system = cuda.threadIdx.x, cuda.blockIdx.x
    for column in range(N):
        a[t, column] = matrices[system, t, column]
    a[t, N] = rights[system, t]
    for k in range(N):
        cuda.syncthreads()
        if t == 0:
            best = k
            for row in range(k + 1, N):
                if abs(a[row, k]) > abs(a[best, k]):
                    best = row
            chosen[0] = best
            pivots[system, k] = best
        cuda.syncthreads()
        pivot = chosen[0]
        if pivot != k:
            for column in range(t, N + 1, N):
                a[k, column], a[pivot, column] = a[pivot, column], a[k, column]
        cuda.syncthreads()
        factor = a[t, k] / a[k, k]
        cuda.syncthreads()
        if t != k:
            for column in range(k, N + 1):
                a[t, column] -= factor * a[k, column]
    cuda.syncthreads()
    rights[system, t] = a[t, N] / a[t, t]


@case
def elimination_with_pivots(launch, rng):
    matrices, rights = rng.normal(size=(2, N, N)), rng.normal(size=(2, N))
    expected = np.linalg.solve(matrices, rights[..., None])[..., 0]
    pivots = np.zeros((2, N), np.int32)
    launch(gauss_jordan, 2, N, matrices, rights, pivots)
    close(rights, expected, rtol=1e-8)
    assert (pivots >= np.arange(N)).all()


@cuda.jit
def cholesky(matrix, lower):
    """Column by column, a row per thread."""
    row = cuda.threadIdx.x
    for column in range(matrix.shape[0]):
        if row >= column:
            total = matrix[row, column]
            for k in range(column):
                total -= lower[row, k] * lower[column, k]
            if row == column:
                lower[row, column] = math.sqrt(total)
        cuda.syncthreads()
        if row > column:
            lower[row, column] = total / lower[column, column]
        cuda.syncthreads()


@case
def cholesky_factorisation(launch, rng):
    root = well_conditioned(rng, N, N)
    matrix = root @ root.T
    lower = np.zeros((N, N))
    launch(cholesky, 1, N, matrix, lower)
    close(lower, np.linalg.cholesky(matrix), rtol=1e-9)


@cuda.jit
def jacobi(a, b, x, x_new, residual):
    i = cuda.grid(1)
    n = x.size
    if i >= n:
        return
    total = b[i]
    for j in range(n):
        if j != i:
            total -= a[i, j] * x[j]
    x_new[i] = total / a[i, i]
    cuda.atomic.max(residual, 0, abs(x_new[i] - x[i]))


@case
def jacobi_until_it_converges(launch, rng):
    a, b = rng.normal(size=(9, 9)) + 20 * np.eye(9), rng.normal(size=9)
    x, x_new, residual = np.zeros(9), np.zeros(9), np.ones(1)
    rounds = 0
    while residual[0] > 1e-10:
        residual[0] = 0
        launch(jacobi, 3, 4, a, b, x, x_new, residual)
        x, x_new = x_new, x
        rounds += 1
        assert rounds < 50
    close(a @ x, b, rtol=1e-8)


@cuda.jit(device=True)
def block_dot(a, b, scratch):
    t = cuda.threadIdx.x
    cuda.syncthreads()
    scratch[t] = a * b
    cuda.syncthreads()
    s = cuda.blockDim.x // 2
    while s > 0:
        if t < s:
            scratch[t] += scratch[t + s]
        cuda.syncthreads()
        s >>= 1
    return scratch[0]


@cuda.jit
def conjugate_gradient(a, b, x, limit, iterations):
    """A whole solver in one block; the dot products are a device function with barriers."""
    scratch = cuda.shared.array(8, float64)
    p = cuda.shared.array(8, float64)
    i = cuda.threadIdx.x
    xi = 0.0
    ri = b[i]
    p[i] = ri
    rr = block_dot(ri, ri, scratch)
    count = 0
    while rr > limit:
        api = 0.0
        for j in range(8):
            api += a[i, j] * p[j]
        alpha = rr / block_dot(p[i], api, scratch)
        xi += alpha * p[i]
        ri -= alpha * api
        new = block_dot(ri, ri, scratch)
        p[i] = ri + new / rr * p[i]
        rr = new
        count += 1
        cuda.syncthreads()
        if count == 20:
            break
    x[i] = xi
    if i == 0:
        iterations[0] = count


@case
def conjugate_gradients(launch, rng):
    root = well_conditioned(rng, 8, 8)
    a, b = root @ root.T, rng.normal(size=8)
    x, iterations = np.zeros(8), np.zeros(1, np.int32)
    launch(conjugate_gradient, 1, 8, a, b, x, 1e-16, iterations)
    close(x, np.linalg.solve(a, b), rtol=1e-5, atol=1e-6)
    assert 3 < iterations[0] <= 20


@cuda.jit
def forward_substitution(lower, right, x):
    """Each solved unknown is broadcast; all threads subtract it."""
    known = cuda.shared.array(1, float32)
    row = cuda.threadIdx.x
    value = right[row]
    for k in range(cuda.blockDim.x):
        if row == k:
            value /= lower[k, k]
            known[0] = value
        cuda.syncthreads()
        if row > k:
            value -= lower[row, k] * known[0]
        cuda.syncthreads()
    x[row] = value


@case
def triangular_system(launch, rng):
    lower = np.tril(well_conditioned(rng, 7, 7)).astype(np.float32)
    lower[np.arange(7), np.arange(7)] = rng.uniform(1, 2, 7)
    right, x = rng.normal(size=7).astype(np.float32), np.zeros(7, np.float32)
    launch(forward_substitution, 1, 7, lower, right, x)
    close(lower @ x, right, rtol=1e-3, atol=1e-3)


@cuda.jit
def cyclic_reduction(a, b, c, d, x):
    """Tridiagonal: each step doubles the distance of the neighbours an equation knows."""
    sa = cuda.shared.array((2, 8), float64)
    sb = cuda.shared.array((2, 8), float64)
    sc = cuda.shared.array((2, 8), float64)
    sd = cuda.shared.array((2, 8), float64)
    i = cuda.threadIdx.x
    sa[0, i], sb[0, i], sc[0, i], sd[0, i] = a[i], b[i], c[i], d[i]
    cuda.syncthreads()
    now = 0
    distance = 1
    while distance < 8:
        na, nb, nc, nd = 0.0, sb[now, i], 0.0, sd[now, i]
        if i - distance >= 0:
            k = sa[now, i] / sb[now, i - distance]
            na = -k * sa[now, i - distance]
            nb -= k * sc[now, i - distance]
            nd -= k * sd[now, i - distance]
        if i + distance < 8:
            k = sc[now, i] / sb[now, i + distance]
            nc = -k * sc[now, i + distance]
            nb -= k * sa[now, i + distance]
            nd -= k * sd[now, i + distance]
        now = 1 - now
        sa[now, i] = na
        sb[now, i] = nb
        sc[now, i] = nc
        sd[now, i] = nd
        distance *= 2
        cuda.syncthreads()
    x[i] = sd[now, i] / sb[now, i]


@case
def tridiagonal_system(launch, rng):
    a, c = rng.normal(size=(2, 8))
    a[0] = c[-1] = 0
    b, d = rng.uniform(4, 5, 8), rng.normal(size=8)
    x = np.zeros(8)
    launch(cyclic_reduction, 1, 8, a, b, c, d, x)
    close((np.diag(b) + np.diag(a[1:], -1) + np.diag(c[:-1], 1)) @ x, d, rtol=1e-9)


@cuda.jit
def power_iteration(matrix, vector, value, rounds):
    """The norm is a reduction in the block; the vector lives in shared memory."""
    v = cuda.shared.array(N, float64)
    squares = cuda.shared.array(1, float64)
    i = cuda.threadIdx.x
    v[i] = vector[i]
    cuda.syncthreads()
    for _ in range(rounds):
        w = 0.0
        for j in range(N):
            w += matrix[i, j] * v[j]
        if i == 0:
            squares[0] = 0.0
        cuda.syncthreads()
        cuda.atomic.add(squares, 0, w * w)
        cuda.syncthreads()
        v[i] = w / math.sqrt(squares[0])
        cuda.syncthreads()
    vector[i] = v[i]
    if i == 0:
        value[0] = math.sqrt(squares[0])


@case
def largest_eigenvalue(launch, rng):
    root = rng.normal(size=(N, N))
    matrix = root @ root.T + 10 * np.outer(np.ones(N), np.ones(N))
    vector, value = np.ones(N), np.zeros(1)
    launch(power_iteration, 1, N, matrix, vector, value, 12)
    values, vectors = np.linalg.eigh(matrix)
    close(value, values[-1:], rtol=1e-4)
    close(abs(vector), abs(vectors[:, -1]), rtol=1e-2, atol=1e-2)


@cuda.jit
def givens(matrices, angles):
    """Two by two matrices made diagonal, in registers."""
    m = cuda.grid(1)
    if m < matrices.shape[0]:
        a, b, c = matrices[m, 0, 0], matrices[m, 0, 1], matrices[m, 1, 1]
        theta = 0.5 * math.atan2(2.0 * b, a - c)
        angles[m] = theta
        co, si = math.cos(theta), math.sin(theta)
        matrices[m, 0, 0] = co * co * a + 2 * co * si * b + si * si * c
        matrices[m, 1, 1] = si * si * a - 2 * co * si * b + co * co * c
        matrices[m, 0, 1] = matrices[m, 1, 0] = (co * co - si * si) * b + co * si * (c - a)


@case
def small_eigenproblems(launch, rng):
    matrices = rng.normal(size=(10, 2, 2))
    matrices += matrices.swapaxes(1, 2)
    values = np.linalg.eigvalsh(matrices)
    launch(givens, 3, 4, matrices, np.zeros(10))
    close(matrices[:, 0, 0], values[:, 1], rtol=1e-9)
    close(matrices[:, 1, 1], values[:, 0], rtol=1e-9)
    close(matrices[:, 0, 1], 0, atol=1e-12)


@cuda.jit
def is_permutation(orders, good):
    """Marks what has been seen in the bits of a number."""
    row = cuda.grid(1)
    if row < orders.shape[0]:
        seen = 0
        for k in range(orders.shape[1]):
            seen |= 1 << int(orders[row, k])
        good[row] = seen == (1 << orders.shape[1]) - 1


@case
def permutations(launch, rng):
    orders = np.stack([rng.permutation(10) for _ in range(6)]).astype(np.int8)
    orders[2, 4] = orders[2, 5]
    good = np.zeros(6, np.bool_)
    launch(is_permutation, 1, 8, orders, good)
    equal(good, [True, True, False, True, True, True])
