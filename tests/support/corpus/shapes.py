"""Grids, blocks, arrays, views and numbers of all shapes and types."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, int32, uint8

import warpdrive as wd

from .cases import case, close, equal

SIZES = (2, 3, 4)
WIDTH, DEPTH = 4, 3


@cuda.jit
def all_indices(out):
    """Every index of a launch in three dimensions, at the place that makes it unique."""
    x = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    y = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    z = cuda.blockIdx.z * cuda.blockDim.z + cuda.threadIdx.z
    width, height = cuda.gridDim.x * cuda.blockDim.x, cuda.gridDim.y * cuda.blockDim.y
    gx, gy, gz = cuda.grid(3)
    sx, sy, sz = cuda.gridsize(3)
    out[x, y, z] = (z * height + y) * width + x + 1000 * ((gz * sy + gy) * sx + gx) + sz


@case
def three_dimensional_launch(launch, rng):
    out = np.zeros((4, 6, 6), np.int64)
    launch(all_indices, (2, 2, 3), (2, 3, 2), out)
    x, y, z = np.indices((4, 6, 6))
    linear = (z * 6 + y) * 4 + x
    equal(out, 1001 * linear + 6)


@cuda.jit
def shared_of_three_dimensions(values, out):
    cube = cuda.shared.array(SIZES, int32)
    x, y, z = cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z
    cube[x, y, z] = values[x, y, z]
    cuda.syncthreads()
    out[z, y, x] = cube[1 - x, 2 - y, 3 - z]


@case
def shared_memory_of_three_dimensions(launch, rng):
    values = rng.integers(0, 99, SIZES).astype(np.int32)
    out = np.zeros(SIZES[::-1], np.int32)
    launch(shared_of_three_dimensions, 1, SIZES, values, out)
    equal(out, values[::-1, ::-1, ::-1].T)


@cuda.jit
def views(table, out):
    """Rows, columns, steps and parts of arguments, of shared and of local arrays."""
    shared = cuda.shared.array((WIDTH, 6), float32)
    own = cuda.local.array((2, 3), float32)
    i = cuda.threadIdx.x
    row = table[i]
    for k in range(6):
        shared[i, k] = row[k]
    cuda.syncthreads()
    column = shared[:, i]
    total = float32(0)
    for k in range(column.shape[0]):
        total += column[k]
    even = table[i, ::2]
    own[0, :] = 1
    for k in range(3):
        own[1, k] = even[k]
    upper = own[1:]
    last = table[-1 + WIDTH, 1:-1]
    out[i, 0] = total
    out[i, 1] = upper[0, 2] + own[0, 1]
    out[i, 2] = last[len(last) - 1]
    out[i, 3:5] = last.size
    out[i][5] = even.size + upper.ndim


@case
def views_of_arrays(launch, rng):
    table = rng.integers(0, 9, (WIDTH, 6)).astype(np.float32)
    out = np.zeros((WIDTH, 6), np.float32)
    launch(views, 1, WIDTH, table, out)
    equal(out[:, 0], table.sum(axis=0)[:4])
    equal(out[:, 1], table[:, 4] + 1)
    equal(out[:, 2], table[3, 4])
    equal(out[:, 3:5], 4)
    equal(out[:, 5], 5)


@cuda.jit
def types(b, i8, u8, i16, u16, i32, u32, i64, f32, f64, out):
    """One array of each type: what is written is cast, what is read is widened."""
    i = cuda.grid(1)
    if i < out.size:
        total = i8[i] + u8[i] + i16[i] + u16[i] + i32[i] + i64[i]
        out[i] = total + int(u32[i]) + int(f32[i]) + int(f64[i]) + (100 if b[i] else 0)
        b[i] = not b[i]
        i8[i] = -i8[i]
        u8[i] = total & 255
        i16[i] = total * -10
        u16[i] -= 1
        i32[i] = i32[i] // 3
        i64[i] = -(i64[i] // -2) + i64[i] % -5
        f32[i] = total
        f64[i] /= 3


@case
def every_type(launch, rng):
    kinds = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.float32, np.float64]
    arrays = [rng.integers(0, 2, 9).astype(np.bool_), *(rng.integers(1, 90, 9).astype(kind) for kind in kinds)]
    b, i8, u8, i16, u16, i32, u32, i64, f32, f64 = (array.copy() for array in arrays)
    out = np.zeros(9, np.int64)
    launch(types, 3, 3, *arrays, out)
    wide = [array.astype(np.int64) for array in (i8, u8, i16, u16, i32, i64)]
    total = sum(wide)
    equal(out, total + u32 + f32.astype(np.int64) + f64.astype(np.int64) + 100 * b)
    after = [~b, -i8, total % 256, -10 * total, u16 - 1, i32 // 3, u32, -(i64 // -2) + i64 % -5, total, f64 / 3]
    for found, expected in zip(arrays, after, strict=True):
        close(found, expected)


@cuda.jit
def scalars(out, whole, real, is_on, single):
    i = cuda.threadIdx.x
    out[i] = whole * i + real + (0.5 if is_on else 0.25) + single


@case
def numbers_as_arguments(launch, rng):
    out = np.zeros(4)
    launch(scalars, 1, 4, out, 3, 0.125, True, np.float32(10))
    equal(out, 3 * np.arange(4) + 10.625)
    launch(scalars, 1, 4, out, np.int16(-2), 1, False, np.float64(0))
    equal(out, -2 * np.arange(4) + 1.25)


@cuda.jit
def strided_arguments(a, b, out):
    x, y = cuda.grid(2)
    if x < out.shape[0] and y < out.shape[1]:
        out[x, y] = a[x, y] - b[y]


@case
def arguments_that_are_not_contiguous(launch, rng):
    whole = rng.integers(0, 99, (12, 10))
    for a, b in (
        (whole[::2, 1::3], whole[0, 2:8:2]),
        (whole.T[:6, :3], whole[:3, 5]),
        (whole[5::-1, 2::-1], whole[3, 8:2:-2]),
    ):
        out = np.zeros((6, 3), np.int64)
        launch(strided_arguments, (2, 2), (3, 2), a, b, out)
        equal(out, a - b)


@cuda.jit
def four_dimensions(a, out):
    """More dimensions of an array than of a launch."""
    i = cuda.grid(1)
    p, q, r, s = a.shape
    if i >= p * q * r * s:
        return
    place = i
    w = place % s
    place //= s
    z = place % r
    place //= r
    y, x = place % q, place // q
    out[w, z, y, x] = a[x, y, z, w] + a.ndim + a.strides[3]


@case
def arrays_of_four_dimensions(launch, rng):
    a = rng.integers(0, 99, (2, 3, 2, 4)).astype(np.int32)
    out = np.zeros((4, 2, 3, 2), np.int32)
    launch(four_dimensions, 4, 16, a, out)
    equal(out, a.T + 8)


@cuda.jit
def bits(x, out):
    i = cuda.grid(1)
    if i < x.size:
        v = x[i]
        parity = 0
        while v:
            parity ^= 1
            v &= v - 1
        gray = x[i] ^ (x[i] >> 1)
        out[i, 0] = parity
        out[i, 1] = gray
        out[i, 2] = ~x[i] & 0xFF | x[i] << 4
        out[i, 3] = x[i] // 7 * 7 + x[i] % 7 - (-x[i]) // 7 - (-x[i]) % 7


@case
def arithmetic_of_bits(launch, rng):
    x = rng.integers(0, 1000, 12)
    out = np.zeros((12, 4), np.int64)
    launch(bits, 3, 4, x, out)
    equal(out[:, 0], [bin(v).count("1") % 2 for v in x])
    equal(out[:, 1], x ^ x // 2)
    equal(out[:, 2], 255 - x % 256 | 16 * x)
    equal(out[:, 3], x - [divmod(-int(v), 7)[0] + divmod(-int(v), 7)[1] for v in x])


@wd.kernel
def blocks_of_one(out):
    """A shared array of one block is never that of another."""
    mine = cuda.shared.array(1, int32)
    mine[0] = cuda.blockIdx.x
    cuda.syncthreads()
    out[cuda.blockIdx.x] = mine[0] * 2


@case
def blocks_of_one_thread(launch, rng):
    out = np.zeros(20, np.int32)
    launch(blocks_of_one, 20, 1, out)
    equal(out, 2 * np.arange(20))


@cuda.jit
def empty_arrays(values, out):
    i = cuda.grid(1)
    total = 0
    for k in range(values.shape[0]):
        total += values[k, 0]
    out[i] = total + values.size + len(values)


@case
def arrays_without_elements(launch, rng):
    out = np.full(4, 7)
    launch(empty_arrays, 1, 4, np.zeros((0, 3), np.int64), out)
    equal(out, 0)
    launch(empty_arrays, 1, 4, np.ones((2, 3), np.int64), out)
    equal(out, 10)


@cuda.jit
def lookup(codes, out):
    """A table and a tuple of the module, and a local array as a small stack."""
    i = cuda.grid(1)
    if i >= codes.shape[0]:
        return
    stack = cuda.local.array(8, uint8)
    depth, deepest = 0, 0
    is_good = True
    for k in range(codes.shape[1]):
        code = codes[i, k]
        if code == 0:
            continue
        if code > 0:
            stack[depth] = code
            depth += 1
            deepest = max(deepest, depth)
        elif depth > 0 and stack[depth - 1] == -code:
            depth -= 1
        else:
            is_good = False
            break
    out[i] = deepest * SIZES[0] if is_good and depth == 0 else -1


@case
def stack_in_local_memory(launch, rng):
    codes = np.array([[1, 2, -2, -1, 3, -3, 0, 0], [1, 2, -1, -2, 0, 0, 0, 0], [1, 2, 3, 0, -3, -2, -1, 0], [1] * 8])
    out = np.zeros(4, np.int32)
    launch(lookup, 2, 3, codes.astype(np.int8), out)
    equal(out, [4, -1, 6, -1])
